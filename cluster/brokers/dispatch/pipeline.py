"""The pipeline of a request: parse the header, dispatch, decode, handle, encode, send.

All errors are handled here: a peer's protocol error closes its connection; a bug in the broker is
logged with its traceback and also closes the connection, since no correct answer is known.
Everything specific to an API is in its row of `HANDLERS`.
"""

import logging
import struct
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from cluster.brokers.handlers.request import (
    APPENDED,
    NO_ANSWER,
    PARKED,
    Handler,
    RequestContext,
    Route,
    Throttled,
)
from cluster.brokers.handlers.services import ServicesOfFamilies
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.network.connection import Connection, Outgoing, PendingLogin
from cluster.brokers.throttling.throttle import QuotaThrottle
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import PeerError
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header
from cluster.quotas.account import Delay
from cluster.quotas.client_accounts import ClientAccounts
from cluster.quotas.client_quotas import ClientQuotas
from cluster.runtime.clock import Clock
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_api_and_correlation: Final = struct.Struct(">ii").unpack_from
_PRODUCE: Final = int(ApiKey.PRODUCE)
_TAIL: Final = 8
"""The position in the header after the correlation id."""

_REMEMBERED_TAIL_BYTES: Final = 512
"""The size limit of cached headers: a client id may have 32 KiB, in every version of every API."""
OTHER_MAX_BYTES: Final = 4 * 1024 * 1024
"""The size limit of every request but Produce: only Produce carries records, so another large
request would become Python objects entirely.
"""
_FREE_TO_PARK_BYTES: Final = 16 * 1024
"""The size up to which a parked request is not counted. Produce requests are not counted either,
because their records are in the log.
"""
PARKED_FACTOR: Final = 24
"""The maximal ratio of a parked request's memory to its size: a fetched partition of 16 bytes
becomes a tuple, its numbers, and a key in the purgatory.
"""

_MEAN_OVER: Final = 32
"""The requests whose times make up most of `Route.mean_us`."""
_LONG_NS: Final = 1_000_000
"""The duration from which a request is charged immediately."""


class Pipeline:
    """Dispatches the requests of all channels of one broker."""

    def __init__(
        self,
        handlers: Iterable[Handler[Any]],
        services: ServicesOfFamilies,
        quotas: ClientQuotas,
        throttle: QuotaThrottle,
        counters: BrokerCounters | None,
        clock: Clock,
        loop: EventLoop,
    ) -> None:
        by_type = services.by_type()
        self._handlers = {
            int(handler.api.key): (handler, by_type[handler.takes]) for handler in handlers
        }
        self._quotas = quotas
        self._counters = counters
        self._monotonic_ns = clock.monotonic_ns
        self._throttle = throttle
        self._loop = loop
        self._nobody = ClientAccounts(quotas, "", "")
        """The accounts of connections that have not logged in; they are never charged."""

    def may_go_ahead(self, channel: Connection, frame: memoryview) -> bool:
        """Whether a request, given by its first bytes, may be processed while earlier ones wait for
        their answers: Produce, whose answers the channel puts in order.
        """
        return frame[0] == 0 and frame[1] == _PRODUCE and channel.login is None

    def on_frame(self, channel: Connection, frame: memoryview) -> None:
        """Process one request. Raises PeerError, which closes the channel."""
        began_ns = self._monotonic_ns()
        login = channel.login
        if login is not None and self._is_taken(login, channel, frame):
            return
        try:
            api_and_version, correlation_id = _api_and_correlation(frame)
        except struct.error:
            raise PeerError(f"request header of {len(frame)} bytes is too short") from None
        route = channel.routes.get(api_and_version)
        if route is None or frame[_TAIL : route.body_position] != route.header_tail:
            route = self._new_route(channel, frame)
            # Unsupported versions are not cached, because there may be any number of them.
            is_served = route.handler.api.serves(route.version)
            if is_served and len(route.header_tail) <= _REMEMBERED_TAIL_BYTES:
                channel.routes[api_and_version] = route
        handler = route.handler
        if len(frame) > OTHER_MAX_BYTES and not handler.carries_records:
            raise PeerError(
                f"{handler.api.key.name} request of {len(frame)} bytes is too large: only"
                f" Produce may have more than {OTHER_MAX_BYTES}"
            )
        context = RequestContext(route, correlation_id, channel, self._answer, len(frame), began_ns)
        try:
            request = handler.decode(route.version, frame, route.body_position)
            response = handler.handle(request, context, route.services)
            if response is PARKED:
                context.handled_ns = self._monotonic_ns()
                if len(frame) > _FREE_TO_PARK_BYTES and not handler.carries_records:
                    channel.hold(PARKED_FACTOR * len(frame))
            else:
                self._send(context, response)
        except PeerError:
            raise
        except Exception as error:
            raise _internal(handler.api.key.name, channel) from error

    def _is_taken(self, login: PendingLogin, channel: Connection, frame: memoryview) -> bool:
        """Whether the pending login handled the request. Raises PeerError."""
        try:
            return login.on_frame(channel, frame)
        except PeerError:
            raise
        except Exception as error:
            raise _internal("the login", channel) from error

    def _new_route(self, channel: Connection, frame: memoryview) -> Route:
        """Create the route of a connection's first request of its kind. Raises PeerError."""
        header = parse_request_header(frame)
        found = self._handlers.get(header.api_key)
        if found is None:
            raise PeerError(f"API key {header.api_key} is not supported")
        handler, services = found
        version = header.api_version
        is_served = handler.api.serves(version)
        if not is_served and not handler.answers_any_version:
            raise PeerError(
                f"{handler.api.key.name} version {version} is not supported"
                f" (supported: {handler.api.min_version}-{handler.api.max_version})"
            )
        if channel.login is not None:
            handler, accounts = replace(handler, charge=self._charge_nobody), self._nobody
        else:
            accounts = ClientAccounts(self._quotas, channel.principal, header.client_id or "")
            channel.payer.on_closed = lambda owed_ns: accounts.on_left(owed_ns, self._loop.now_ms)
            self._throttle.connected.on_request_kind(channel, *accounts.client)
        counters, kind = self._counters, None
        if counters is not None:
            kind = counters.kind_of(header.api_key, version if is_served else None)
        return Route(
            handler,
            services,
            version,
            header.client_id,
            bytes(frame[_TAIL : header.body_position]),
            header.body_position,
            accounts,
            kind,
            None if kind is None else kind.tickets.pop,
        )

    def _charge_nobody(
        self, _accounts: ClientAccounts, used_us: int, _size_bytes: int, _now_ms: MonotonicMs
    ) -> None:
        """Charge the time of a client that has not logged in to no client (`exempt`)."""
        self._loop.time.exempt.owed_ns += used_us * 1_000

    def _answer(self, context: RequestContext, response: Any) -> None:
        """Answer a parked request, charging its client with the time."""
        time = self._loop.time
        payer = time.payer
        own = context.channel.payer
        if payer is own:
            self._send(context, response)
            return
        time.switch(own)
        self._send(context, response)
        time.switch(payer)

    def _send(self, context: RequestContext, response: Any) -> None:
        """Answer, and charge the client; a client over its quota is muted afterwards.

        With APPENDED, only charge the client, and let the connection go on if there is no delay.
        The thread's time for this request is charged with the client's next request, since the
        answer has yet to be encoded and sent.
        """
        route = context.route
        handler = route.handler
        channel = context.channel
        answered_ns = self._monotonic_ns()
        handled_ns = context.handled_ns or answered_ns
        pending, throttled = context.pending, context.throttled
        delay: Delay | None = None
        if throttled is not None:
            delay = throttled.left(self._loop.now_ms)
        elif pending is None:
            measure = handler.measure
            size_bytes = context.size_bytes if measure is None else measure(route.version, response)
            if handled_ns - context.began_ns >= _LONG_NS:
                self._loop.time.settle()
            payer = channel.payer
            owed_us = payer.take_us() if payer.owed_ns >= 1_000 else 0
            delay = handler.charge(route.accounts, owed_us, size_bytes, self._loop.now_ms)
            if context.mutations is not None:
                delay = context.mutations.larger(delay)
        if response is APPENDED:
            self._go_on(context, handled_ns, delay)
            return
        if channel.pending_count and pending is None:
            if not self._take_place(context, response, delay):
                return
            pending = context.pending
        take_ticket = route.take_ticket
        if take_ticket is not None and take_ticket():
            delay_ms = 0 if delay is None else delay.ms
            self._time(context, response, handled_ns, answered_ns, delay_ms)
        counters = self._counters
        if handler.errors_in is not None and counters is not None:
            for code in handler.errors_in(response):
                counters.on_error(handler.api.key, code)
        if delay is not None:
            self._send_throttled(context, response, delay)
            return
        buffers: list[Outgoing] | None = None
        if response is not NO_ANSWER:
            buffers = handler.encode(route.version, context.correlation_id, response, 0)
        if handler.note_sent is not None and counters is not None:
            handler.note_sent(counters, response)
        if pending is not None and buffers is not None:
            pending.respond(buffers)
        else:
            channel.respond(buffers)

    def _go_on(self, context: RequestContext, handled_ns: int, delay: Delay | None) -> None:
        """Let the connection's next request overtake this one, or begin its delay: then the next
        one waits for both.
        """
        context.handled_ns = handled_ns
        if delay is None:
            context.pending = context.channel.go_on(context.weight)
        else:
            context.throttled = Throttled(delay, self._loop.now_ms)

    def _take_place(self, context: RequestContext, response: Any, delay: Delay | None) -> bool:
        """Place an answer behind the pending ones; False if it is only given after them, because
        it is throttled and the mute begins with it.
        """
        if delay is None:
            if response is not NO_ANSWER:
                context.pending = context.channel.go_on(context.weight)
            return True
        if context.throttled is None:
            context.throttled = Throttled(delay, self._loop.now_ms)
        context.channel.after_earlier(lambda: self._send(context, response))
        return False

    def _time(
        self,
        context: RequestContext,
        response: Any,
        handled_ns: int,
        answered_ns: int,
        throttle_ms: int,
    ) -> None:
        """Time this request once its answer is sent."""
        route = context.route
        kind = route.kind
        assert kind is not None
        assert self._counters is not None
        channel, pending = context.channel, context.pending
        arrived_ns = channel.arrived_ns if pending is None else pending.arrived_ns
        # What this client waited for, beside what it may push of its own view (KIP-714).
        route.timed_count = count = route.timed_count + 1
        share = _MEAN_OVER if count > _MEAN_OVER else count
        route.mean_us += ((answered_ns - arrived_ns) / 1_000 - route.mean_us) / share
        note = partial(
            self._counters.times.note,
            kind.api,
            kind.on_timed(),
            arrived_ns,
            context.began_ns,
            handled_ns,
            answered_ns,
            throttle_ms,
        )
        if response is NO_ANSWER:
            note(answered_ns, answered_ns)
        elif pending is not None:
            pending.note = note
        else:
            channel.answered.append(note)

    def _send_throttled(self, context: RequestContext, response: Any, delay: Delay) -> None:
        handler = context.route.handler
        if handler.without_data is not None and not delay.sends_data:
            response = handler.without_data(response)
        buffers: list[Outgoing] | None = None
        if response is not NO_ANSWER:
            version = context.route.version
            buffers = handler.encode(version, context.correlation_id, response, delay.ms)
        counters = self._counters
        if counters is not None:
            if delay.sends_data and handler.note_sent is not None:
                handler.note_sent(counters, response)
            counters.throttled += 1
            counters.throttle_ms += delay.ms
        self._throttle.respond(context.channel, buffers, delay)


def _internal(what: str, channel: Connection) -> PeerError:
    """Log the exception being handled, which is a bug in the broker, with its traceback."""
    log.exception("failed to handle %s from %s", what, channel.peer, extra=of_peer(channel.host))
    return PeerError(f"internal error while handling {what}")
