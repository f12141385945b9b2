"""From a frame to an answer: header, dispatch, decode, handle, encode, send.

The one place where a domain error becomes a fate: what a peer did wrong closes its connection, a
bug of ours is logged with its trace and closes it too, since no correct answer is known.
"""

import logging
from collections.abc import Iterable
from typing import Any

from cluster.brokers.handlers.request import (
    NO_ANSWER,
    PARKED,
    Handler,
    RequestContext,
    Services,
)
from cluster.brokers.network.channel import Channel
from cluster.model.errors import PeerError
from cluster.protocol.api import ApiKey
from cluster.protocol.framing import parse_request_header

log = logging.getLogger(__name__)


class Pipeline:
    """Dispatches the requests of all channels of one broker."""

    def __init__(self, handlers: Iterable[Handler], services: Services) -> None:
        self._handlers = {int(handler.api.key): handler for handler in handlers}
        self._services = services
        self._clock = services.clock
        self._counters = services.counters

    def on_frame(self, channel: Channel, frame: memoryview) -> None:
        """Process one request. Raises PeerError, upon which the channel closes."""
        try:
            self._process(channel, frame)
        except PeerError:
            if self._counters is not None:
                self._counters.add("ErrorsPerSec", 1)
            raise

    def _process(self, channel: Channel, frame: memoryview) -> None:
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
            header.api_key, version, header.correlation_id, header.client_id, channel, self._send
        )
        try:
            request = handler.decode(version, frame, header.body_position)
            response = handler.handle(request, context, self._services)
            if response is not PARKED:
                self._send(context, response)
            if self._counters is not None:
                self._counters.on_handled(header.api_key, self._clock.monotonic_us() - began_us)
        except PeerError:
            raise
        except Exception as error:
            log.exception("failed to handle %s from %s", handler.api.key.name, channel.peer)
            raise PeerError(f"internal error while handling {handler.api.key.name}") from error

    def _send(self, context: RequestContext, response: Any) -> None:
        if response is NO_ANSWER:
            context.channel.respond(None)
            return
        handler = self._handlers[context.api_key]
        context.channel.respond(handler.encode(context.version, context.correlation_id, response))
