"""The cluster's state, decided by the controller and cached by brokers: brokers, topics,
partitions.
"""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicPartition,
)
from cluster.model.log_condition import INTACT, LogCondition


class Endpoint(NamedTuple):
    """The address of one listener of a broker."""

    listener: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of a live broker, stored in `/brokers/ids/[id]`."""

    id: BrokerId
    epoch: BrokerEpoch
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    control_endpoint: str
    replication_endpoint: str
    machine: str
    """Identifies the machine: brokers of one machine can read each other's files."""
    condition: LogCondition = INTACT
    """Which of its logs may lack committed records, as found at its start.

    For the controller only: it is not sent to other brokers."""

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of that listener, if the broker has it."""
        return next((e for e in self.endpoints if e.listener == listener), None)


class DoubtfulLog(NamedTuple):
    """The end of a former in-sync replica's log that may lack committed records."""

    broker: BrokerId
    last_epoch: LeaderEpoch
    """The leader epoch of its last record, -1 if it is empty."""
    log_end_offset: Offset
    """-1 if the log was missing. Its disk may come back, for instance if it was not mounted."""

    @property
    def is_there(self) -> bool:
        """Whether there is a log that could lead."""
        return self.log_end_offset >= 0


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state and assignment of one partition, stored in
    `/brokers/topics/[t]/partitions/[n]/state`.

    Invariant: every member of the ISR, and every eligible replica, has all committed records,
    unless its disk has lost them since it was last registered.
    """

    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    """Counts the changes of this state; a conditional change names the epoch that it is based
    on."""
    eligible: tuple[BrokerId, ...] = ()
    """Replicas outside the ISR that may lead (KIP-966): nothing was committed since they left."""
    doubtful: tuple[DoubtfulLog, ...] = ()
    """Former in-sync replicas whose logs may have lost committed records.

    If there is no leader, the best of them leads once neither ISR nor eligible replicas are
    left."""
    adding: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment adds; they are among `replicas`."""
    removing: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment removes once the added ones are in sync; they are among
    `replicas`, too."""

    @property
    def has_leader(self) -> bool:
        """False while no in-sync replica is alive."""
        return self.leader != NO_BROKER

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment has begun and is not completed."""
        return bool(self.adding or self.removing)

    @property
    def original_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas without those that a reassignment adds."""
        if not self.adding:
            return self.replicas
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def replication_factor(self) -> int:
        """Replicas without those that a reassignment adds; `min.insync.replicas` counts for that
        many, so that a partition with few replicas stays usable while it moves."""
        return len(self.replicas) - len(self.adding)


class OfflinePartitions(NamedTuple):
    """Replicas of one topic on a live broker whose log directory has failed or is full."""

    broker: BrokerId
    topic_id: uuid.UUID
    partitions: tuple[int, ...]


@dataclass(slots=True)
class TopicState:
    """One topic. `configs` contains overrides only."""

    name: str
    topic_id: uuid.UUID
    configs: Mapping[str, str]
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class FullReplicas:
    """The replicas on live brokers whose log directories are full, so that they take no records.

    They stay in the ISR while they have everything, and lead if no in-sync replica has room.
    """

    def __init__(self) -> None:
        self._by_broker: dict[BrokerId, dict[uuid.UUID, frozenset[int]]] = {}
        """Brokers without such a replica have no entry."""

    def __bool__(self) -> bool:
        return bool(self._by_broker)

    def put(self, broker: BrokerId, replicas: Iterable[OfflinePartitions]) -> None:
        """Replace the replicas of one broker."""
        topics = {each.topic_id: frozenset(each.partitions) for each in replicas}
        if topics:
            self._by_broker[broker] = topics
        else:
            self._by_broker.pop(broker, None)

    def put_all(self, replicas: Collection[OfflinePartitions]) -> None:
        """Replace the replicas of all brokers."""
        self._by_broker.clear()
        for broker in {each.broker for each in replicas}:
            self.put(broker, (each for each in replicas if each.broker == broker))

    @property
    def all(self) -> tuple[OfflinePartitions, ...]:
        """The replicas of all brokers."""
        return tuple(
            OfflinePartitions(broker, topic_id, tuple(sorted(numbers)))
            for broker, topics in self._by_broker.items()
            for topic_id, numbers in topics.items()
        )

    def brokers_of(self, topic_id: uuid.UUID, number: int) -> Collection[BrokerId]:
        """The brokers with such a replica of a partition."""
        if not self._by_broker:
            return ()
        nothing: frozenset[int] = frozenset()
        return {
            broker
            for broker, topics in self._by_broker.items()
            if number in topics.get(topic_id, nothing)
        }


class ClusterState:
    """Brokers and topics, indexed by name and id. Owned by one thread; others see copies.

    Invariant: `topics` and the index by id hold the same topics.
    """

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, BrokerRegistration] = {}
        self.topics: dict[str, TopicState] = {}
        self._names_by_id: dict[uuid.UUID, str] = {}
        self._offline: dict[BrokerId, dict[uuid.UUID, frozenset[int]]] = {}
        """Brokers without an offline replica have no entry."""
        self.full = FullReplicas()
        self.full_brokers: dict[BrokerId, str] = {}
        """Live brokers without room in any log directory, each with a description."""

    def put_topic(self, topic: TopicState) -> None:
        """Add or replace a topic."""
        old = self.topics.get(topic.name)
        if old is not None:
            self._names_by_id.pop(old.topic_id, None)
        self.topics[topic.name] = topic
        self._names_by_id[topic.topic_id] = topic.name

    def remove_topic(self, name: str) -> TopicState | None:
        """Remove a topic and return it; None if it is unknown."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._names_by_id.pop(topic.topic_id, None)
        return topic

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic with that id, or None."""
        return self._names_by_id.get(topic_id)

    def partition(self, partition: TopicPartition) -> PartitionState | None:
        """The state of one partition; None if there is no such partition."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Every partition of every topic."""
        for topic in self.topics.values():
            for index, state in topic.partitions.items():
                yield TopicPartition(topic.name, index), state

    # -- replicas that are offline on a live broker ----------------------------------------------

    @property
    def offline(self) -> tuple[OfflinePartitions, ...]:
        """Every offline replica of live brokers."""
        return tuple(
            OfflinePartitions(broker, topic_id, tuple(sorted(numbers)))
            for broker, topics in self._offline.items()
            for topic_id, numbers in topics.items()
        )

    def set_offline(self, broker: BrokerId, replicas: Iterable[OfflinePartitions]) -> None:
        """Replace the offline replicas of one broker."""
        topics = {each.topic_id: frozenset(each.partitions) for each in replicas}
        if topics:
            self._offline[broker] = topics
        else:
            self._offline.pop(broker, None)

    def set_all_offline(self, replicas: Collection[OfflinePartitions]) -> None:
        """Replace the offline replicas of all brokers."""
        self._offline.clear()
        for broker in {each.broker for each in replicas}:
            self.set_offline(broker, (each for each in replicas if each.broker == broker))

    def offline_replicas(self, topic_id: uuid.UUID, number: int) -> Collection[BrokerId]:
        """The live brokers on which a partition's replica is offline."""
        if not self._offline:
            return ()
        nothing: frozenset[int] = frozenset()
        return {
            broker
            for broker, topics in self._offline.items()
            if number in topics.get(topic_id, nothing)
        }

    def usable(
        self, partition: TopicPartition, brokers: Collection[BrokerId]
    ) -> Collection[BrokerId]:
        """The given brokers without those whose replica of the partition is offline."""
        topic = self.topics.get(partition.topic)
        if not self._offline or topic is None:
            return brokers
        offline = self.offline_replicas(topic.topic_id, partition.partition)
        return {broker for broker in brokers if broker not in offline} if offline else brokers

    def with_room(
        self, partition: TopicPartition, brokers: Collection[BrokerId]
    ) -> Collection[BrokerId]:
        """The given brokers without those whose replica of the partition is in a full log
        directory.
        """
        topic = self.topics.get(partition.topic)
        if not self.full or topic is None:
            return brokers
        full = self.full.brokers_of(topic.topic_id, partition.partition)
        return {broker for broker in brokers if broker not in full} if full else brokers
