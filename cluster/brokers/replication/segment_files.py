"""Reads replicated bytes straight from the leader's page cache.

Only for brokers of one machine. The leader may delete or truncate a file at any time, so it is read
with preadv, which then returns fewer bytes, and never mapped.
"""

import os
import stat
from collections import OrderedDict
from typing import Final

from cluster.protocol.peer.replication import FileSource

_OPEN_FILES_MAX: Final = 256
_KEPT_BYTES: Final = 4 << 20
"""Of the buffer: memory that is used again costs no page faults."""


class SegmentFiles:
    """A small cache of the leaders' open segment files, least recently used first out.

    Invariant: no inode is in use again while we hold its file, so path and inode name one file.
    """

    def __init__(self) -> None:
        self._open_files: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Descriptor and inode by path."""
        self._buffer = bytearray()

    def __del__(self) -> None:
        self.close()

    def read(self, source: FileSource) -> memoryview | None:
        """The bytes, in a buffer that the next call uses again; None when they cannot be had whole.

        What the file does not hold takes no memory.
        """
        try:
            descriptor = self._open(source.path, source.inode)
            if descriptor is None:
                return None
            filled = 0
            if source.position + source.size_bytes <= os.fstat(descriptor).st_size:
                target = self._space(source.size_bytes)
                while filled < source.size_bytes:
                    count = os.preadv(descriptor, [target[filled:]], source.position + filled)
                    if count == 0:
                        break
                    filled += count
                if filled == source.size_bytes:
                    return target
        except OSError:
            pass
        self._forget(source.path)
        return None

    def _space(self, size_bytes: int) -> memoryview:
        if size_bytes > _KEPT_BYTES:
            return memoryview(bytearray(size_bytes))
        if size_bytes > len(self._buffer):
            self._buffer = bytearray(min(_KEPT_BYTES, 2 * size_bytes))
        return memoryview(self._buffer)[:size_bytes]

    def close(self) -> None:
        """Close every file."""
        for path in list(self._open_files):
            self._forget(path)

    def _open(self, path: str, inode: int) -> int | None:
        """The file that the leader means; None when that path is another file by now."""
        known = self._open_files.get(path)
        if known is not None and known[1] == inode:
            self._open_files.move_to_end(path)
            return known[0]
        self._forget(path)
        # The path comes from a peer: it may be anything, even a FIFO that blocks when it is opened.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            return None
        self._open_files[path] = descriptor, facts.st_ino
        if len(self._open_files) > _OPEN_FILES_MAX:
            os.close(self._open_files.popitem(last=False)[1][0])
        return descriptor if self._open_files[path][1] == inode else None

    def _forget(self, path: str) -> None:
        known = self._open_files.pop(path, None)
        if known is not None:
            os.close(known[0])
