"""What shards count. Pure. Kafka: the sensors of `GroupCoordinatorMetrics`."""

from dataclasses import dataclass, field

from cluster.metrics.events import EventKind, EventLog


@dataclass(slots=True)
class GroupCounts:
    """Only grow. All shards of a broker add to the same ones."""

    events: EventLog = field(default_factory=EventLog)
    """Is told of each rebalance that is counted."""

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

    def note_rebalance(self, group: str, generation: int, members: int) -> None:
        """The assignment of a generation of the classic protocol is stored."""
        self.completed_rebalances += 1
        self._tell(group, generation, members)

    def note_consumer_rebalance(self, group: str, epoch: int, members: int) -> None:
        """The records of a new epoch are stored."""
        self.consumer_rebalances += 1
        self._tell(group, epoch, members)

    def _tell(self, group: str, generation: int, members: int) -> None:
        detail = f"generation {generation}, {members} member{'' if members == 1 else 's'}"
        self.events.note(EventKind.REBALANCE, group, detail)
