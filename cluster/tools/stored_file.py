"""Reads files of a log for `dump-log` and `import-log`, without mapping or changing them.

A broker may cut a file meanwhile, upon which a mapping of it would end the process.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cluster.model.errors import UserError

_WINDOW_BYTES: Final = 1 << 20


class StoredFile:
    """A file and its size when it was opened; every read goes through a window of 1 MiB."""

    def __init__(self, path: Path, descriptor: int, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._descriptor = descriptor
        self._window = b""
        self._window_at = 0

    @property
    def base_offset(self) -> int:
        """The offset that the name of a segment's file begins with. Raises UserError."""
        return base_offset_of(self.path)

    def read(self, position: int, size: int) -> memoryview:
        """The bytes at a position, fewer where the file ends. Raises UserError."""
        start = position - self._window_at
        if start < 0 or start + size > len(self._window):
            try:
                self._window = os.pread(self._descriptor, max(size, _WINDOW_BYTES), position)
            except OSError as problem:
                raise UserError(f"cannot read {self.path}: {problem.strerror}") from None
            self._window_at, start = position, 0
        return memoryview(self._window)[start : start + size]

    def forget(self) -> None:
        """Forget what was read."""
        self._window = b""

    def all(self) -> bytes:
        """The whole content. Raises UserError."""
        return bytes(self.read(0, self.size_bytes))

    def is_zero_from(self, position: int) -> bool:
        """Whether the file has nothing but zeros from a position to its end."""
        for start in range(position, self.size_bytes, _WINDOW_BYTES):
            if any(self.read(start, _WINDOW_BYTES)):
                return False
        return True


def base_offset_of(path: Path) -> int:
    """The offset in the name of a file of a segment. Raises UserError."""
    stem = path.name.partition(".")[0]
    if not (stem.isascii() and stem.isdigit()):
        raise UserError(f"{path} is not named by an offset, like 00000000000000000000.log")
    return int(stem)


@contextmanager
def opened(path: Path) -> Iterator[StoredFile]:
    """Open a file for reading. Raises UserError."""
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(descriptor).st_size
    except OSError as problem:
        _close(descriptor)
        raise UserError(f"cannot read {path}: {problem.strerror}") from None
    try:
        yield StoredFile(path, descriptor, size)
    finally:
        _close(descriptor)


@contextmanager
def opened_if_there(path: Path) -> Iterator[StoredFile]:
    """Open a file; a missing one counts as empty."""
    if path.exists():
        with opened(path) as file:
            yield file
    else:
        yield StoredFile(path, -1, 0)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        with suppress(OSError):
            os.close(descriptor)
