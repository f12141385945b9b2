"""A control link whose messages a test answers, or loses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.protocol.peer.codec import decode, encode


@dataclass
class Asked:
    """One request on its way."""

    endpoint: str
    request: Any
    on_reply: Callable[[Any], None]
    timeout_ms: int


class FakeControlLink:
    """Remembers what was asked; the test calls `on_reply`, once."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.kept_endpoints: set[str] | None = None

    def ask(
        self,
        endpoint: str,
        request: Any,
        on_reply: Callable[[Any], None],
        timeout_ms: int,
    ) -> None:
        self.asked.append(Asked(endpoint, over_the_wire(request), on_reply, timeout_ms))

    def forget_all_but(self, endpoints: set[str]) -> None:
        self.kept_endpoints = endpoints

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
