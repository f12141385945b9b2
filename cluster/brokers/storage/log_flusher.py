"""Syncs logs on a background thread, as `flush.messages` and `flush.ms` demand.

The broker's thread decides which logs are due and takes the result; the thread only waits.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log.flushing import FlushTarget
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

_LOGS_PER_STEP: Final = 16
_STEPS_AT_ONCE: Final = 4
"""A broker with few partitions needs one turn only."""


class LogFlusher:
    """Invariant: at most one sync of a partition is under way."""

    def __init__(
        self,
        table: PartitionTable,
        slices: Slices,
        post: Callable[[Callable[[], None]], None],
        post_back: Callable[[Callable[[], None]], None],
        monotonic_us: Callable[[], int],
    ) -> None:
        """`post` runs a call on a background thread, `post_back` on the broker's."""
        self._table = table
        self._slices = slices
        self._is_looking = False
        self._post = post
        self._post_back = post_back
        self._monotonic_us = monotonic_us
        self._under_way: set[TopicPartition] = set()
        self.flush_count = 0
        """Logs that were synced since the start."""
        self.flush_us = 0
        """The duration of these syncs, in microseconds."""

    def on_tick(self, now_ms: MonotonicMs) -> None:
        """Find the logs whose sync is due, in slices, unless the last search is unfinished."""
        if not self._is_looking:
            self._is_looking = True
            self._slices.start(self._look(now_ms), _STEPS_AT_ONCE)

    def _look(self, now_ms: MonotonicMs) -> Iterator[None]:
        for count, partition in enumerate(self._table, 1):
            if partition.id not in self._under_way and _needs_flush(partition.log, now_ms):
                self._begin(partition)
            if count % _LOGS_PER_STEP == 0:
                yield
        self._is_looking = False

    def _begin(self, partition: Partition) -> None:
        try:
            target = partition.log.flush_target()
        except StorageFailed as failure:
            self._on_failed(partition, failure)
            return
        self._under_way.add(partition.id)
        own = partition.log
        self._post(lambda: self._sync(partition, own, target))

    def _sync(self, partition: Partition, own: PartitionLog, target: FlushTarget) -> None:
        """On the flushing thread."""
        began_us = self._monotonic_us()
        try:
            target.sync()
        except StorageFailed as failure:
            failed = failure  # the name of an `except` ends with it
            self._post_back(lambda: self._on_failed(partition, failed))
        else:
            took_us = self._monotonic_us() - began_us
            self._post_back(lambda: self._on_synced(partition, own, target, took_us))

    def _on_failed(self, partition: Partition, failure: StorageFailed) -> None:
        self._under_way.discard(partition.id)
        log.error("%s: %s", partition.id, failure)
        if self._table.find(partition.id) is partition:
            self._table.note_failure(partition.id, failure)

    def _on_synced(
        self, partition: Partition, own: PartitionLog, target: FlushTarget, took_us: int
    ) -> None:
        self.flush_count += 1
        self.flush_us += took_us
        self._under_way.discard(partition.id)
        if partition.log is own:  # not moved to another directory meanwhile
            own.durability.on_synced(target)


def _needs_flush(own: PartitionLog, now_ms: MonotonicMs) -> bool:
    return own.durability.is_due(own.log_end_offset, own.files.active.base_offset, now_ms)
