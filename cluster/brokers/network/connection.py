"""What answering a request needs: the client's connection, and the parts of an answer."""

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias


class FileRegion(Protocol):
    """Bytes of a file to send: from the mapping when small, by sendfile when large."""

    @property
    def position(self) -> int:
        """Where in the file the region begins."""
        ...

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        ...

    def fileno(self) -> int:
        """The open file."""
        ...

    def view(self) -> memoryview:
        """The region in the mapping, `size_bytes` long."""
        ...


Outgoing: TypeAlias = "bytes | bytearray | memoryview | FileRegion"


class MuteReason:
    """Why a connection is not read: bits of an int, since each request sets and clears one and the
    operators of an enum are calls.
    """

    RESPONSE_PENDING: Final = 1
    QUOTA: Final = 2
    MEMORY: Final = 4


class Connection(Protocol):
    """Where requests come from and answers go: a `Channel`, or a test in its place."""

    peer: str
    """Address and port."""
    listener_name: str
    """The listener it came in by."""
    principal: str
    """Who the peer has proved to be."""
    is_open: bool
    """False once it is closed."""
    on_close: Callable[[], None] | None
    """Called at close: removes what waits for this connection."""
    routes: dict[int, Any]
    """What the request layer remembers of its requests."""

    def respond(self, buffers: list[Outgoing] | None) -> None:
        """Answer the request in progress; None when it has no answer (acks=0)."""
        ...

    def hold(self, size_bytes: int) -> None:
        """Count what the request in progress takes in memory, until it is answered."""
        ...

    def mute(self, reason: int) -> None:
        """Stop reading, for a `MuteReason`."""
        ...

    def unmute(self, reason: int) -> None:
        """Drop one reason; when none is left, it is read again."""
        ...
