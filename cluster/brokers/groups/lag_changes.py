"""What has changed of groups since their last metric record. Pure."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.brokers.metrics.records import GroupFigures, PartitionLag
from cluster.coordinator.groups.views.progress import GroupProgress
from cluster.model.clocks import MonotonicMs, WallMs

UNCHANGED_MS: Final = 50_000
"""A partition of which nothing changes gets a record at the first look after so long: so every
minute has one, and with it every window of a minute."""

GROUP_UNCHANGED_MS: Final = 18_000
"""The same of a group: every 20 s with looks every 5 s. Its record belongs where its time begins,
and must not come when windows of that time are closed already, a minute after they began."""


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


class DueGroup(NamedTuple):
    """What a metric record says of a group, and of which time: the interval that ends then."""

    figures: GroupFigures
    wall_ms: WallMs
    interval_ms: int


@dataclass(slots=True)
class _Resting:
    """A group since its last record: nothing has changed, and it was in one state."""

    figures: GroupFigures
    """With no times."""
    since_ms: MonotonicMs
    """Up to where records tell of it."""
    until_ms: MonotonicMs
    until_wall_ms: WallMs
    rested_ms: int = 0

    def due(self) -> DueGroup:
        """The record of the time since the last one."""
        times = {self.figures.state: self.rested_ms} if self.rested_ms else {}
        figures = self.figures._replace(state_ms=times)
        return DueGroup(figures, self.until_wall_ms, self.until_ms - self.since_ms)


class GroupChanges:
    """Which groups need a record: those where something has changed, the others every 20 s, of the
    whole time since their last one. So records of one group cover its time without gaps, each
    of them a time in which it was the same, or of one interval.

    Lifecycle: `begin`, then `due` once for each group that there is, then `gone`.
    """

    def __init__(self) -> None:
        self._now_ms = MonotonicMs(0)
        self._wall_ms = WallMs(0)
        self._interval_ms = 0
        self._before: dict[str, _Resting] = {}
        self._now: dict[str, _Resting] = {}

    def begin(self, now_ms: MonotonicMs, wall_ms: WallMs, interval_ms: int) -> None:
        """Another look at all groups, so many milliseconds after the last one."""
        self._now_ms, self._wall_ms, self._interval_ms = now_ms, wall_ms, interval_ms
        self._before, self._now = self._now, {}

    def due(self, figures: GroupFigures) -> list[DueGroup]:
        """The records to write now: up to two, one of its rest until the last look and one of the
        interval since then.
        """
        group = figures.group
        known = self._before.pop(group, None)
        bare = figures._replace(state_ms={})
        if known is None or known.figures != bare or not figures.state_ms.keys() <= {figures.state}:
            due = [DueGroup(figures, self._wall_ms, self._interval_ms)]
            if known is not None and known.until_ms > known.since_ms:
                due.insert(0, known.due())
            self._now[group] = _Resting(bare, self._now_ms, self._now_ms, self._wall_ms)
            return due
        known.rested_ms += figures.state_ms.get(figures.state, 0)
        known.until_ms, known.until_wall_ms = self._now_ms, self._wall_ms
        self._now[group] = known
        if self._now_ms - known.since_ms < GROUP_UNCHANGED_MS:
            return []
        due = [known.due()]
        known.since_ms, known.rested_ms = self._now_ms, 0
        return due

    def gone(self) -> Iterator[DueGroup]:
        """The last rest of groups that are no longer here."""
        before, self._before = self._before, {}
        return (each.due() for each in before.values() if each.until_ms > each.since_ms)


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
