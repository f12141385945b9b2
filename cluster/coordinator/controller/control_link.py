"""Requests between brokers over ZeroMQ that are not about records; each has an id and an answer.

A message is the id (8 bytes, big-endian) and the frames of `protocol.peer.codec`.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.peer.codec import Frames, answer_class, decode, encode
from cluster.protocol.peer.control import Refusal, Request
from cluster.runtime.loop import EventLoop, Timer
from cluster.runtime.peer_sockets import DealerSocket, PeerSockets

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")
Reply: TypeAlias = Callable[[Any], None]
"""Receives the answer of the request's class, or a Refusal; called at most once."""

_ID: Final = struct.Struct(">Q")


@dataclass(slots=True)
class _Asked:
    endpoint: str
    answer: type[Any] | None
    on_reply: Callable[[Any], None]
    timer: Timer


class ControlLink:
    """One broker's control endpoint: serves requests of peers and sends requests to them.

    Invariant: every `ask` calls its `on_reply` exactly once, with None after the timeout. Requests
    to one endpoint arrive in the order of the calls. Handlers and callbacks receive messages whose
    fields have been checked.
    """

    def __init__(
        self,
        sockets: PeerSockets,
        loop: EventLoop,
        host: str,
        port: int = 0,
    ) -> None:
        self._sockets = sockets
        self._loop = loop
        self._served: dict[type[Any], Callable[[Any, Reply], None]] = {}
        self._dealers: dict[str, DealerSocket] = {}
        self._asked: dict[int, _Asked] = {}
        self._last_id = 0
        self._router = sockets.router(loop, host, self._on_message, port)
        self.endpoint = self._router.endpoint

    def serve(self, request: type[Request[AnswerT]], handler: Callable[[Any, Reply], None]) -> None:
        """Pass peers' requests of a class to `handler`; before that they are refused."""
        self._served[request] = handler

    def ask(
        self,
        endpoint: str,
        request: Request[AnswerT],
        on_reply: Callable[[AnswerT | Refusal | None], None],
        timeout_ms: int,
    ) -> None:
        """Send a request. `on_reply` receives the answer, a Refusal if the peer does not support
        the request, or None if neither arrives in time."""
        dealer = self._dealer(endpoint)
        self._last_id += 1
        request_id = self._last_id
        timer = self._loop.call_after(timeout_ms, lambda: self._finish(request_id, None))
        self._asked[request_id] = _Asked(endpoint, answer_class(request), on_reply, timer)
        dealer.send(_framed(request_id, request))

    def watch(self, endpoint: str, on_change: Callable[[bool], None]) -> None:
        """Keep a connection to an endpoint. `on_change` is called when it breaks (False) or is
        restored (True), until the endpoint is forgotten."""
        self._dealer(endpoint).watch_connection(on_change)

    def forget_all_but(self, endpoints: set[str]) -> None:
        """Close the connections to all other endpoints; their pending requests get None at once."""
        for endpoint in [e for e in self._dealers if e not in endpoints]:
            self.forget(endpoint)

    def forget(self, endpoint: str) -> None:
        """Close the connection to one broker; its pending requests get None at once."""
        dealer = self._dealers.pop(endpoint, None)
        if dealer is not None:
            dealer.close()
        for request_id in [i for i, a in self._asked.items() if a.endpoint == endpoint]:
            self._finish(request_id, None)

    def close(self) -> None:
        """Close the sockets without further callbacks."""
        self._router.close()
        for dealer in self._dealers.values():
            dealer.close()
        for asked in self._asked.values():
            asked.timer.cancel()
        self._asked.clear()

    def _dealer(self, endpoint: str) -> DealerSocket:
        dealer = self._dealers.get(endpoint)
        if dealer is None:
            dealer = self._sockets.dealer(self._loop, endpoint, self._on_reply_frames)
            self._dealers[endpoint] = dealer
        return dealer

    def _on_message(self, identity: bytes, frames: list[bytes]) -> None:
        if not frames or len(frames[0]) != _ID.size:
            log.warning("ignored a control message without an id")
            return
        (request_id,) = _ID.unpack(frames[0])

        def reply(answer: Any) -> None:
            self._router.send(identity, _framed(request_id, answer))

        try:
            request = decode(frames[1:])
            if not isinstance(request, Request):
                raise PeerError(f"{type(request).__name__} is not a request")
        except PeerError as error:
            log.warning("refused a control request: %s", error)
            reply(Refusal(ErrorCode.invalid_request, str(error)))
            return
        serve = self._served.get(type(request))
        if serve is None:
            reply(Refusal(ErrorCode.invalid_request, f"{type(request).__name__} is not served"))
        else:
            serve(request, reply)

    def _on_reply_frames(self, frames: list[bytes]) -> None:
        if not frames or len(frames[0]) != _ID.size:
            log.warning("ignored a control message without an id")
            return
        (request_id,) = _ID.unpack(frames[0])
        asked = self._asked.get(request_id)
        if asked is None:
            return  # it has expired
        try:
            answer = decode(frames[1:])
            if type(answer) not in (asked.answer, Refusal):
                raise PeerError(f"{type(answer).__name__} is not an answer to that request")
        except PeerError as error:
            # The outcome of the request is unknown, as without an answer.
            log.warning("ignored an answer of %r: %s", asked.endpoint, error)
            return
        if type(answer) is Refusal:
            log.warning("%r refused a control request: %.200r", asked.endpoint, answer.reason)
        self._finish(request_id, answer)

    def _finish(self, request_id: int, answer: Any) -> None:
        asked = self._asked.pop(request_id, None)
        if asked is not None:
            asked.timer.cancel()
            asked.on_reply(answer)


def _framed(request_id: int, message: object) -> Frames:
    return [_ID.pack(request_id), *encode(message)]
