"""What replicas and their storage need to know of the cluster."""

from collections.abc import Collection, Mapping
from typing import Protocol
from uuid import UUID

from cluster.model.cluster import BrokerRegistration, PartitionState, TopicState
from cluster.model.ids import BrokerId, TopicPartition


class KnownCluster(Protocol):
    """The cluster's state as this broker knows it now: the metadata cache."""

    @property
    def topics(self) -> Mapping[str, TopicState]:
        """The topics by name."""
        ...

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerRegistration]:
        """The live brokers."""
        ...

    def partition(self, partition: TopicPartition) -> PartitionState | None:
        """The state of a partition; None if there is no such partition."""
        ...

    def full_replicas(self, topic_id: UUID, number: int) -> Collection[BrokerId]:
        """The live brokers on which a partition's replica is in a full log directory."""
        ...
