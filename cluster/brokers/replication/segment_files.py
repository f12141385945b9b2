"""Reads replicated bytes straight from the leader's page cache into our mapping.

Only for brokers of one machine. The leader may delete or truncate a file at any time, so it is read
with preadv, which then returns fewer bytes, and never mapped.
"""

import os
import stat
from collections import OrderedDict
from typing import Final

from cluster.protocol.peer.replication import FileSource

_OPEN_FILES_MAX: Final = 256


class SegmentFiles:
    """A small cache of the leaders' open segment files, least recently used first out.

    Invariant: no inode is in use again while we hold its file, so path and inode name one file.
    """

    def __init__(self) -> None:
        self._open_files: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Descriptor and inode by path."""

    def __del__(self) -> None:
        self.close()

    def holds(self, source: FileSource) -> bool:
        """Whether the file is there and has all of that, so far."""
        try:
            descriptor = self._open(source.path, source.inode)
            if descriptor is None:
                return False
            return source.position + source.size_bytes <= os.fstat(descriptor).st_size
        except OSError:
            return False

    def read_into(self, source: FileSource, target: memoryview) -> bool:
        """Fill `target` from the file; False when it cannot be had whole."""
        try:
            descriptor = self._open(source.path, source.inode)
            filled = 0
            while descriptor is not None and filled < source.size_bytes:
                count = os.preadv(descriptor, [target[filled:]], source.position + filled)
                if count == 0:
                    break
                filled += count
        except OSError:
            filled = 0
        if filled == source.size_bytes:
            return True
        self._forget(source.path)
        return False

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
