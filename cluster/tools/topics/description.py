"""What `topics --describe` prints of a topic, in the layout of Kafka's own tool. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cluster.client.reassignment_requests import OngoingReassignment
from cluster.model.printable import one_line


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; `leader` is None while it has none."""

    id: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    reassignment: OngoingReassignment | None = None
    """Where it is being moved to, if it is."""

    @property
    def replication_factor(self) -> int:
        """The number of replicas without those that a reassignment adds."""
        added = () if self.reassignment is None else self.reassignment.adding
        return len(self.replicas) - len(added)

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is missing from the in-sync set."""
        return len(self.isr) < self.replication_factor

    @property
    def is_unavailable(self) -> bool:
        """Whether the partition has no leader."""
        return self.leader is None

    def is_under_min_isr(self, min_isr: int) -> bool:
        """Whether acks=all is refused here: too few in-sync replicas, or no leader."""
        return self.is_unavailable or len(self.isr) < min_isr

    def is_at_min_isr(self, min_isr: int) -> bool:
        """Whether one more failure makes acks=all refused."""
        return len(self.isr) == min_isr

    def line(self, topic: str) -> str:
        """The line of Kafka's tool, without eligible leader replicas."""
        leader = "none" if self.leader is None else self.leader
        moves = ""
        if self.reassignment is not None:
            adding, removing = map(_joined, (self.reassignment.adding, self.reassignment.removing))
            moves = f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
        return (
            f"\tTopic: {one_line(topic)}\tPartition: {self.id}\tLeader: {leader}"
            f"\tReplicas: {_joined(self.replicas)}\tIsr: {_joined(self.isr)}{moves}"
            "\tElr: \tLastKnownElr: "
        )


class Chosen(NamedTuple):
    """Which partitions to show; without any condition, all."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic; `configs` are those that are not Kafka's defaults."""

    name: str
    id: str
    configs: Mapping[str, str | None]
    partitions: tuple[PartitionDescription, ...]
    min_isr: int = 1
    """The `min.insync.replicas` in force."""

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, as Kafka's tool counts."""
        return self.partitions[0].replication_factor if self.partitions else 0

    def chosen_partitions(self, wanted: "Chosen") -> tuple[PartitionDescription, ...]:
        """The partitions that meet at least one of the conditions that are set."""
        return tuple(
            partition
            for partition in self.partitions
            if (wanted.under_replicated and partition.is_under_replicated)
            or (wanted.unavailable and partition.is_unavailable)
            or (wanted.under_min_isr and partition.is_under_min_isr(self.min_isr))
            or (wanted.at_min_isr and partition.is_at_min_isr(self.min_isr))
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
                    **_moves(partition.reassignment),
                }
                for partition in partitions
            ],
        }


def _moves(reassignment: OngoingReassignment | None) -> dict[str, list[int]]:
    if reassignment is None:
        return {}
    return {"adding": list(reassignment.adding), "removing": list(reassignment.removing)}


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
