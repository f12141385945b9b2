"""Between a log and its cleaning: what can be cleaned of it, the order for that, the swap."""

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
    """What one helper process may use."""

    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    io_bytes_per_second: float


def find_work(log: PartitionLog, high_watermark: Offset, wall_ms: WallMs) -> Cleanable | None:
    """What a cleaning of this log would do; None when there is nothing. Raises StorageFailed."""
    undecided = log.producers.first_undecided_offset
    stable = high_watermark if undecided is None else min(high_watermark, Offset(undecided))
    bounds = LogBounds(log.log_start_offset, log.log_end_offset, log.cleaned_to, stable)
    segments = log.segments
    if min(stable, segments[-1].base_offset) <= first_dirty_offset(bounds):
        return None  # the most frequent case first: thousands of logs are looked at
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
    """What a helper needs to know to clean the log as it stands."""
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
    """Put cleaned files in place of the segments that begin at these offsets, and return those.

    None of them, and nothing is done, where the log has not all any more, closed and in a row.
    Raises StorageFailed: what the directory holds then, the next start brings to an end.
    """
    closed = log.segments[:-1]
    slot = next((n for n, one in enumerate(closed) if one.base_offset == base_offsets[0]), 0)
    gone = closed[slot : slot + len(base_offsets)]
    if [one.base_offset for one in gone] != list(base_offsets):
        return []
    log.files.replace(gone)
    return list(gone)
