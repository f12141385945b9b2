"""From a frame to an answer: header, dispatch, decode, handle, encode, send.

The one place where errors are handled: what a peer did wrong closes its connection; a bug of ours
is logged with its trace and closes it too, since no correct answer is known. Everything that is
particular to an API is in its row of `HANDLERS`.
"""

import logging
import struct
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

from cluster.brokers.handlers.request import (
    NO_ANSWER,
    PARKED,
    Handler,
    RequestContext,
    Route,
)
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.connection import Connection, Outgoing
from cluster.brokers.quotas.client_accounts import ClientAccounts
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.brokers.quotas.throttle import QuotaThrottle
from cluster.model.errors import PeerError
from cluster.protocol.framing import parse_request_header
from cluster.runtime.clock import Clock
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_api_and_correlation: Final = struct.Struct(">ii").unpack_from
_TAIL: Final = 8
"""Where the header goes on after the correlation id."""

_REMEMBERED_TAIL_BYTES: Final = 512
"""Longer headers are not cached: a client id may have 32 KiB, in every version of every API."""
OTHER_MAX_BYTES: Final = 4 * 1024 * 1024
"""Only Produce carries records; a larger request of another kind would be nothing but objects."""
_FREE_TO_PARK_BYTES: Final = 16 * 1024
"""A parked request of no more is not counted; a produce request leaves its records in the log."""
PARKED_FACTOR: Final = 24
"""How many times its size a parked request takes, at the most: a fetched partition of 16 bytes
becomes a tuple, its numbers, and a key in the purgatory.
"""

S = TypeVar("S")


class Pipeline(Generic[S]):
    """Dispatches the requests of all channels of one broker."""

    def __init__(
        self,
        handlers: Iterable[Handler[S]],
        services: S,
        quotas: ClientQuotas,
        throttle: QuotaThrottle,
        counters: BrokerCounters | None,
        clock: Clock,
        loop: EventLoop,
    ) -> None:
        self._handlers = {int(handler.api.key): handler for handler in handlers}
        self._services = services
        self._quotas = quotas
        self._counters = counters
        self._monotonic_ns = clock.monotonic_ns
        self._throttle = throttle
        self._loop = loop

    def on_frame(self, channel: Connection, frame: memoryview) -> None:
        """Process one request. Raises PeerError, upon which the channel closes."""
        began_ns = self._monotonic_ns()
        try:
            api_and_version, correlation_id = _api_and_correlation(frame)
        except struct.error:
            raise PeerError(f"request header of {len(frame)} bytes is too short") from None
        route = channel.routes.get(api_and_version)
        if route is None or frame[_TAIL : route.body_position] != route.header_tail:
            route = self._new_route(channel, frame)
            # Of versions that are not served there may be any number: those are not remembered.
            is_served = route.handler.api.serves(route.version)
            if is_served and len(route.header_tail) <= _REMEMBERED_TAIL_BYTES:
                channel.routes[api_and_version] = route
        handler = route.handler
        if len(frame) > OTHER_MAX_BYTES and not handler.carries_records:
            raise PeerError(
                f"{handler.api.key.name} request of {len(frame)} bytes, only Produce may have more"
                f" than {OTHER_MAX_BYTES}"
            )
        context = RequestContext(route, correlation_id, channel, self._send, len(frame), began_ns)
        try:
            request = handler.decode(route.version, frame, route.body_position)
            response = handler.handle(request, context, self._services)
            if response is PARKED:
                context.handled_us = (self._monotonic_ns() - began_ns) // 1_000
                context.began_ns = None
                if len(frame) > _FREE_TO_PARK_BYTES and not handler.carries_records:
                    channel.hold(PARKED_FACTOR * len(frame))
            else:
                self._send(context, response)
        except PeerError:
            raise
        except Exception as error:
            log.exception(
                "failed to handle %s from %s",
                handler.api.key.name,
                channel.peer,
                extra=of_peer(channel.peer.rpartition(":")[0]),
            )
            raise PeerError(f"internal error while handling {handler.api.key.name}") from error

    def _new_route(self, channel: Connection, frame: memoryview) -> Route:
        """The first request of its kind on this connection. Raises PeerError."""
        header = parse_request_header(frame)
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise PeerError(f"API key {header.api_key} is not supported")
        version = header.api_version
        if not handler.api.serves(version) and not handler.answers_any_version:
            raise PeerError(
                f"{handler.api.key.name} version {version} is not supported"
                f" ({handler.api.min_version}-{handler.api.max_version} are)"
            )
        counters = self._counters
        return Route(
            handler,
            version,
            header.client_id,
            bytes(frame[_TAIL : header.body_position]),
            header.body_position,
            ClientAccounts(self._quotas, channel.principal, header.client_id or ""),
            None if counters is None else counters.note_us(header.api_key),
        )

    def _send(self, context: RequestContext, response: Any) -> None:
        """Answer, and charge what the request used: a client over its quota is muted afterwards."""
        route = context.route
        handler = route.handler
        began_ns = context.began_ns
        handling_us = (
            context.handled_us if began_ns is None else (self._monotonic_ns() - began_ns) // 1_000
        )
        measure = handler.measure
        size_bytes = context.size_bytes if measure is None else measure(route.version, response)
        delay = handler.charge(route.accounts, handling_us, size_bytes, self._loop.now_ms)
        delay_ms = 0 if delay is None else delay.ms
        if route.note_us is not None:
            route.note_us(handling_us)
        buffers: list[Outgoing] | None = None
        if response is not NO_ANSWER:
            buffers = handler.encode(route.version, context.correlation_id, response, delay_ms)
        counters = self._counters
        if delay is None:
            if counters is not None and handler.note_sent is not None:
                handler.note_sent(counters, response)
            context.channel.respond(buffers)
            return
        if counters is not None:
            counters.throttled += 1
            counters.throttle_ms += delay_ms
        self._throttle.respond(context.channel, buffers, delay)
