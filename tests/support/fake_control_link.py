"""A control link whose messages a test answers, or loses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Asked:
    """One request on its way."""

    endpoint: str
    kind: str
    body: dict[str, Any]
    on_reply: Callable[[dict[str, Any] | None], None]
    timeout_ms: int


class FakeControlLink:
    """Remembers what was asked; the test calls `on_reply`, once."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.kept_endpoints: set[str] | None = None

    def ask(
        self,
        endpoint: str,
        kind: str,
        body: dict[str, Any],
        on_reply: Callable[[dict[str, Any] | None], None],
        timeout_ms: int,
    ) -> None:
        self.asked.append(Asked(endpoint, kind, body, on_reply, timeout_ms))

    def forget_all_but(self, endpoints: set[str]) -> None:
        self.kept_endpoints = endpoints

    def take(self) -> list[Asked]:
        """What was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked

    def answer_all(self, reply: dict[str, Any] | None) -> list[Asked]:
        """Give every open request this reply; what they were."""
        asked = self.take()
        for one in asked:
            one.on_reply(reply)
        return asked
