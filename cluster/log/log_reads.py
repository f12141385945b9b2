"""Reads of a list of segments: byte ranges for fetches, offsets for timestamps. Changes nothing."""

from bisect import bisect_right
from collections.abc import Generator, Sequence
from pathlib import Path

from cluster.log.batch_search import BatchSearch, TimestampOffset
from cluster.log.mmap_segment import MmapSegment
from cluster.log.segment import Segment
from cluster.model.ids import Offset
from cluster.records.batch import NO_TIMESTAMP, BatchHeader


class LogSlice:
    """Whole batches of one segment file, not yet read.

    Owns the file for as long as it lives: the descriptor and the bytes stay readable even when the
    log deletes the segment meanwhile. Another process must read it by descriptor: it may be cut.
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

    def fileno(self) -> int:
        """The descriptor, for sendfile from `position`."""
        return self._file.fileno()

    def view(self) -> memoryview:
        """The bytes themselves, read-only and without a copy."""
        return self._file.view(self.position, self.size_bytes)


def segment_slot(segments: Sequence[Segment], offset: int) -> int:
    """Index of the segment that holds an offset: the last one that begins at or before it."""
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
    """Batches from the one that holds `offset` on, of one segment; bounds are (upper, log end).

    Only whole batches below the upper offset; more than `max_bytes` only for a single first batch.
    """
    upper_offset, log_end_offset = bounds
    slot = len(segments) - 1
    if offset < segments[slot].base_offset:
        slot = segment_slot(segments, offset)
    segment = segments[slot]
    if segment.unchecked is not None:
        segment.look_at_file()
    start = segment.locate(offset)
    while start >= segment.file.size_bytes:  # compaction left nothing from here to the next segment
        slot += 1
        if slot == len(segments):
            return LogSlice(segment.file, start, 0, offset)
        segment = segments[slot]
        segment.look_at_file()
        start = segment.locate(offset)
    size = segment.file.size_bytes
    next_base = segments[slot + 1].base_offset if slot + 1 < len(segments) else log_end_offset
    end = size if upper_offset >= next_base else segment.end_before(upper_offset)
    if end - start > max_bytes:
        limited = segment.boundary_before(start, start + max(0, max_bytes))
        if limited == start and at_least_one_batch:
            limited = segment.batch_end(start)
        end = limited
    if end <= start:
        return LogSlice(segment.file, start, 0, offset)
    unchecked = segment.unchecked
    if unchecked is not None and start < unchecked.end and not unchecked.is_all_checked:
        end, after = _check(segment, offset, start, end)
        return LogSlice(
            segment.file, start, end - start, Offset(next_base) if end == size else after
        )
    next_offset = next_base if end == size else segment.base_offset_at(end)
    return LogSlice(segment.file, start, end - start, Offset(next_offset))


def _check(segment: Segment, offset: Offset, start: int, end: int) -> tuple[int, Offset]:
    """Compare checksums where that was not done before: up to where a range is good, and the offset
    after its last batch.

    Raises DamagedBatch for the first batch, or the one that held `offset`.
    """
    unchecked = segment.unchecked
    if unchecked is None:
        return end, offset
    # What is before it shows whether its base offset, which no checksum covers, can be true.
    before = min(start, segment.position_of_entry(offset))
    ahead = unchecked.check(segment.file, before, start)
    if ahead.defect is not None:
        damaged = segment.note_damage(ahead.end, ahead.defect)
        if segment.base_offset_at(start) > offset:
            raise damaged  # no gap that compaction has left: a damaged batch was passed over
    checked = unchecked.check(
        segment.file, start, end, offset if start else min(offset, Offset(segment.base_offset))
    )
    if checked.defect is not None:
        damaged = segment.note_damage(checked.end, checked.defect)
        if checked.end == start:
            raise damaged
    if segment.is_active and unchecked.is_all_checked:
        segment.unchecked = None  # what is appended needs no second look
    next_offset = checked.next_offset
    if not next_offset and checked.end < segment.file.size_bytes:
        # The range ends within one that was good before, or before what was appended since.
        next_offset = segment.base_offset_at(checked.end)
    return checked.end, Offset(next_offset)


Search = Generator[BatchSearch, TimestampOffset | None, TimestampOffset | None]
"""A search of a log that yields each batch it has to look into, and is sent what is found there."""


def search_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, bounds: tuple[Offset, Offset]
) -> Search:
    """The first record in [bounds) whose timestamp is not before the one given; None without one.

    Raises Refused(corrupt_message) when the batch that should hold it is damaged.
    """
    first_offset, upper_offset = bounds
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        segment.look_at_file()
        start = segment.position_before_timestamp(timestamp_ms)
        for position, header in segment.headers_from(start):
            if header.base_offset >= upper_offset:
                return None
            if header.max_timestamp < timestamp_ms or header.last_offset < first_offset:
                continue
            found = yield from _first_record(segment, position, header, timestamp_ms, first_offset)
            if found is not None:
                return found if found.offset < upper_offset else None
    return None


def search_max_timestamp(segments: Sequence[Segment], bounds: tuple[Offset, Offset]) -> Search:
    """The record with the largest timestamp in [bounds); None when there is none."""
    first_offset, upper_offset = bounds
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    if newest.max_timestamp_ms == NO_TIMESTAMP:
        return None
    offset = newest.max_timestamp_offset
    if first_offset <= offset < upper_offset:
        newest.look_at_file()
        position = newest.locate(offset)
        for _, header in newest.headers_from(position):
            found = yield from _first_record(
                newest, position, header, header.max_timestamp, first_offset
            )
            if found is not None:
                return found
            break  # compaction has emptied that batch
    return (yield from _scan_for_max(segments, bounds))


def search_now(search: Search) -> TimestampOffset | None:
    """The outcome of a search, however long it takes."""
    try:
        wanted = next(search)
        while True:
            wanted = search.send(wanted())
    except StopIteration as end:
        found: TimestampOffset | None = end.value
        return found


def _scan_for_max(segments: Sequence[Segment], bounds: tuple[Offset, Offset]) -> Search:
    """Read batch headers, of the segments that may have the largest timestamp: the newest record of
    all is out of bounds (not yet replicated), or gone.
    """
    best: tuple[Segment, int, BatchHeader] | None = None
    for segment in sorted(segments, key=_max_timestamp_ms, reverse=True):
        if best is not None and segment.max_timestamp_ms < best[2].max_timestamp:
            break
        segment.look_at_file()
        for position, header in segment.headers_from(0):
            if header.last_offset < bounds[0] or header.last_offset >= bounds[1]:
                continue
            if not header.record_count:
                continue
            if best is None or _rank(header) > _rank(best[2]):
                best = (segment, position, header)
    if best is None:
        return None
    return (yield from _first_record(*best, best[2].max_timestamp, bounds[0]))


def _max_timestamp_ms(segment: Segment) -> int:
    return segment.max_timestamp_ms


def _rank(header: BatchHeader) -> tuple[int, int]:
    return header.max_timestamp, -header.base_offset


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, first_offset: int
) -> Search:
    if header.is_log_append_time:
        return TimestampOffset(header.max_timestamp, Offset(max(header.base_offset, first_offset)))
    after = position + header.size_bytes
    if segment.unchecked is not None:
        _check(segment, Offset(header.base_offset), position, min(after, segment.file.size_bytes))
    batch = segment.file.view(position, header.size_bytes)
    return (yield BatchSearch(header, batch, timestamp_ms, first_offset))
