"""The interfaces of the links between brokers: ZeroMQ, and local connections; simulations replace
them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cluster.runtime.loop import EventLoop


class RouterSocket(Protocol):
    """Receives from many peers and answers each by its identity."""

    endpoint: str
    """Where peers connect."""

    def send(self, identity: bytes, frames: Sequence[Any]) -> bool:
        """Send to one peer; False if it is not connected or too far behind."""
        ...

    def close(self) -> None:
        """Stop receiving."""
        ...


class DealerSocket(Protocol):
    """Sends to one router; messages are queued until it is reachable."""

    endpoint: str

    def send(self, frames: Sequence[Any]) -> bool:
        """Send or queue a message; False if that is impossible."""
        ...

    def watch_connection(self, on_change: Callable[[bool], None]) -> None:
        """Call `on_change` when the connection breaks (False) and when it is up (True)."""
        ...

    def close(self) -> None:
        """Stop sending, and stop calling `on_change`."""
        ...


class PeerSockets(Protocol):
    """Creates the router and dealer sockets of one broker."""

    def router(
        self,
        loop: EventLoop,
        host: str,
        on_message: Callable[[bytes, list[bytes]], None],
        port: int = 0,
    ) -> RouterSocket:
        """Listen; port 0 takes a free one. Raises UserError if that fails."""
        ...

    def dealer(
        self, loop: EventLoop, endpoint: str, on_message: Callable[[list[bytes]], None]
    ) -> DealerSocket:
        """Connect to an endpoint."""
        ...


class LocalConnection(Protocol):
    """One end of a connection between processes of one machine."""

    def send(self, message: bytes) -> bool:
        """Send at once; False if the peer has gone or does not receive."""
        ...

    def receive(self) -> bool:
        """Receive one message if there is one; returns whether there was."""
        ...

    def close(self) -> None:
        """Close this end."""
        ...


class LocalListener(Protocol):
    """Accepts local connections."""

    def receive_all(self) -> None:
        """Receive what has been sent so far by every connection, also by those to be accepted."""
        ...

    def close(self) -> None:
        """Stop listening, and close all connections."""
        ...


OnLocalMessage = Callable[[LocalConnection, bytes | memoryview], None]
"""Takes a message, which must not be kept."""
OnLocalClosed = Callable[[LocalConnection], None]
"""Called when the peer has gone."""


class LocalSockets(Protocol):
    """Creates the local connections of one broker. None stands for one that is impossible."""

    def listen(
        self, loop: EventLoop, address: str, on_message: OnLocalMessage, on_closed: OnLocalClosed
    ) -> LocalListener | None:
        """Accept connections to a local address."""
        ...

    def connect(
        self, loop: EventLoop, address: str, on_message: OnLocalMessage, on_closed: OnLocalClosed
    ) -> LocalConnection | None:
        """Connect to a local address."""
        ...
