"""Sends the output of a connection: many small buffers in one call, large regions by sendfile."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from cluster.brokers.network.connection import FileRegion, Outgoing
from cluster.model.errors import PeerError, StorageFailed
from cluster.runtime.transport import BUFFERS_PER_SEND, Buffer, Transport

BYTES_TYPES: Final = (bytes, bytearray, memoryview)
"""The types of what is in memory; everything else is a region of a file."""
_SENDFILE_ABOVE_BYTES: Final = 64 * 1024
"""Below this, copying from the mapping into the socket beats a second system call."""


class Output:
    """What one connection has to send, and who is told when it is sent."""

    __slots__ = ("_has_unsent", "_monotonic_ns", "_sending_ns", "answered", "buffers")

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        self._monotonic_ns = monotonic_ns
        self.buffers: deque[Outgoing] = deque()
        self.answered: list[Callable[[int, int], object]] = []
        """Called when answers are sent (`Connection`)."""
        self._sending_ns = 0
        """When sending those was tried first; 0 before that."""
        self._has_unsent = False

    def flush(self, transport: Transport) -> int:
        """Send as much as the socket takes. Raises as `send_outgoing`.

        Returns the bytes in memory that the socket has not taken, -1 if there were none before
        either. File regions take none of this process's memory.
        """
        out = self.buffers
        if self.answered and not self._sending_ns:
            self._sending_ns = self._monotonic_ns()
        send_outgoing(out, transport)
        if self.answered and not out:
            self._note_sent()
        if out or self._has_unsent:
            unsent_bytes = transport.unsent_bytes
            unsent_bytes += sum(len(item) for item in out if isinstance(item, BYTES_TYPES))
            if unsent_bytes or self._has_unsent:
                self._has_unsent = unsent_bytes > 0
                return unsent_bytes
        return -1

    def drop(self) -> None:
        """The connection is closed."""
        self.buffers.clear()
        if self.answered:
            self._note_sent()

    def _note_sent(self) -> None:
        """Record that the answers have been sent or never will be."""
        sent_ns = self._monotonic_ns()
        for note in self.answered:
            note(self._sending_ns or sent_ns, sent_ns)
        self.answered.clear()
        self._sending_ns = 0


def send_outgoing(out: "deque[Outgoing]", transport: Transport) -> None:
    """Send in order and remove sent parts, until nothing is left or the socket is full.

    Raises OSError if the connection is lost, PeerError if a region cannot be read.
    """
    try:
        while out:
            first = out[0]
            if isinstance(first, BYTES_TYPES) or first.size_bytes <= _SENDFILE_ABOVE_BYTES:
                has_sent_all = _send_buffers(out, transport)
            else:
                has_sent_all = _send_file(out, first, transport)
            if not has_sent_all:
                return
    except StorageFailed as failure:
        # The size of the answer is already sent, so the answer cannot report the error.
        raise PeerError(str(failure)) from failure


def _send_buffers(out: "deque[Outgoing]", transport: Transport) -> bool:
    buffers: list[Buffer] = []
    size_bytes = 0
    for item in out:
        if len(buffers) == BUFFERS_PER_SEND:
            break
        if isinstance(item, BYTES_TYPES):
            buffer = item
        elif item.size_bytes > _SENDFILE_ABOVE_BYTES:
            break
        else:
            buffer = item.view()
        size_bytes += len(buffer)
        buffers.append(buffer)
    try:
        sent = transport.send_buffers(buffers, more=len(buffers) < len(out))
    except (BlockingIOError, InterruptedError):
        return False
    if sent == size_bytes:
        for _ in buffers:
            out.popleft()
        return True
    for buffer in buffers:
        length = len(buffer)
        if sent < length:
            # Copy a region, because a view of the mapping would keep the file open.
            rest = memoryview(buffer)[sent:]
            out[0] = rest if isinstance(out[0], BYTES_TYPES) else bytes(rest)
            return False
        sent -= length
        out.popleft()
    return True


def _send_file(out: "deque[Outgoing]", region: FileRegion, transport: Transport) -> bool:
    try:
        sent = transport.send_file(region, region.position, region.size_bytes)
    except (BlockingIOError, InterruptedError):
        return False
    if sent == 0:
        raise PeerError("the file ended before the announced region")
    if sent == region.size_bytes:
        out.popleft()
    elif isinstance(region, _RestOfRegion):
        region.advance(sent)
    else:
        out[0] = _RestOfRegion(region, sent)
    return True


def holds_deleted_file(out: "Iterable[Outgoing]") -> bool:
    """Whether some output is in a deleted file, which takes disk space until it is sent."""
    try:
        return any(
            os.fstat(item.fileno()).st_nlink == 0
            for item in out
            if not isinstance(item, BYTES_TYPES)
        )
    except StorageFailed:  # not open and deleted, so it cannot be sent either
        return True


class _RestOfRegion:
    """The rest of a partially sent region; a slow reader may take thousands of parts."""

    __slots__ = ("_region", "position", "size_bytes")

    def __init__(self, region: FileRegion, sent_bytes: int) -> None:
        self._region = region
        self.position = region.position + sent_bytes
        self.size_bytes = region.size_bytes - sent_bytes

    def advance(self, sent_bytes: int) -> None:
        """Record that a part was sent."""
        self.position += sent_bytes
        self.size_bytes -= sent_bytes

    def fileno(self) -> int:
        return self._region.fileno()

    def view(self) -> memoryview:
        return self._region.view()[self._region.size_bytes - self.size_bytes :]
