"""Finds offsets for timestamps in a list of segments, without changing the log."""

from collections.abc import Generator, Sequence

from cluster.log.batch_search import BatchSearch, TimestampOffset
from cluster.log.log_reads import check_range, look_at_file
from cluster.log.segment import Segment
from cluster.model.ids import Offset
from cluster.records.batch import NO_TIMESTAMP, BatchHeader

Search = Generator[BatchSearch, TimestampOffset | None, TimestampOffset | None]
"""Yields each batch that has to be searched, and is sent what was found in it."""


def search_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, bounds: tuple[Offset, Offset]
) -> Search:
    """The first record in [bounds) at or after a timestamp; None if there is none.

    Raises Refused(corrupt_message) if the batch that should hold it is damaged.
    """
    first_offset, upper_offset = bounds
    for segment in segments:
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        look_at_file(segment)
        start = _position_before(segment, timestamp_ms)
        for position, header in segment.headers_from(start):
            if header.base_offset >= upper_offset:
                return None
            if header.max_timestamp < timestamp_ms or header.last_offset < first_offset:
                continue
            found = yield from _first_record(segment, position, header, timestamp_ms, first_offset)
            if found is not None:
                return found if found.offset < upper_offset else None
    return None


def _position_before(segment: Segment, timestamp_ms: int) -> int:
    """Position from which to search for the first batch that is not older than a timestamp.

    Raises StorageFailed.
    """
    offset = segment.indexes.offset_before(timestamp_ms)
    position = segment.indexes.offsets.position_of(offset - segment.base_offset)
    return segment.checked_entry(position, offset) if position else 0


def search_max_timestamp(segments: Sequence[Segment], bounds: tuple[Offset, Offset]) -> Search:
    """The record with the largest timestamp in [bounds); None if there is none."""
    first_offset, upper_offset = bounds
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    if newest.max_timestamp_ms == NO_TIMESTAMP:
        return None
    offset = newest.max_timestamp_offset
    if first_offset <= offset < upper_offset:
        look_at_file(newest)
        position = newest.locate(offset)
        for _, header in newest.headers_from(position):
            found = yield from _first_record(
                newest, position, header, header.max_timestamp, first_offset
            )
            if found is not None:
                return found
            break  # compaction emptied that batch
    return (yield from _scan_for_max(segments, bounds))


def search_now(search: Search) -> TimestampOffset | None:
    """Run a search to its end."""
    try:
        wanted = next(search)
        while True:
            wanted = search.send(wanted())
    except StopIteration as end:
        found: TimestampOffset | None = end.value
        return found


def _scan_for_max(segments: Sequence[Segment], bounds: tuple[Offset, Offset]) -> Search:
    """Read the batch headers of the segments that may have the largest timestamp.

    Used if the log's newest record is out of bounds (not replicated yet) or gone.
    """
    best: tuple[Segment, int, BatchHeader] | None = None
    for segment in sorted(segments, key=_max_timestamp_ms, reverse=True):
        if best is not None and segment.max_timestamp_ms < best[2].max_timestamp:
            break
        look_at_file(segment)
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
        check_range(
            segment, Offset(header.base_offset), position, min(after, segment.file.size_bytes)
        )
    batch = segment.file.view(position, header.size_bytes)
    return (yield BatchSearch(header, batch, timestamp_ms, first_offset))
