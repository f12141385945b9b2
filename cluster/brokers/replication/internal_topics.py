"""Internal topics, in which parts of a broker store their state as records.

Kafka: `CoordinatorPartitionWriter` and `CoordinatorLoader`. The `StateKeeper` of a topic loads a
partition when this broker begins to lead it, and unloads it when the broker stops leading it.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cluster.brokers.replication.partition import ACKS_ALL, Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop


class AppendOutcome(NamedTuple):
    """The result of an append; `code` is none when every in-sync replica has the batch."""

    code: ErrorCode
    is_appended: bool
    """With an error: whether the batch is in the log nevertheless, and may yet be committed."""
    detail: str = ""


OnOutcome = Callable[[AppendOutcome], None]


class StateKeeper(Protocol):
    """Keeps the state of a partition's records in memory while this broker leads it."""

    def on_elected(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """This broker leads the partition now: load it."""
        ...

    def on_resigned(self, partition: TopicPartition) -> None:
        """This broker stops leading it, or leads it in another epoch: unload it at once."""
        ...


class _Waiting(NamedTuple):
    required_offset: Offset
    epoch: LeaderEpoch
    on_outcome: OnOutcome


class InternalTopics:
    """Owned by the broker's thread.

    Invariant: every `append` calls its `on_outcome` once, in the order of appends by partition; but
    a refusal is reported at once, before the outcome of earlier appends that wait.
    """

    def __init__(
        self, table: PartitionTable, events: PartitionEvents, clock: Clock, loop: EventLoop
    ) -> None:
        self._table = table
        self._events = events
        self._clock = clock
        self._loop = loop
        self._keepers: dict[str, StateKeeper] = {}
        self._led: dict[TopicPartition, LeaderEpoch] = {}
        """The led partitions of topics with a keeper, with their leader epochs."""
        self._waiting: dict[TopicPartition, deque[_Waiting]] = {}
        events.subscribe(on_moved=self._settle, on_role=self._on_role_changed)

    def keep(self, topic: str, keeper: StateKeeper) -> None:
        """Call `keeper` about this topic's partitions from now on; one keeper per topic."""
        self._keepers[topic] = keeper

    def append(
        self, partition_id: TopicPartition, batch: memoryview, on_outcome: OnOutcome
    ) -> None:
        """Append one batch; `on_outcome` is called when every in-sync replica has it, or on error.

        It may be called before this returns.
        """
        partition = self._table.find(partition_id)
        if partition is None:
            on_outcome(AppendOutcome(ErrorCode.not_leader_or_follower, is_appended=False))
            return
        end = partition.log.log_end_offset
        try:
            appended = partition.append(batch, ACKS_ALL, self._clock.wall_ms(), self._loop.now_ms)
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

    def note_failure(self, partition_id: TopicPartition, failure: StorageFailed) -> None:
        """A keeper could not read a partition: its directory may have to be given up."""
        self._table.note_failure(partition_id, failure)

    def _settle(self, partition_id: TopicPartition) -> None:
        """Report the outcomes that are known, oldest first."""
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

    def _on_role_changed(self, partition_id: TopicPartition) -> None:
        self._settle(partition_id)
        keeper = self._keepers.get(partition_id.topic)
        if keeper is None:
            return
        partition = self._table.find(partition_id)
        epoch = None if partition is None or partition.leader is None else partition.leader_epoch
        if self._led.get(partition_id) == epoch:
            return
        if self._led.pop(partition_id, None) is not None:
            keeper.on_resigned(partition_id)
        if partition is not None and epoch is not None:
            self._led[partition_id] = epoch
            keeper.on_elected(partition, epoch)
