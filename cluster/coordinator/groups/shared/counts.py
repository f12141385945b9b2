"""The counters of the group coordinator. Pure. Kafka: the sensors of `GroupCoordinatorMetrics`."""

from dataclasses import dataclass, field

from cluster.metrics.events import EventKind, EventLog


@dataclass(slots=True)
class GroupCounts:
    """Counters never decrease. All shards of a broker share one instance."""

    events: EventLog = field(default_factory=EventLog)
    """Receives each counted rebalance."""

    offset_commits: int = 0
    """Offsets, not requests, whose commit was stored."""
    offset_expirations: int = 0
    """Offsets that expired after `offsets.retention.minutes`."""
    offset_deletions: int = 0
    """Offsets removed by a request, or together with their topic or group."""
    completed_rebalances: int = 0
    """Generations whose assignment was stored."""
    consumer_rebalances: int = 0
    """New epochs of groups of the newer consumer protocol that were stored."""

    def note_rebalance(self, group: str, generation: int, members: int) -> None:
        """Count a generation of the classic protocol whose assignment was stored."""
        self.completed_rebalances += 1
        self._tell(group, generation, members)

    def note_consumer_rebalance(self, group: str, epoch: int, members: int) -> None:
        """Count a new epoch whose records were stored."""
        self.consumer_rebalances += 1
        self._tell(group, epoch, members)

    def _tell(self, group: str, generation: int, members: int) -> None:
        detail = f"generation {generation}, {members} member{'' if members == 1 else 's'}"
        self.events.note(EventKind.REBALANCE, group, detail)
