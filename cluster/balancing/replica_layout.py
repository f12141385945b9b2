"""Where the replicas of a cluster are, and how much each broker has. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cluster.model.ids import BrokerId, TopicPartition

Moves = Mapping[TopicPartition, tuple[BrokerId, ...]]
"""The new replicas of the partitions that change, the preferred leader first."""


class BrokerLoad(NamedTuple):
    """What one broker has."""

    leaders: int = 0
    """Partitions whose preferred leader it is."""
    replicas: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The replicas of every partition, and the brokers that are alive."""

    racks: Mapping[BrokerId, str | None]
    """The rack of each live broker, None for one without."""
    replicas: Moves
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Bytes of one replica; 0 for those that are missing here."""
    fixed: frozenset[TopicPartition] = frozenset()
    """Partitions that cannot move, since no live leader has their records."""

    def after(self, moves: Moves) -> "Layout":
        """The layout when these partitions have moved."""
        return replace(self, replicas={**self.replicas, **moves})

    def loads(self) -> dict[BrokerId, BrokerLoad]:
        """What each broker has, by id: the live ones, and all that hold replicas."""
        found = {broker: [0, 0, 0] for broker in self.racks}
        for partition, replicas in self.replicas.items():
            size_bytes = self.sizes.get(partition, 0)
            for position, broker in enumerate(replicas):
                load = found.setdefault(broker, [0, 0, 0])
                load[0] += position == 0
                load[1] += 1
                load[2] += size_bytes
        return {broker: BrokerLoad(*found[broker]) for broker in sorted(found)}

    def copied_bytes(self, moves: Moves) -> int:
        """How much the moves copy to brokers that have no replica yet."""
        return sum(
            self.sizes.get(partition, 0) * len(set(replicas).difference(self.replicas[partition]))
            for partition, replicas in moves.items()
        )

    def brokers_missing(self) -> list[BrokerId]:
        """Brokers that hold replicas and are not alive."""
        return sorted({b for held in self.replicas.values() for b in held} - self.racks.keys())
