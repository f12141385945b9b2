"""Reads replicated bytes straight from the leader's page cache.

Only for brokers of one machine. The leader may delete or truncate a file at any time, so it is read
with preadv, which then returns fewer bytes, and never mapped. A deleted file occupies the disk
while it is open, so files are closed soon after they are deleted.
"""

import os
import stat
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from cluster.log.files import LogFiles, files_of

_OPEN_FILES_MAX: Final = 256
_KEPT_BYTES: Final = 4 << 20
"""Size of the buffer that is kept: reused memory costs no page faults."""
SWEEP_MS: Final = 1_000
"""Period of the check of open files, which takes some 0.5 us each."""
_IDLE_SWEEPS: Final = 10
"""A file that was not read for so many sweeps is closed; opening it takes some 10 us."""


@dataclass(slots=True)
class _OpenFile:
    files: LogFiles
    descriptor: int
    inode: int
    sweep: int
    """The number of the last sweep before the file was used."""


class SegmentFiles:
    """A small LRU cache of the leaders' open segment files. Call `sweep` every `SWEEP_MS`.

    Invariant: no inode is reused while its file is open here, so path and inode name one file.
    """

    def __init__(self) -> None:
        self._open_files: OrderedDict[str, _OpenFile] = OrderedDict()
        """By path."""
        self._sweep = 0
        self._buffer = bytearray()

    def __del__(self) -> None:
        self.close()

    def read(self, path: str, inode: int, position: int, size_bytes: int) -> memoryview | None:
        """The bytes, in a buffer that the next call overwrites; None if the file lacks some.

        No memory is allocated for bytes that the file does not hold.
        """
        try:
            file = self._open(path, inode)
            if file is None:
                return None
            descriptor, filled = file.descriptor, 0
            if (
                size_bytes <= len(self._buffer)
                or position + size_bytes <= os.fstat(descriptor).st_size
            ):
                target = self._space(size_bytes)
                while filled < size_bytes:
                    count = file.files.preadv(
                        descriptor, [target[filled:] if filled else target], position + filled
                    )
                    if count == 0:
                        break
                    filled += count
                if filled == size_bytes:
                    return target
        except OSError:
            pass
        self._forget(path)
        return None

    def sweep(self) -> None:
        """Close deleted files, and those that were not read for long."""
        self._sweep += 1
        for path, file in list(self._open_files.items()):
            is_idle = self._sweep - file.sweep > _IDLE_SWEEPS
            if is_idle or os.fstat(file.descriptor).st_nlink == 0:
                self._forget(path)

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

    def _open(self, path: str, inode: int) -> _OpenFile | None:
        """Open the file that the leader named; None if the path is another file now."""
        known = self._open_files.get(path)
        if known is not None and known.inode == inode:
            known.sweep = self._sweep
            self._open_files.move_to_end(path)
            return known
        self._forget(path)
        # The path comes from a peer: it may be anything, even a FIFO that blocks when it is opened.
        files = files_of(path)
        descriptor = files.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            return None
        opened = _OpenFile(files, descriptor, facts.st_ino, self._sweep)
        self._open_files[path] = opened
        if len(self._open_files) > _OPEN_FILES_MAX:
            os.close(self._open_files.popitem(last=False)[1].descriptor)
        return opened if facts.st_ino == inode else None

    def _forget(self, path: str) -> None:
        known = self._open_files.pop(path, None)
        if known is not None:
            os.close(known.descriptor)
