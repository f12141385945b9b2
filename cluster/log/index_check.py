"""Compares the index files of a closed segment with its batches.

An index is damaged if it would lead a reader past a record, or to a position without a batch.
Entries that only lengthen a walk are accepted: Kafka indexes several batches of one append with one
entry.
"""

from itertools import pairwise
from pathlib import Path
from struct import iter_unpack

from cluster.log.files import files_of
from cluster.log.offset_index import ENTRY_BYTES
from cluster.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from cluster.records.batch import MAGIC_V2, NO_TIMESTAMP, BatchHeader


class IndexChecks:
    """Checks both indexes of a segment while its batches are read in order."""

    def __init__(self, log_path: Path, base_offset: int) -> None:
        self._path = log_path.with_suffix(".index")
        self._time_path = log_path.with_suffix(".timeindex")
        self._base_offset = base_offset
        self._entries, self._defect = _entries_of(self._path, ENTRY_BYTES, ">II")
        self._times, self._time_defect = _entries_of(self._time_path, TIME_ENTRY_BYTES, ">qI")
        self._at = self._time_at = 0
        self._largest_ms = NO_TIMESTAMP

    def on_batch(self, position: int, header: BatchHeader) -> None:
        """Process the next batch of the segment."""
        base, last = header.base_offset - self._base_offset, header.last_offset - self._base_offset
        if header.magic != MAGIC_V2:
            self._times, self._time_defect = [], None  # the header does not hold their timestamps
        entries = self._entries
        while self._at < len(entries) and entries[self._at][1] <= position:
            offset, place = entries[self._at]
            if place != position or offset < base:
                self._defect = f"entry {self._at} names no batch of that offset"
            self._at += 1
        self._largest_ms = max(self._largest_ms, header.max_timestamp)
        times = self._times
        while self._time_at < len(times) and times[self._time_at][1] <= last:
            timestamp, offset = times[self._time_at]
            if timestamp != self._largest_ms or offset < base:
                self._time_defect = f"entry {self._time_at} has another timestamp than its batch"
            self._time_at += 1

    def finish(self) -> list[str]:
        """Return the defects after the last batch, one text for each file."""
        if self._at < len(self._entries):
            self._defect = f"entry {self._at} lies behind the last batch"
        if self._time_at < len(self._times):
            self._time_defect = f"entry {self._time_at} lies behind the last batch"
        found = ((self._path, self._defect), (self._time_path, self._time_defect))
        return [f"{path}: {defect}" for path, defect in found if defect is not None]


def _entries_of(
    path: Path, entry_bytes: int, layout: str
) -> tuple[list[tuple[int, int]], str | None]:
    """The entries without preallocated zeros, and a description of any defect."""
    try:
        content = files_of(path).read_file(path)
    except FileNotFoundError:
        return [], "it is missing"
    if len(content) % entry_bytes:
        return [], f"{len(content)} bytes are not whole entries"
    entries: list[tuple[int, int]] = []
    for slot, (first, second) in enumerate(iter_unpack(layout, content)):
        if slot and not first and not second:
            break
        entries.append((first, second))
    for before, after in pairwise(entries):
        if not (before[0] < after[0] and before[1] < after[1]):
            return [], f"entry {after} comes after {before}"
    return entries, None
