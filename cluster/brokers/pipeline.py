"""From a frame to an answer: header, dispatch, decode, handle, encode, send.

The one place where a domain error becomes a fate: what a peer did wrong closes its connection, a
bug of ours is logged with its trace and closes it too, since no correct answer is known.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from cluster.brokers.handlers.request import (
    NO_ANSWER,
    PARKED,
    Handler,
    RequestContext,
    Services,
)
from cluster.brokers.network.channel import Channel, Outgoing
from cluster.brokers.quota_throttle import QuotaThrottle, size_of
from cluster.model.errors import PeerError
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header

log = logging.getLogger(__name__)

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


class Pipeline:
    """Dispatches the requests of all channels of one broker."""

    def __init__(
        self, handlers: Iterable[Handler], services: Services, throttle: QuotaThrottle
    ) -> None:
        self._handlers = {int(handler.api.key): handler for handler in handlers}
        self._services = services
        self._throttle = throttle
        self._clock = services.clock
        self._counters = services.counters

    def on_frame(self, channel: Channel, frame: memoryview) -> None:
        """Process one request. Raises PeerError, upon which the channel closes."""
        began_us = self._clock.monotonic_us()
        header = parse_request_header(frame)
        handler = self._handlers.get(header.api_key)
        if handler is None:
            raise PeerError(f"API key {header.api_key} is not supported")
        version = header.api_version
        # ApiVersions answers even versions that it does not know (KIP-511).
        if not handler.api.serves(version) and header.api_key != ApiKey.API_VERSIONS:
            raise PeerError(
                f"{handler.api.key.name} version {version} is not supported"
                f" ({handler.api.min_version}-{handler.api.max_version} are)"
            )
        context = RequestContext(
            header.api_key,
            version,
            header.correlation_id,
            header.client_id,
            channel,
            self._send,
            len(frame),
            began_us,
        )
        try:
            request = handler.decode(version, frame, header.body_position)
            response = handler.handle(request, context, self._services)
            if response is PARKED:
                context.handled_us = self._clock.monotonic_us() - began_us
                context.began_us = None
            else:
                self._send(context, response)
        except PeerError:
            raise
        except Exception as error:
            log.exception("failed to handle %s from %s", handler.api.key.name, channel.peer)
            raise PeerError(f"internal error while handling {handler.api.key.name}") from error

    def _send(self, context: RequestContext, response: Any) -> None:
        """Answer, and count what the request used: who is over a quota is held back afterwards."""
        handler = self._handlers[context.api_key]
        throttle = self._throttle
        user, client_id = context.user, context.client_id or ""
        began_us = context.began_us
        handling_us = (
            context.handled_us if began_us is None else self._clock.monotonic_us() - began_us
        )
        version, correlation_id = context.version, context.correlation_id
        buffers: list[Outgoing] | None = None
        counters = self._counters
        if context.api_key == _FETCH:
            buffers = handler.encode(version, correlation_id, response, 0)
            delay = throttle.on_fetched(user, client_id, size_of(buffers), handling_us)
            if delay.ms:
                buffers = handler.encode(version, correlation_id, response, delay.ms)
            if counters is not None:
                counters.note_fetch_us(handling_us)
                if not delay.ms:
                    counters.on_fetched(response[0])
        else:
            if context.api_key == _PRODUCE:
                delay = throttle.on_produced(user, client_id, context.size_bytes, handling_us)
                if counters is not None:
                    counters.note_produce_us(handling_us)
            else:
                delay = throttle.on_request(user, client_id, handling_us)
                if counters is not None:
                    counters.requests[context.api_key] += 1
            if response is not NO_ANSWER:
                buffers = handler.encode(version, correlation_id, response, delay.ms)
        if delay.ms:
            if counters is not None:
                counters.throttled += 1
                counters.throttle_ms += delay.ms
            throttle.respond(context.channel, user, client_id, buffers, delay)
        else:
            context.channel.respond(buffers)
