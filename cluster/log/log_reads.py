"""Reads byte ranges of a list of segments for fetches, without changing the log."""

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from cluster.log.batch_walk import base_offset_at
from cluster.log.damage import Damage, DamagedBatch
from cluster.log.mmap_segment import FileIdentity, MmapSegment
from cluster.log.segment import Segment
from cluster.model.ids import Offset


class LogSlice:
    """Whole batches of one segment file, not yet read.

    It holds the file open: the descriptor and the bytes stay readable even if the log deletes the
    segment meanwhile. Another process must read the file by its descriptor, because the file may be
    truncated.
    """

    __slots__ = ("_file", "next_offset", "position", "size_bytes")

    def __init__(
        self, file: MmapSegment, position: int, size_bytes: int, next_offset: Offset
    ) -> None:
        self._file = file
        self.position = position
        self.size_bytes = size_bytes
        self.next_offset = next_offset

    @property
    def path(self) -> Path:
        """The segment file, for a reader in another process."""
        return self._file.path

    def identity(self) -> FileIdentity:
        """The segment file, for a reader in another process that needs to know it again."""
        return self._file.identity()

    def fileno(self) -> int:
        """The descriptor, for sendfile from `position`."""
        return self._file.fileno()

    def view(self) -> memoryview:
        """The bytes, read-only and without a copy."""
        return self._file.view(self.position, self.size_bytes)


def segment_slot(segments: Sequence[Segment], offset: int) -> int:
    """Index of the last segment that begins at or before an offset."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=_base_offset) - 1)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def read_slice(
    segments: Sequence[Segment],
    offset: Offset,
    max_bytes: int,
    bounds: tuple[Offset, Offset],
    *,
    at_least_one_batch: bool,
) -> LogSlice:
    """Batches of one segment, from the one that holds `offset`; bounds are (upper, log end).

    Returns only whole batches below the upper offset. The result exceeds `max_bytes` only for a
    single first batch.
    """
    upper_offset, log_end_offset = bounds
    slot = len(segments) - 1
    if offset < segments[slot].base_offset:
        slot = segment_slot(segments, offset)
    segment = segments[slot]
    if segment.unchecked is not None:
        look_at_file(segment)
    start = segment.tail.position_of(offset)
    if start < 0:
        start = segment.locate(offset)
    while start >= segment.file.size_bytes:  # compaction left no batch before the next segment
        slot += 1
        if slot == len(segments):
            return LogSlice(segment.file, start, 0, offset)
        segment = segments[slot]
        look_at_file(segment)
        start = segment.locate(offset)
    size = segment.file.size_bytes
    next_base = segments[slot + 1].base_offset if slot + 1 < len(segments) else log_end_offset
    end = size if upper_offset >= next_base else _end_before(segment, upper_offset)
    if end - start > max_bytes:
        limited = segment.boundary_before(start, start + max(0, max_bytes))
        if limited == start and at_least_one_batch:
            limited = segment.batch_end(start)
        end = limited
    if end <= start:
        return LogSlice(segment.file, start, 0, offset)
    unchecked = segment.unchecked
    if unchecked is not None and start < unchecked.end and not unchecked.is_all_checked:
        end, after = check_range(segment, offset, start, end)
        return LogSlice(
            segment.file, start, end - start, Offset(next_base) if end == size else after
        )
    next_offset = next_base if end == size else base_offset_at(segment.file.mapping(), end)
    return LogSlice(segment.file, start, end - start, Offset(next_offset))


def _end_before(segment: Segment, upper_offset: int) -> int:
    """Position up to which every batch is below an offset; a damaged batch also ends the range."""
    try:
        return segment.locate(upper_offset)
    except DamagedBatch as damaged:
        return damaged.position


def look_at_file(segment: Segment) -> None:
    """Check a segment before a read. Raises DamagedBatch if a closed file was truncated."""
    if segment.unchecked is None or segment.is_active:
        return
    missing = segment.unchecked.look_at_file(segment.file)
    if missing:
        end = segment.file.size_bytes - missing
        defect = f"the file ends there, {missing} bytes are missing"
        path, base_offset = segment.file.path, segment.base_offset
        segment.damage.note(path, Damage(base_offset, end, base_offset, defect))
        raise DamagedBatch(path, end)


def check_range(segment: Segment, offset: Offset, start: int, end: int) -> tuple[int, Offset]:
    """Verify the checksums that were not verified before.

    Returns the end of the good range and the offset after its last batch. Raises DamagedBatch if
    the first batch, or the one that held `offset`, is damaged.
    """
    unchecked = segment.unchecked
    if unchecked is None:
        return end, offset
    # The batch before it proves its base offset, which no checksum covers.
    before = min(start, segment.indexes.offsets.position_of(max(0, offset - segment.base_offset)))
    ahead = unchecked.check(segment.file, before, start)
    if ahead.defect is not None:
        damaged = segment.note_damage(ahead.end, ahead.defect)
        if base_offset_at(segment.file.mapping(), start) > offset:
            raise damaged  # not a compaction gap: a damaged batch was skipped
    checked = unchecked.check(
        segment.file, start, end, offset if start else min(offset, Offset(segment.base_offset))
    )
    if checked.defect is not None:
        damaged = segment.note_damage(checked.end, checked.defect)
        if checked.end == start:
            raise damaged
    if segment.is_active and unchecked.is_all_checked:
        segment.unchecked = None  # appended batches are already verified
    next_offset = checked.next_offset
    if not next_offset and checked.end < segment.file.size_bytes:
        # The range ends within a range verified earlier, or before batches appended since.
        next_offset = base_offset_at(segment.file.mapping(), checked.end)
    return checked.end, Offset(next_offset)
