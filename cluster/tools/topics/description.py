"""What `topics --describe` prints of a topic, in the layout of Kafka's own tool. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.model.printable import one_line


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; `leader` is None while it has none."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is missing from the in-sync set."""
        return len(self.isr) < len(self.replicas)

    @property
    def is_unavailable(self) -> bool:
        """Whether the partition has no leader."""
        return self.leader is None

    def line(self, topic: str) -> str:
        """The line of Kafka's tool. Its last two columns, since 3.8, are only filled with KRaft."""
        leader = "none" if self.leader is None else self.leader
        return (
            f"\tTopic: {one_line(topic)}\tPartition: {self.id}\tLeader: {leader}"
            f"\tReplicas: {_joined(self.replicas)}\tIsr: {_joined(self.isr)}"
            "\tElr: N/A\tLastKnownElr: N/A"
        )


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic; `configs` are those that are not Kafka's defaults."""

    name: str
    id: str
    configs: Mapping[str, str | None]
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, as Kafka's tool counts."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    def chosen_partitions(
        self, *, under_replicated: bool, unavailable: bool
    ) -> tuple[PartitionDescription, ...]:
        """The partitions that meet at least one of the conditions that are set."""
        return tuple(
            partition
            for partition in self.partitions
            if (under_replicated and partition.is_under_replicated)
            or (unavailable and partition.is_unavailable)
        )

    def header(self) -> str:
        """The line above the partitions."""
        configs = ",".join(
            f"{name}={one_line(str(value), None)}" for name, value in self.configs.items()
        )
        return (
            f"Topic: {one_line(self.name)}\tTopicId: {self.id}"
            f"\tPartitionCount: {len(self.partitions)}"
            f"\tReplicationFactor: {self.replication_factor}\tConfigs: {configs}"
        )

    def as_json(self, partitions: Iterable[PartitionDescription]) -> dict[str, Any]:
        """The topic with some or all of its partitions, for scripts."""
        return {
            "topic": self.name,
            "topic_id": self.id,
            "partition_count": len(self.partitions),
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
            "partitions": [
                {
                    "partition": partition.id,
                    "leader": partition.leader,
                    "replicas": list(partition.replicas),
                    "isr": list(partition.isr),
                }
                for partition in partitions
            ],
        }


def url_safe(topic_id: str) -> str:
    """Kafka's spelling of an id that was written in the standard base64 alphabet."""
    return topic_id.replace("+", "-").replace("/", "_").rstrip("=")


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
