"""Internal topics, in which parts of a broker store their state as records.

Kafka: `CoordinatorLoader`. The `StateKeeper` of a topic loads a partition when this broker begins
to lead it, and unloads it when the broker stops leading it.
"""

from typing import Protocol

from cluster.brokers.replication.own_appends import OwnAppends
from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_events import PartitionEvents
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.model.errors import StorageFailed
from cluster.model.ids import LeaderEpoch, TopicPartition


class StateKeeper(Protocol):
    """Keeps the state of a partition's records in memory while this broker leads it."""

    def on_elected(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """This broker leads the partition now: load it."""
        ...

    def on_resigned(self, partition: TopicPartition) -> None:
        """This broker stops leading it, or others have led it meanwhile: unload it at once."""
        ...


class InternalTopics:
    """Owned by the broker's thread."""

    def __init__(self, table: PartitionTable, events: PartitionEvents, appends: OwnAppends) -> None:
        """The outcomes of `appends` are known before a keeper is told that it resigns."""
        self.appends = appends
        self._table = table
        self._keepers: dict[str, StateKeeper] = {}
        self._led: dict[TopicPartition, LeaderEpoch] = {}
        """The led partitions of topics with a keeper, with the first epochs of the leaderships."""
        events.subscribe(on_role=self._on_role_changed)

    def keep(self, topic: str, keeper: StateKeeper) -> None:
        """Call `keeper` about this topic's partitions from now on; one keeper per topic."""
        self._keepers[topic] = keeper

    def note_failure(self, partition_id: TopicPartition, failure: StorageFailed) -> None:
        """A keeper could not read a partition: its directory may have to be given up."""
        self._table.note_failure(partition_id, failure)

    def _on_role_changed(self, partition_id: TopicPartition) -> None:
        keeper = self._keepers.get(partition_id.topic)
        if keeper is None:
            return
        partition = self._table.find(partition_id)
        epoch = None if partition is None or partition.leader is None else partition.led_since
        if self._led.get(partition_id) == epoch:
            return
        if self._led.pop(partition_id, None) is not None:
            keeper.on_resigned(partition_id)
        if partition is not None and epoch is not None:
            self._led[partition_id] = epoch
            keeper.on_elected(partition, epoch)
