"""The `.timeindex` file: a sparse map from timestamp to offset, 12 bytes (int64, int32) an entry.

In an entry (t, o), t is the largest timestamp up to the batch whose last offset is o (relative to
the segment's base). Timestamps and offsets both grow from entry to entry.
"""

from array import array
from bisect import bisect_left
from pathlib import Path
from struct import Struct
from typing import Final

from cluster.log.files import files_of

ENTRY_BYTES: Final = 12
_ENTRY: Final = Struct(">qI")


class TimeIndex:
    """The entries of one segment in memory; a closed segment has them only during a search."""

    __slots__ = ("_relative_offsets", "_timestamps", "max_entries")

    def __init__(self, index_bytes: int) -> None:
        # The last slot is reserved for the entry that closing the segment adds.
        self.max_entries = index_bytes // ENTRY_BYTES - 1
        self._timestamps = array("q")
        self._relative_offsets = array("I")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int] | None:
        """(timestamp, relative offset) of the newest entry."""
        return (self._timestamps[-1], self._relative_offsets[-1]) if self._timestamps else None

    def append_if_newer(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add an entry if its timestamp is larger than all earlier ones."""
        if not self._timestamps or timestamp_ms > self._timestamps[-1]:
            self._timestamps.append(timestamp_ms)
            self._relative_offsets.append(relative_offset)

    def offset_before(self, timestamp_ms: int) -> int:
        """Relative offset below which every record is older than `timestamp_ms`."""
        slot = bisect_left(self._timestamps, timestamp_ms)
        return self._relative_offsets[slot - 1] if slot else 0

    def truncate(self, relative_end_offset: int) -> None:
        """Drop the entries at or after an offset."""
        slot = bisect_left(self._relative_offsets, relative_end_offset)
        del self._timestamps[slot:], self._relative_offsets[slot:]

    def write(self, path: Path) -> None:
        """Replace the file. Raises OSError."""
        content = b"".join(map(_ENTRY.pack, self._timestamps, self._relative_offsets))
        files_of(path).write_file(path, content)

    @classmethod
    def load(cls, path: Path, index_bytes: int) -> "TimeIndex":
        """Read the entries of a file that passed `is_sound`. Raises OSError."""
        index = cls(index_bytes)
        for timestamp, relative_offset in _ENTRY.iter_unpack(files_of(path).read_file(path)):
            index._timestamps.append(timestamp)
            index._relative_offsets.append(relative_offset)
        return index


def last_entry(path: Path) -> tuple[int, int] | None:
    """(timestamp, relative offset) of a file's last entry; None if there is none."""
    try:
        size = path.stat().st_size // ENTRY_BYTES * ENTRY_BYTES
        if not size:
            return None
        entry = files_of(path).read_part(path, size - ENTRY_BYTES, ENTRY_BYTES)
    except FileNotFoundError:
        return None
    timestamp, relative_offset = _ENTRY.unpack(entry)
    return timestamp, relative_offset
