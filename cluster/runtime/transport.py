"""The transport of one connection's bytes, between its owner and a socket.

Calls return at once, or raise BlockingIOError if nothing can be done until the descriptor is ready
again. A lost connection raises another OSError.
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
    """One accepted connection. Lifecycle: open from construction until `close`."""

    @property
    def receive_into(self) -> Callable[[memoryview], int]:
        """Fill the start of a buffer with received bytes; returns their number, 0 at the stream's
        end.

        An attribute, because it is called for every request.
        """
        ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes in memory in addition to the owner's unsent bytes, such as encrypted copies."""
        ...

    def fileno(self) -> int:
        """The descriptor that the loop watches."""
        ...

    def expect(self, size_bytes: int) -> None:
        """Announce the rest of a request, so that the loop does not report each small part of it.

        `receive_into` still takes and counts available bytes. Lost connections, ends of streams and
        sending are unaffected.
        """
        ...

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        """Send the start of at most `BUFFERS_PER_SEND` buffers; returns how many bytes were taken.

        The bytes that were not taken, also those of a BlockingIOError, must be offered first in the
        next call, by either method: some of them may be in transit. `more` announces that another
        call follows at once, whose bytes may leave together with these.
        """
        ...

    def send_file(self, source: HasFileno, position: int, size_bytes: int) -> int:
        """Send the start of a file region; returns how many bytes, 0 if the file ends there."""
        ...

    def close(self) -> None:
        """Close the connection; unsent bytes are lost."""
        ...


class PlainTransport:
    """A plain non-blocking TCP socket."""

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
