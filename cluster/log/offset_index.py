"""The `.index` file: a sparse map from offset to position, 8 bytes (two int32) an entry.

An entry is (last offset of a batch minus the segment's base, position of that batch). The entries
of an active segment live in two arrays; the file of a closed one is searched through a mapping.
"""

import mmap
import os
import sys
from array import array
from bisect import bisect_right
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from cluster.log.files import files_of
from cluster.model.errors import StorageFailed

ENTRY_BYTES: Final = 8
_INT32: Final = Struct(">I")


class OffsetIndex(Protocol):
    """The offset index of an active or closed segment."""

    def position_of(self, relative_offset: int) -> int:
        """Position of a batch at or before an offset. Raises StorageFailed."""
        ...

    def position_before(self, position: int) -> int:
        """The largest indexed batch position at or before `position`. Raises StorageFailed."""
        ...


class ActiveOffsetIndex:
    """The entries of an active segment, in memory until `write`."""

    __slots__ = ("_positions", "_relative_offsets", "max_entries")

    def __init__(self, index_bytes: int) -> None:
        self.max_entries = index_bytes // ENTRY_BYTES
        self._relative_offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._positions)

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry at the end."""
        self._relative_offsets.append(relative_offset)
        self._positions.append(position)

    def position_of(self, relative_offset: int) -> int:
        slot = bisect_right(self._relative_offsets, relative_offset)
        return self._positions[slot - 1] if slot else 0

    def position_before(self, position: int) -> int:
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def truncate(self, position: int) -> None:
        """Drop the entries for batches at or after a position."""
        slot = bisect_right(self._positions, position - 1) if position else 0
        del self._relative_offsets[slot:], self._positions[slot:]

    def write(self, path: Path) -> None:
        """Replace the file. Raises OSError."""
        entries = array("I", bytes(ENTRY_BYTES * len(self)))
        entries[0::2] = self._relative_offsets
        entries[1::2] = self._positions
        if sys.byteorder == "little":
            entries.byteswap()
        files_of(path).write_file(path, entries.tobytes())

    @classmethod
    def load(cls, path: Path, index_bytes: int) -> "ActiveOffsetIndex":
        """Read the entries of a file that passed `is_sound`. Raises OSError."""
        entries = array("I", files_of(path).read_file(path))
        if sys.byteorder == "little":
            entries.byteswap()
        index = cls(index_bytes)
        index._relative_offsets, index._positions = entries[0::2], entries[1::2]
        return index


class ClosedOffsetIndex:
    """The index file of a closed segment, mapped on first use."""

    __slots__ = ("_count", "_mapping", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mapping: mmap.mmap | None = None
        self._count = -1

    def position_of(self, relative_offset: int) -> int:
        return self._search(relative_offset, 0)

    def position_before(self, position: int) -> int:
        return self._search(position, 4)

    def _search(self, wanted: int, field: int) -> int:
        if self._count < 0:
            try:
                self._mapping = map_file(self._path)
            except OSError as error:
                raise StorageFailed(f"cannot read {self._path}: {error.strerror}") from error
            self._count = len(self._mapping) // ENTRY_BYTES if self._mapping else 0
        mapping = self._mapping
        if mapping is None:
            return 0

        def key(slot: int) -> int:
            value: int = _INT32.unpack_from(mapping, slot * ENTRY_BYTES + field)[0]
            return value

        slot = bisect_right(range(self._count), wanted, key=key)
        return int(_INT32.unpack_from(mapping, slot * ENTRY_BYTES - 4)[0]) if slot else 0


def map_file(path: Path) -> mmap.mmap | None:
    """A read-only mapping of a whole file; None if it is empty or missing. Raises OSError."""
    files = files_of(path)
    try:
        descriptor = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        return files.map(descriptor, size, access=mmap.ACCESS_READ) if size else None
    finally:
        os.close(descriptor)


def last_position(path: Path) -> int:
    """The position in an index file's last entry; -1 if there is none. Raises OSError."""
    size = path.stat().st_size // ENTRY_BYTES * ENTRY_BYTES
    if not size:
        return -1
    return int(_INT32.unpack(files_of(path).read_part(path, size - 4, 4))[0])


def is_sound(path: Path, entry_bytes: int) -> bool:
    """Whether an index file exists and holds whole entries."""
    try:
        return path.stat().st_size % entry_bytes == 0
    except FileNotFoundError:
        return False
