"""Deletes the segments that are too old, too many, or before the log start (`retention`).

Leaders and followers do this, as Kafka's task `kafka-log-retention`. The search runs in slices;
threads rename and unlink the files (see `DeletedFiles`).
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log.retention import (
    REASONS,
    LogState,
    Reason,
    count_deletable,
    pinned_until,
    reason_text,
)
from cluster.log.segment import modified_ms
from cluster.model.clocks import WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

FIRST_CHECK_MS: Final = 30_000
"""Delay after the start, unless the interval is shorter (Kafka always waits that long)."""
_PARTITIONS_PER_STEP: Final = 16
_SEGMENTS_PER_STEP: Final = 200


class LogRetention:
    """Owned by the broker's thread. Invariant: at most one search is under way."""

    def __init__(
        self,
        table: PartitionTable,
        events: PartitionEvents,
        slices: Slices,
        wall_ms: Callable[[], WallMs],
    ) -> None:
        self._table = table
        self._events = events
        self._slices = slices
        self._wall_ms = wall_ms
        self._is_looking = False
        self._pinned: dict[TopicPartition, int] = {}
        """Logs pinned by a timestamp in the future, with the base offset that was logged."""
        self._failed: set[TopicPartition] = set()
        """Logs whose last deletion failed, which was logged."""

    def on_tick(self) -> None:
        """Search all logs, unless the last search is unfinished."""
        if not self._is_looking:
            self._is_looking = True
            self._slices.start(self._look())

    def _look(self) -> Iterator[None]:
        for count, partition in enumerate(self._table, 1):
            yield from self._retain(partition)
            if count % _PARTITIONS_PER_STEP == 0:
                yield
        for partition_id in self._pinned.keys() | self._failed:
            if self._table.find(partition_id) is None:
                self._pinned.pop(partition_id, None)
                self._failed.discard(partition_id)
        self._is_looking = False

    def _retain(self, partition: Partition) -> Iterator[None]:
        """Delete segments of one log; each step takes a bounded number of them."""
        try:
            for reason in REASONS:
                yield from self._delete(partition, reason)
            self._failed.discard(partition.id)
        except StorageFailed as failure:
            if partition.id not in self._failed:
                self._failed.add(partition.id)
                log.error(  # noqa: TRY400 - one line for a person
                    "%s: cannot delete old segments: %s; it will be retried", partition.id, failure
                )
            self._table.note_failure(partition.id, failure)
            return
        self._look_for_future(partition)

    def _delete(self, partition: Partition, reason: Reason) -> Iterator[None]:
        own = partition.log
        first_offset, gone = own.segments[0].base_offset, 0
        has_timestamps = own.segments[0].max_timestamp_ms >= 0
        while self._table.find(partition.id) is partition and partition.log is own:
            wall_ms = self._wall_ms()
            count = count_deletable(
                state_of(partition), reason, wall_ms, modified_ms, _SEGMENTS_PER_STEP
            )
            if not count:
                break
            if count == len(own.segments):
                own.roll(wall_ms)
            own.drop_segments(count)
            gone += count
            yield
        if gone:
            log.info(
                "%s: deleted %d segments, offsets %d to %d, %s",
                partition.id,
                gone,
                first_offset,
                own.segments[0].base_offset - 1,
                reason_text(reason, state_of(partition), has_timestamps=has_timestamps),
            )
            self._events.on_log_start_moved(partition)

    def _look_for_future(self, partition: Partition) -> None:
        """Log once per segment that a timestamp in the future keeps it."""
        state = state_of(partition)
        until = pinned_until(state, self._wall_ms())
        if until is None:
            self._pinned.pop(partition.id, None)
            return
        oldest = state.segments[0]
        if self._pinned.get(partition.id) != oldest.base_offset:
            self._pinned[partition.id] = oldest.base_offset
            log.warning(
                "%s: the segment at offset %d has a timestamp in the future, %d: no segment is"
                " deleted for its age before %s",
                partition.id,
                oldest.base_offset,
                oldest.max_timestamp_ms,
                until,
            )


def state_of(partition: Partition) -> LogState:
    """The facts on a replica's log for the decision."""
    own = partition.log
    return LogState(
        own.segments,
        own.size_bytes,
        own.log_start_offset,
        own.log_end_offset,
        partition.high_watermark,
        own.options,
    )
