"""Sockets between brokers that reach nobody."""

from collections.abc import Callable, Sequence
from typing import Any

from cluster.runtime.loop import EventLoop


class FakeSocket:
    """Takes everything and sends nothing."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def send(self, *_frames: Sequence[Any] | bytes) -> bool:
        return True

    def watch_connection(self, on_change: Callable[[bool], None]) -> None:
        """It never breaks."""

    def close(self) -> None:
        """Nothing is open."""


class FakeSockets:
    """A broker that is alone."""

    def router(
        self,
        loop: EventLoop,
        host: str,
        on_message: Callable[[bytes, list[bytes]], None],
        port: int = 0,
    ) -> FakeSocket:
        return FakeSocket("tcp://nobody")

    def dealer(
        self, loop: EventLoop, endpoint: str, on_message: Callable[[list[bytes]], None]
    ) -> FakeSocket:
        return FakeSocket(endpoint)


class NoLocalSockets:
    """A broker that reaches nobody by a local connection."""

    def listen(self, *_: object) -> None:
        """Nobody can connect."""

    def connect(self, *_: object) -> None:
        """Nobody listens."""
