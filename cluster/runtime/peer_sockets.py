"""How brokers reach each other: what links use of ZeroMQ; a simulation stands in for it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cluster.runtime.loop import EventLoop


class RouterSocket(Protocol):
    """Receives from many peers and answers by the peer's identity."""

    endpoint: str
    """Where peers connect."""

    def send(self, identity: bytes, frames: Sequence[Any]) -> bool:
        """Send to one peer; False when it is not connected or too far behind."""
        ...

    def close(self) -> None:
        """Receive no more."""
        ...


class DealerSocket(Protocol):
    """Asks one router; messages are queued while it is not there yet."""

    endpoint: str

    def send(self, frames: Sequence[Any]) -> bool:
        """Send or queue; False when that is not possible."""
        ...

    def watch_connection(self, on_change: Callable[[bool], None]) -> None:
        """Call `on_change` when the connection breaks (False) and when it is up (True)."""
        ...

    def close(self) -> None:
        """Send no more, and call `on_change` no more."""
        ...


class PeerSockets(Protocol):
    """Makes router and dealer sockets for one broker."""

    def router(
        self,
        loop: EventLoop,
        host: str,
        on_message: Callable[[bytes, list[bytes]], None],
        port: int = 0,
    ) -> RouterSocket:
        """Listen; port 0 takes a free one. Raises UserError when that is not possible."""
        ...

    def dealer(
        self, loop: EventLoop, endpoint: str, on_message: Callable[[list[bytes]], None]
    ) -> DealerSocket:
        """Connect."""
        ...
