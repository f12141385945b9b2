"""What shards count. Pure. Kafka: the sensors of `GroupCoordinatorMetrics`."""

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounts:
    """Only grow. All shards of a broker add to the same ones."""

    offset_commits: int = 0
    """Offsets, not requests, whose commit is stored."""
    offset_expirations: int = 0
    """Offsets that nobody has committed again within `offsets.retention.minutes`."""
    offset_deletions: int = 0
    """Offsets removed by a request, or with their topic or group."""
    completed_rebalances: int = 0
    """Generations whose assignment is stored."""
    consumer_rebalances: int = 0
    """New epochs of groups of the newer consumer protocol that are stored."""

    def note_consumer_rebalance(self, _now: object = None) -> None:
        """The records of a new epoch are stored."""
        self.consumer_rebalances += 1
