"""How the bytes of one connection travel: what lies between its owner and a socket.

All calls return at once, or raise BlockingIOError where nothing can be done until the loop says
that the descriptor is ready again. A connection that is lost raises another OSError.
"""

import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from cluster.runtime.loop import HasFileno

Buffer: TypeAlias = "bytes | bytearray | memoryview"

BUFFERS_PER_SEND: Final = 512
"""IOV_MAX is 1024 on Linux and macOS."""
_MORE: Final = getattr(socket, "MSG_MORE", 0)


class Transport(Protocol):
    """One accepted connection. Lifecycle: open when it is made, until `close`."""

    @property
    def receive_into(self) -> Callable[[memoryview], int]:
        """Fill the beginning of a buffer with what has come; its size, 0 at the end of the stream.

        An attribute, since it is called for every request.
        """
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes in memory beside what the owner still has to send: a copy that is encrypted."""
        ...

    def fileno(self) -> int:
        """The descriptor that the loop watches."""
        ...

    def expect(self, size_bytes: int) -> None:
        """So many bytes are the rest of a request: the loop need not be told of each few of them.

        `receive_into` takes what there is all the same, and counts it. Without effect on what is
        lost, ends or is sent.
        """
        ...

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        """Send the beginning of at most `BUFFERS_PER_SEND` buffers; how many bytes were taken.

        What was not taken, or not at all because of BlockingIOError, has to come again first, by
        either way of sending: part of it may be under way. `more`: something else follows at once,
        and may leave together with them.
        """
        ...

    def send_file(self, source: HasFileno, position: int, size_bytes: int) -> int:
        """Send the beginning of a region of a file; how many bytes, 0 where the file ends there."""
        ...

    def close(self) -> None:
        """Close the connection; what was not sent is lost."""
        ...


class PlainTransport:
    """A non-blocking TCP socket as it is."""

    __slots__ = ("_socket", "receive_into")

    unsent_bytes: Final = 0

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.receive_into: Callable[[memoryview], int] = connection.recv_into

    def fileno(self) -> int:
        return self._socket.fileno()

    def expect(self, size_bytes: int) -> None:
        """Nothing to do: clients send large parts of a request at once."""

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        return self._socket.sendmsg(buffers, (), _MORE if more else 0)

    def send_file(self, source: HasFileno, position: int, size_bytes: int) -> int:
        return os.sendfile(self._socket.fileno(), source.fileno(), position, size_bytes)

    def close(self) -> None:
        self._socket.close()
