"""What has changed of groups since their last metric record. Pure."""

from typing import Final

from cluster.brokers.metrics.records import PartitionLag
from cluster.coordinator.groups.progress import GroupProgress
from cluster.model.clocks import MonotonicMs

UNCHANGED_MS: Final = 50_000
"""A partition of which nothing changes gets a record at the first look after so long: so every
minute has one, and with it every window of a minute."""


class StateTimes:
    """How long groups were in their states since the last look.

    Lifecycle: `begin`, then `since_last` once for each group that there is; what was not asked for
    is forgotten at the next `begin`.
    """

    def __init__(self) -> None:
        self._before: dict[str, dict[str, int]] = {}
        self._now: dict[str, dict[str, int]] = {}

    def begin(self) -> None:
        """Another look at all groups."""
        self._before, self._now = self._now, {}

    def since_last(self, progress: GroupProgress) -> dict[str, int]:
        """Milliseconds by state, without states that it was not in."""
        times = self._now[progress.group_id] = progress.state_times_ms
        before = self._before.get(progress.group_id, {})
        if any(spent > times.get(state, 0) for state, spent in before.items()):
            before = {}  # it was deleted, and another was made under its name
        since = {state: spent - before.get(state, 0) for state, spent in times.items()}
        return {state: spent for state, spent in since.items() if spent}


class LagChanges:
    """Which partitions of which groups need a record: those where something has changed, the
    others once a minute. Without that, groups that rest would fill the topic.

    Lifecycle: as of `StateTimes`, with `is_due` for each partition of each group.
    """

    def __init__(self) -> None:
        self._now_ms = MonotonicMs(0)
        self._before: dict[tuple[str, str, int], tuple[PartitionLag, MonotonicMs]] = {}
        self._now: dict[tuple[str, str, int], tuple[PartitionLag, MonotonicMs]] = {}

    def begin(self, now_ms: MonotonicMs) -> None:
        """Another look at all groups."""
        self._now_ms = now_ms
        self._before, self._now = self._now, {}

    def is_due(self, group: str, topic: str, lag: PartitionLag) -> bool:
        """Whether to write it now. A partition whose end is not known has nothing to say."""
        if lag.log_end is None:
            return False
        key = (group, topic, lag.partition)
        before = self._before.get(key)
        if before is not None and before[0] == lag and self._now_ms - before[1] < UNCHANGED_MS:
            self._now[key] = before
            return False
        self._now[key] = (lag, self._now_ms)
        return True
