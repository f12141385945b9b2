"""What has changed of groups since their last metric record. Pure."""

from array import array
from collections.abc import Sequence
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

    Lifecycle: as of `StateTimes`, with `due` for all partitions of each group. What was told takes
    32 bytes for each offset, in few objects: a million of their own would be felt when they are
    freed, or visited by a garbage collection.
    """

    def __init__(self) -> None:
        self._now_ms = MonotonicMs(0)
        self._before: dict[tuple[str, str], array[int]] = {}
        """By group and topic: partition, end, committed offset and when that was told, of each
        partition, in ascending order."""
        self._now: dict[tuple[str, str], array[int]] = {}
        self._of = ("", "")
        self._position = 0
        """Where in `_before` the next partition of that group and topic may be."""

    def begin(self, now_ms: MonotonicMs) -> None:
        """Another look at all groups."""
        self._now_ms = now_ms
        self._before, self._now = self._now, {}
        self._of = ("", "")

    def due(self, group: str, topic: str, lags: Sequence[PartitionLag]) -> list[PartitionLag]:
        """Those to write now. A partition whose end is not known has nothing to say.

        The partitions of a topic may come in several calls, one after the other, and come in
        ascending order.
        """
        key = (group, topic)
        if key != self._of:
            self._of = key
            self._position = 0
            self._now[key] = array("q")
        before, now, position = self._before.get(key, _NOTHING), self._now[key], self._position
        found = []
        for lag in lags:
            number, end, committed = lag
            if end is None:
                continue
            while position < len(before) and before[position] < number:
                position += _COLUMNS
            told_ms = int(self._now_ms)
            if (
                before[position : position + 3] == array("q", (number, end, committed))
                and told_ms - before[position + 3] < UNCHANGED_MS
            ):
                told_ms = before[position + 3]
            else:
                found.append(lag)
            now.extend((number, end, committed, told_ms))
        self._position = position
        return found


_COLUMNS: Final = 4
_NOTHING: Final = array("q")
