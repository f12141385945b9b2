"""Connects a log with its cleaning: the cleanable range, the order, and the swap."""

from collections.abc import Sequence
from typing import NamedTuple

from cluster.log.cleaner.batch_rules import NO_DATA, LastRecord
from cluster.log.cleaner.order import CleaningOrder, SourceSegment
from cluster.log.cleaner.selection import (
    Cleanable,
    LogBounds,
    SegmentFacts,
    find_cleanable,
    first_dirty_offset,
)
from cluster.log.partition_log import PartitionLog
from cluster.log.retention import largest_timestamp
from cluster.log.segment import Segment, modified_ms
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset


class CleanerLimits(NamedTuple):
    """The resources that one helper process may use."""

    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    io_bytes_per_second: float


def find_work(log: PartitionLog, high_watermark: Offset, wall_ms: WallMs) -> Cleanable | None:
    """The cleanable range of a log; None if there is none. Raises StorageFailed."""
    stable = log.transactions.stable_offset(high_watermark, log.log_start_offset)
    bounds = LogBounds(log.log_start_offset, log.log_end_offset, log.cleaned_to, stable)
    segments = log.segments
    if min(stable, segments[-1].base_offset) <= first_dirty_offset(bounds):
        return None  # the most frequent case first, because there are thousands of logs
    return find_cleanable(
        [Offset(segment.base_offset) for segment in segments],
        SegmentFacts(
            lambda slot: segments[slot].file.size_bytes,
            lambda slot: largest_timestamp(segments[slot], modified_ms),
            lambda slot: segments[slot].first_timestamp_ms,
        ),
        bounds,
        log.options.cleaning,
        wall_ms,
    )


def order_of(
    log: PartitionLog, cleanable: Cleanable, limits: CleanerLimits, wall_ms: WallMs
) -> CleaningOrder:
    """The order to clean a log in its current state."""
    options, segments = log.options, log.segments
    covered = [one for one in segments if one.base_offset < cleanable.upper_offset]
    return CleaningOrder(
        directory=str(log.directory),
        segments=[SourceSegment(Offset(one.base_offset), one.file.size_bytes) for one in covered],
        later_segments=[one.base_offset for one in segments[len(covered) :]],
        first_dirty_offset=cleanable.first_dirty_offset,
        upper_offset=cleanable.upper_offset,
        now_ms=wall_ms,
        delete_retention_ms=options.cleaning.delete_retention_ms,
        segment_bytes=options.segment_bytes,
        segment_index_bytes=options.segment_index_bytes,
        index_interval_bytes=options.index_interval_bytes,
        map_bytes=limits.map_bytes,
        load_factor=limits.load_factor,
        io_buffer_bytes=limits.io_buffer_bytes,
        io_bytes_per_second=limits.io_bytes_per_second,
        producers={
            producer_id: LastRecord(
                Offset(entry.batches[-1].last_offset) if entry.batches else NO_DATA, entry.epoch
            )
            for producer_id, entry in log.producers.entries.items()
        },
    )


def swap_in(log: PartitionLog, base_offsets: Sequence[int]) -> list[Segment]:
    """Replace the segments at these base offsets with cleaned files; returns the old ones.

    Returns an empty list and changes nothing if the log no longer has all of them, closed and
    adjacent. If this raises StorageFailed, the next start completes the swap.
    """
    closed = log.segments[:-1]
    slot = next((n for n, one in enumerate(closed) if one.base_offset == base_offsets[0]), 0)
    gone = closed[slot : slot + len(base_offsets)]
    if [one.base_offset for one in gone] != list(base_offsets):
        return []
    log.files.replace(gone)
    return list(gone)
