"""A fake control link: the test decides whether and how each message is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.model.errors import ErrorCode
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.control import Acknowledged, Ping


@dataclass
class Asked:
    """One request on its way."""

    endpoint: str
    request: Any
    on_reply: Callable[[Any], None]
    timeout_ms: int


class FakeControlLink:
    """Remembers what was asked; the test calls `on_reply`, once.

    A ping is answered at once where `is_alive` says so.
    """

    def __init__(self, is_alive: Callable[[str], bool] = lambda _endpoint: True) -> None:
        self._is_alive = is_alive
        self.endpoint = "tcp://fake"
        self.asked: list[Asked] = []
        self.pings: list[Asked] = []
        """Those that were not answered."""
        self.kept_endpoints: set[str] | None = None
        self._served: dict[type, Callable[[Any, Callable[[Any], None]], None]] = {}
        self._watched: dict[str, Callable[[bool], None]] = {}

    def serve(self, request: type, handler: Callable[[Any, Callable[[Any], None]], None]) -> None:
        self._served[request] = handler

    def receive(self, request: Any, reply: Callable[[Any], None]) -> None:
        """A peer's request."""
        self._served[type(request)](over_the_wire(request), reply)

    def ask(
        self,
        endpoint: str,
        request: Any,
        on_reply: Callable[[Any], None],
        timeout_ms: int,
    ) -> None:
        asked = Asked(endpoint, over_the_wire(request), on_reply, timeout_ms)
        if not isinstance(request, Ping):
            self.asked.append(asked)
        elif self._is_alive(endpoint):
            on_reply(Acknowledged(ErrorCode.none))
        else:
            self.pings.append(asked)

    def end_pings(self, *, has_answered: bool) -> None:
        """The open pings are answered, or time out."""
        pings, self.pings = self.pings, []
        for ping in pings:
            ping.on_reply(Acknowledged(ErrorCode.none) if has_answered else None)

    def watch(self, endpoint: str, on_change: Callable[[bool], None]) -> None:
        self._watched[endpoint] = on_change

    def tell_connection(self, endpoint: str, *, stands: bool) -> None:
        """Simulate that the connection to an endpoint is lost, or established again."""
        self._watched[endpoint](stands)

    def forget(self, endpoint: str) -> None:
        self._watched.pop(endpoint, None)

    def forget_all_but(self, endpoints: set[str]) -> None:
        self.kept_endpoints = endpoints

    def close(self) -> None:
        """Nothing more is asked."""

    def take(self) -> list[Asked]:
        """What was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked

    def answer_all(self, reply: object) -> list[Asked]:
        """Give every open request this reply, None for none; what they were."""
        asked = self.take()
        for one in asked:
            one.on_reply(None if reply is None else over_the_wire(reply))
        return asked


def over_the_wire(message: object) -> Any:
    """A message as its receiver has it."""
    return decode([bytes(frame) for frame in encode(message)])
