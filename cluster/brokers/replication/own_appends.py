"""Appends that the broker makes itself: each is reported once every in-sync replica has it.

Kafka: `CoordinatorPartitionWriter`, and `ReplicaManager.appendRecords` with acks=-1.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cluster.brokers.replication.partition import ACKS_ALL, Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.log.partition_log import Appended
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.records.markers import EndMarker
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop


class AppendOutcome(NamedTuple):
    """The result of an append; `code` is none when every in-sync replica has the batch."""

    code: ErrorCode
    is_appended: bool
    """With an error: whether the batch is in the log nevertheless, and may yet be committed."""
    detail: str = ""


OnOutcome = Callable[[AppendOutcome], None]


class _Waiting(NamedTuple):
    required_offset: Offset
    epoch: LeaderEpoch
    on_outcome: OnOutcome


class _Expected(NamedTuple):
    end_offset: Offset
    epoch: LeaderEpoch
    on_committed: Callable[[], None]


class OwnAppends:
    """Owned by the broker's thread.

    Invariant: every append calls its `on_outcome` once, in the order of appends by partition; but a
    refusal is reported at once, before the outcome of earlier appends that wait.
    """

    def __init__(
        self, table: PartitionTable, events: PartitionEvents, clock: Clock, loop: EventLoop
    ) -> None:
        self._table = table
        self._events = events
        self._clock = clock
        self._loop = loop
        self._waiting: dict[TopicPartition, deque[_Waiting]] = {}
        self._expected: dict[TopicPartition, list[_Expected]] = {}
        events.subscribe(on_moved=self._settle, on_role=self._settle)

    def append(
        self, partition_id: TopicPartition, batch: memoryview, on_outcome: OnOutcome
    ) -> None:
        """Append one batch; `on_outcome` is called when every in-sync replica has it, or on error.

        It may be called before this returns.
        """
        clock, loop = self._clock, self._loop
        self._append(
            partition_id,
            lambda partition: partition.append(batch, ACKS_ALL, clock.wall_ms(), loop.now_ms),
            on_outcome,
        )

    def leader_epoch(self, partition_id: TopicPartition) -> LeaderEpoch | None:
        """The epoch in which this broker leads a partition; None if it does not."""
        partition = self._table.find(partition_id)
        return None if partition is None or partition.leader is None else partition.leader_epoch

    def append_marker(
        self, partition_id: TopicPartition, marker: EndMarker, on_outcome: OnOutcome
    ) -> None:
        """Append the end of a transaction, as `append` appends a batch."""
        clock, loop = self._clock, self._loop
        self._append(
            partition_id,
            lambda partition: partition.append_marker(marker, clock.wall_ms(), loop.now_ms),
            on_outcome,
        )

    def _append(
        self,
        partition_id: TopicPartition,
        append: Callable[[Partition], Appended],
        on_outcome: OnOutcome,
    ) -> None:
        partition = self._table.find(partition_id)
        if partition is None:
            on_outcome(AppendOutcome(ErrorCode.not_leader_or_follower, is_appended=False))
            return
        end = partition.log.log_end_offset
        try:
            appended = append(partition)
        except Refused as refused:
            on_outcome(AppendOutcome(refused.code, is_appended=False, detail=refused.detail))
            return
        except StorageFailed as failure:
            self._table.note_failure(partition_id, failure)
            code = ErrorCode.kafka_storage_error
            is_appended = partition.log.log_end_offset > end  # in case only its sync has failed
            if is_appended:
                self._events.on_appended(partition)
            on_outcome(AppendOutcome(code, is_appended=is_appended, detail=str(failure)))
            return
        self._events.on_appended(partition)
        waiting = _Waiting(Offset(appended.last_offset + 1), partition.leader_epoch, on_outcome)
        self._waiting.setdefault(partition_id, deque()).append(waiting)
        self._settle(partition_id)

    def when_committed(
        self, partition_id: TopicPartition, end_offset: Offset, on_committed: Callable[[], None]
    ) -> None:
        """Call a function when the high watermark reaches an offset, perhaps at once; never if this
        broker stops leading the partition before."""
        partition = self._table.find(partition_id)
        if partition is None:
            return
        expected = _Expected(end_offset, partition.leader_epoch, on_committed)
        self._expected.setdefault(partition_id, []).append(expected)
        self._look_at_expected(partition_id)

    def _look_at_expected(self, partition_id: TopicPartition) -> None:
        leader = None
        partition = self._table.find(partition_id)
        if partition is not None:
            leader = partition.leader
        for each in self._expected.pop(partition_id):
            if partition is None or leader is None or each.epoch < partition.led_since:
                continue
            if leader.high_watermark >= each.end_offset:
                each.on_committed()
            else:
                self._expected.setdefault(partition_id, []).append(each)

    def _settle(self, partition_id: TopicPartition) -> None:
        """Report the outcomes that are known, oldest first."""
        if partition_id in self._expected:
            self._look_at_expected(partition_id)
        queue = self._waiting.get(partition_id)
        while queue:
            code = self._outcome(partition_id, queue[0])
            if code is None:
                return
            on_outcome = queue.popleft().on_outcome
            if not queue:
                self._waiting.pop(partition_id, None)
            on_outcome(AppendOutcome(code, is_appended=True))

    def _outcome(self, partition_id: TopicPartition, waiting: _Waiting) -> ErrorCode | None:
        partition = self._table.find(partition_id)
        if partition is None:
            return ErrorCode.not_leader_or_follower
        return partition.produce_outcome(waiting.required_offset, waiting.epoch)
