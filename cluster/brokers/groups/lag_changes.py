"""Decides which groups and partitions need a metric record: changes since the last one. Pure."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.brokers.metrics.records import GroupFigures, PartitionLag
from cluster.coordinator.groups.views.progress import GroupProgress
from cluster.model.clocks import MonotonicMs, WallMs

UNCHANGED_MS: Final = 50_000
"""An unchanged partition gets a record in the first pass after this time, so that every window of a
minute has one."""

GROUP_UNCHANGED_MS: Final = 18_000
"""An unchanged group gets a record after this time: every 20 s with a pass every 5 s. The record
belongs to the window in which its interval begins, which is closed a minute after its begin."""


class StateTimes:
    """The time that groups spent in each state since the last pass.

    Lifecycle: `begin`, then `since_last` once for each group. Groups that were left out of a pass
    are forgotten at the next `begin`.
    """

    def __init__(self) -> None:
        self._before: dict[str, dict[str, int]] = {}
        self._now: dict[str, dict[str, int]] = {}

    def begin(self) -> None:
        """Begin a pass over all groups."""
        self._before, self._now = self._now, {}

    def since_last(self, progress: GroupProgress) -> dict[str, int]:
        """Milliseconds by state; states in which the group was not are left out."""
        times = self._now[progress.group_id] = progress.state_times_ms
        before = self._before.get(progress.group_id, {})
        if any(spent > times.get(state, 0) for state, spent in before.items()):
            before = {}  # it was deleted and created again
        since = {state: spent - before.get(state, 0) for state, spent in times.items()}
        return {state: spent for state, spent in since.items() if spent}


class DueGroup(NamedTuple):
    """The content of a group's metric record, and the interval that ends at its timestamp."""

    figures: GroupFigures
    wall_ms: WallMs
    interval_ms: int


@dataclass(slots=True)
class _Resting:
    """A group that has not changed since its last record and was in one state."""

    figures: GroupFigures
    """Without times in states."""
    since_ms: MonotonicMs
    """The end of the interval of its last record."""
    until_ms: MonotonicMs
    until_wall_ms: WallMs
    rested_ms: int = 0

    def due(self) -> DueGroup:
        """The record for the interval since the last one."""
        times = {self.figures.state: self.rested_ms} if self.rested_ms else {}
        figures = self.figures._replace(state_ms=times)
        return DueGroup(figures, self.until_wall_ms, self.until_ms - self.since_ms)


class GroupChanges:
    """Decides which groups need a record: those that have changed, and the others every 20 s.

    The intervals of a group's records have no gaps. In each of them the group was unchanged, or
    the interval is that of one pass.

    Lifecycle: `begin`, then `due` once for each group, then `gone`.
    """

    def __init__(self) -> None:
        self._now_ms = MonotonicMs(0)
        self._wall_ms = WallMs(0)
        self._interval_ms = 0
        self._before: dict[str, _Resting] = {}
        self._now: dict[str, _Resting] = {}

    def begin(self, now_ms: MonotonicMs, wall_ms: WallMs, interval_ms: int) -> None:
        """Begin a pass over all groups, `interval_ms` after the last one."""
        self._now_ms, self._wall_ms, self._interval_ms = now_ms, wall_ms, interval_ms
        self._before, self._now = self._now, {}

    def due(self, figures: GroupFigures) -> list[DueGroup]:
        """The records to write now: up to two, one for the unchanged time until the last pass, and
        one for the interval since then.
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
        """The last unchanged time of groups that are no longer coordinated here."""
        before, self._before = self._before, {}
        return (each.due() for each in before.values() if each.until_ms > each.since_ms)


class LagChanges:
    """Decides which partitions of groups need a record: those that have changed, and the others
    once a minute, so that idle groups do not fill the topic.

    Lifecycle: that of `StateTimes`, with `due` for all partitions of each group. What was written
    is kept in arrays, 32 bytes for each offset: a million objects would take too long to free, or
    in a garbage collection.
    """

    def __init__(self) -> None:
        self._now_ms = MonotonicMs(0)
        self._before: dict[tuple[str, str], array[int]] = {}
        """For each group and topic, in ascending order of partitions: partition, end, committed
        offset, and when a record was written."""
        self._now: dict[tuple[str, str], array[int]] = {}
        self._of = ("", "")
        self._position = 0
        """The position in `_before` from which the next partition is searched."""

    def begin(self, now_ms: MonotonicMs) -> None:
        """Begin a pass over all groups."""
        self._now_ms = now_ms
        self._before, self._now = self._now, {}
        self._of = ("", "")

    def due(self, group: str, topic: str, lags: Sequence[PartitionLag]) -> list[PartitionLag]:
        """The partitions to write now. A partition whose end is unknown gets no record.

        The partitions of a topic may be passed in several consecutive calls, in ascending order.
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
