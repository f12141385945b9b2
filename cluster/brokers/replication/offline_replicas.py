"""The replicas of this broker that are offline because their log directory failed. Pure."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cluster.model.ids import TopicPartition


class OfflineReplica(NamedTuple):
    """A replica that is neither read nor written until the broker starts again."""

    topic_id: uuid.UUID
    reason: str


class OfflineReplicas:
    """Owned by the broker's thread. A replica that is offline is not in the partition table."""

    def __init__(self) -> None:
        self._replicas: dict[TopicPartition, OfflineReplica] = {}
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after every change from now on."""
        self._listeners.append(listener)

    def __len__(self) -> int:
        return len(self._replicas)

    def find(self, partition: TopicPartition) -> OfflineReplica | None:
        """The replica, if it is offline."""
        return self._replicas.get(partition)

    def partitions(self) -> list[TopicPartition]:
        """Every replica that is offline."""
        return list(self._replicas)

    def add(self, partition: TopicPartition, topic_id: uuid.UUID, reason: str) -> None:
        """A replica cannot be used."""
        self._replicas[partition] = OfflineReplica(topic_id, reason)
        self._tell()

    def forget(self, partition: TopicPartition) -> None:
        """The replica is not this broker's any more."""
        if self._replicas.pop(partition, None) is not None:
            self._tell()

    def forget_topics(self, names: Iterable[str]) -> None:
        """These topics are deleted."""
        gone = set(names)
        for partition in [p for p in self._replicas if p.topic in gone] if gone else ():
            self.forget(partition)

    def by_topic(self) -> dict[uuid.UUID, tuple[int, ...]]:
        """The numbers of the partitions, ascending, by topic id."""
        found: defaultdict[uuid.UUID, list[int]] = defaultdict(list)
        for partition, replica in self._replicas.items():
            found[replica.topic_id].append(partition.partition)
        return {topic_id: tuple(sorted(numbers)) for topic_id, numbers in found.items()}

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
