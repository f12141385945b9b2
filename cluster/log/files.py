"""All access to the files of logs: open, read, write, sync, rename and unlink.

Each log directory has its own `LogFiles`, so that tests can simulate a slow or failing disk.
`files_of` finds it by path. Queries of names and sizes (`stat`, `scandir`) do not use it. Helper
processes and other brokers have their own.
"""

import mmap
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

CopyRange = Callable[[int, int, int, int, int], int]
"""From a descriptor to another: so many bytes, from a position to a position."""

_READ_BYTES: Final = 1 << 20
_WRITE_BYTES: Final = 1 << 20


class LogFiles:
    """The system calls for the files of one log directory. All raise OSError.

    The attributes are the functions of `os` themselves, so a call has no overhead. To change one
    for a directory, set it on the object, or open the directory with an object of a subclass.
    """

    sees_each_access = False
    """Without it, small appends are copies into a mapping, and reads use a mapping that exists: no
    call shows them. With it, each append is a `pwritev`, and each read a `map`. It holds for files
    that are opened afterwards; `Segment.release` has a file opened again."""

    open = staticmethod(os.open)
    pread = staticmethod(os.pread)
    preadv = staticmethod(os.preadv)
    write = staticmethod(os.write)
    pwrite = staticmethod(os.pwrite)
    pwritev = staticmethod(os.pwritev)
    truncate = staticmethod(os.ftruncate)
    map = staticmethod(mmap.mmap)
    sync = staticmethod(os.fsync)
    sync_data = staticmethod(getattr(os, "fdatasync", os.fsync))
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)
    remove_tree = staticmethod(shutil.rmtree)
    space = staticmethod(os.statvfs)
    allocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
    """None where the system has no such call, as `copy_range`."""
    copy_range: CopyRange | None = getattr(os, "copy_file_range", None)

    def read_file(self, path: Path) -> bytes:
        descriptor = self.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks: list[bytes] = []
            position = 0
            while chunk := self.pread(descriptor, _READ_BYTES, position):
                chunks.append(chunk)
                position += len(chunk)
        finally:
            os.close(descriptor)
        return b"".join(chunks)

    def read_part(self, path: Path, position: int, size_bytes: int) -> bytes:
        """Read bytes from a position; fewer if the file ends earlier."""
        descriptor = self.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return self.pread(descriptor, size_bytes, position)
        finally:
            os.close(descriptor)

    def write_file(self, path: Path, content: bytes | memoryview) -> None:
        """Replace the whole content; not synced."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = self.open(path, flags, 0o666)
        try:
            left = memoryview(content)
            while left:
                left = left[self.write(descriptor, left) :]
        finally:
            os.close(descriptor)

    def unlink_if_there(self, path: Path) -> None:
        """Unlink a file if it exists."""
        try:
            self.unlink(path)
        except FileNotFoundError:
            return

    def sync_path(self, path: Path) -> None:
        """Sync a file or directory by its path; a missing one is skipped."""
        try:
            descriptor = self.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)


class NewFile:
    """A new file with buffered writes. Use it in a `with` statement."""

    def __init__(self, path: Path) -> None:
        self._files = files_of(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = self._files.open(path, flags, 0o666)
        self._buffer = bytearray()
        self.size_bytes = 0

    def __enter__(self) -> "NewFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, content: bytes | bytearray | memoryview) -> None:
        self._buffer += content
        self.size_bytes += len(content)
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush()

    def sync(self) -> None:
        """Write the buffer and sync the file."""
        self._flush()
        self._files.sync(self._descriptor)

    def _flush(self) -> None:
        left = memoryview(self._buffer)
        while left:
            left = left[self._files.write(self._descriptor, left) :]
        self._buffer = bytearray()


_SYSTEM: Final = LogFiles()
_placed: Final[WeakValueDictionary[str, LogFiles]] = WeakValueDictionary()
"""By log directory; entries end with their log directories."""


def place_files(directory: Path, files: LogFiles) -> None:
    """Use `files` for all paths below a directory, for the lifetime of the object."""
    _placed[str(directory)] = files


def files_of(path: Path | str) -> LogFiles:
    """The `LogFiles` of the log directory that holds a path, else the system's."""
    place = str(path)
    while place:
        found = _placed.get(place)
        if found is not None:
            return found
        place = place.rpartition("/")[0]
    return _SYSTEM
