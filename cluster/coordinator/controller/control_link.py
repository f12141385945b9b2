"""Requests between brokers that are not about records: msgpack maps with a kind, over ZeroMQ."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgpack

from cluster.runtime.loop import EventLoop, Timer
from cluster.runtime.zmq_link import Dealer, Router, ZmqContext

log = logging.getLogger(__name__)

Message: TypeAlias = dict[str, Any]
Reply: TypeAlias = Callable[[Message], None]


@dataclass(slots=True)
class _Asked:
    endpoint: str
    on_reply: Callable[[Message | None], None]
    timer: Timer


class _Received(NamedTuple):
    id: int
    kind: Any
    """Only requests have one."""
    body: Message


class ControlLink:
    """One broker's control endpoint: serves requests of peers and asks theirs.

    Invariant: every `ask` calls its `on_reply` exactly once, with None after the timeout.
    Requests to one endpoint arrive in the order in which they were asked.
    Invariant: whoever is called back is given a map; what peers send is otherwise theirs to check.
    """

    def __init__(
        self,
        context: ZmqContext,
        loop: EventLoop,
        host: str,
        on_request: Callable[[str, Message, Reply], None],
        port: int = 0,
    ) -> None:
        self._context = context
        self._loop = loop
        self._on_request = on_request
        self._dealers: dict[str, Dealer] = {}
        self._asked: dict[int, _Asked] = {}
        self._last_id = 0
        self._router = Router(context, loop, host, self._on_message, port)
        self.endpoint = self._router.endpoint

    def ask(
        self,
        endpoint: str,
        kind: str,
        body: Message,
        on_reply: Callable[[Message | None], None],
        timeout_ms: int,
    ) -> None:
        """Send a request; the reply, or None when it does not come in time."""
        dealer = self._dealer(endpoint)
        self._last_id += 1
        request_id = self._last_id
        timer = self._loop.call_after(timeout_ms, lambda: self._finish(request_id, None))
        self._asked[request_id] = _Asked(endpoint, on_reply, timer)
        dealer.send([msgpack.packb({"kind": kind, "id": request_id, "body": body})])

    def watch(self, endpoint: str, on_change: Callable[[bool], None]) -> None:
        """Be connected to an endpoint, and be told when that connection breaks (False) or stands
        again (True), until the endpoint is forgotten.
        """
        self._dealer(endpoint).watch_connection(on_change)

    def forget_all_but(self, endpoints: set[str]) -> None:
        """Close connections to brokers that are gone; what was asked of them gets None at once."""
        for endpoint in [e for e in self._dealers if e not in endpoints]:
            self.forget(endpoint)

    def forget(self, endpoint: str) -> None:
        """Close the connection to one broker; what was asked of it gets None at once."""
        dealer = self._dealers.pop(endpoint, None)
        if dealer is not None:
            dealer.close()
        for request_id in [i for i, a in self._asked.items() if a.endpoint == endpoint]:
            self._finish(request_id, None)

    def close(self) -> None:
        """Close the sockets; nobody is called back any more."""
        self._router.close()
        for dealer in self._dealers.values():
            dealer.close()
        for asked in self._asked.values():
            asked.timer.cancel()
        self._asked.clear()

    def _dealer(self, endpoint: str) -> Dealer:
        dealer = self._dealers.get(endpoint)
        if dealer is None:
            dealer = Dealer(self._context, self._loop, endpoint, self._on_reply_frames)
            self._dealers[endpoint] = dealer
        return dealer

    def _on_message(self, identity: bytes, frames: list[bytes]) -> None:
        received = _unpack(frames)
        if received is None or not isinstance(received.kind, str):
            log.warning("ignored a control message that is not a request")
            return

        def reply(body: Message) -> None:
            self._router.send(identity, [msgpack.packb({"id": received.id, "body": body})])

        self._on_request(received.kind, received.body, reply)

    def _on_reply_frames(self, frames: list[bytes]) -> None:
        received = _unpack(frames)
        if received is None:
            log.warning("ignored a control message that is not a reply")
            return
        self._finish(received.id, received.body)

    def _finish(self, request_id: int, body: Message | None) -> None:
        asked = self._asked.pop(request_id, None)
        if asked is not None:
            asked.timer.cancel()
            asked.on_reply(body)


def _unpack(frames: list[bytes]) -> _Received | None:
    """What a peer sent, or None if it is no message of ours."""
    try:
        message = msgpack.unpackb(frames[0], strict_map_key=False)
    except (ValueError, TypeError, IndexError, msgpack.UnpackException):
        return None  # a TypeError: a map whose key is a list
    if not isinstance(message, dict):
        return None
    request_id, body = message.get("id"), message.get("body") or {}
    if not isinstance(request_id, int) or not isinstance(body, dict):
        return None
    return _Received(request_id, message.get("kind"), body)
