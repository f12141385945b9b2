"""How far groups were behind over time, and in which states, from the rollup's windows. Pure.

A partition of which nothing changes has a metric record a minute, so in narrow windows there are
gaps: there it is taken to be as it was before.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from cluster.analytics.metric_rows import STATES
from cluster.analytics.reports.usage_history import Span
from cluster.model.printable import one_line

_CARRIED_S: Final = 60
"""A partition that says nothing for longer has no committed offset any more."""
_LATE_S: Final = 30
"""By so much a record may be later than a minute after the one before."""
REBALANCING: Final = (
    *("preparing_rebalance_ms", "completing_rebalance_ms"),
    *("assigning_ms", "reconciling_ms"),
)
"""Columns of the states in which a group of either protocol rebalances."""


@dataclass(slots=True)
class LagSeries:
    """One group's lag in one topic, or in one partition of it."""

    group: str
    topic: str
    partitions: frozenset[int]
    lags: list[int | None]
    """One for each window of the span: at its end, added up over partitions; None before the first
    and after the last record."""
    produced: int = 0
    consumed: int = 0
    """Records by which log ends and committed offsets have moved on."""
    seconds: int = 0
    """In which they did: from the first window to the last."""
    now: int | None = None
    """At the end of the span; None where there is nothing to be behind of any more: the topic was
    deleted, or the group has no offsets there."""

    @property
    def last(self) -> int | None:
        """The latest that is known."""
        return next((lag for lag in reversed(self.lags) if lag is not None), None)

    @property
    def most(self) -> int:
        """The highest at the end of a window."""
        return max((lag for lag in self.lags if lag is not None), default=0)

    @property
    def produced_per_s(self) -> float | None:
        """None for a single window."""
        return self.produced / self.seconds if self.seconds else None

    @property
    def consumed_per_s(self) -> float | None:
        """None for a single window."""
        return self.consumed / self.seconds if self.seconds else None

    def as_json(self) -> dict[str, Any]:
        """The fields that `--json` prints."""
        return {
            "topic": self.topic,
            "partitions": sorted(self.partitions),
            "lag_now": self.now,
            "lag_last": self.last,
            "lag_max": self.most,
            "produced_per_s": self.produced_per_s,
            "consumed_per_s": self.consumed_per_s,
            "lags": self.lags,
        }


@dataclass(slots=True)
class GroupTimes:
    """One group over the span: time in each state, and lag over all of its topics."""

    group: str
    members_max: int = 0
    lag_max: int = 0
    lag_last: int = 0
    lag_now: int | None = None
    """At the end of the span; None for a group that had ended by then."""
    states_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES.values(), 0))
    """By column."""

    @property
    def name(self) -> str:
        """Its id on one line, for display."""
        return one_line(self.group) or "(empty id)"

    @property
    def known_ms(self) -> int:
        """For how long its state is known."""
        return sum(self.states_ms.values())

    @property
    def rebalancing_ms(self) -> int:
        """How long its members had no assignment, or gave up and waited for partitions."""
        return sum(self.states_ms[column] for column in REBALANCING)

    def share(self, spent_ms: int) -> float:
        """Percent of the time in which its state is known."""
        return 100 * spent_ms / self.known_ms if self.known_ms else 0.0

    def as_json(self) -> dict[str, Any]:
        """The fields that `--json` prints."""
        return {
            "group": self.group,
            "members_max": self.members_max,
            "lag_max": self.lag_max,
            "lag_now": self.lag_now,
            "lag_last": self.lag_last,
            "state_ms": {state: self.states_ms[column] for state, column in STATES.items()},
        }


def group_times(windows: pa.Table, span: Span) -> list[GroupTimes]:
    """The groups in a table of GROUP_SCHEMA in order of time, the furthest behind first.

    One that is silent for a minute before the end of the span has ended.
    """
    found: dict[str, GroupTimes] = {}
    for row in windows.to_pylist():
        times = found.setdefault(row["group"], GroupTimes(row["group"]))
        times.members_max = max(times.members_max, row["members_max"])
        times.lag_max = max(times.lag_max, row["lag_max"])
        times.lag_last = row["lag_last"]
        is_there = _start_s(row) + span.width_s + _CARRIED_S >= span.end_s
        times.lag_now = row["lag_last"] if is_there else None
        for column in STATES.values():
            times.states_ms[column] += row[column]
    return sorted(
        found.values(), key=lambda each: (-(each.lag_now or 0), -each.lag_max, each.group)
    )


def lag_series(windows: pa.Table, span: Span, *, by_partition: bool = False) -> list[LagSeries]:
    """The groups and topics, or partitions, in a table of LAG_SCHEMA in order of time.

    The furthest behind come first.
    """
    rows_of: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in windows.to_pylist():
        rows_of[row["group"], row["topic"], row["partition"]].append(row)
    members: dict[tuple[Any, ...], list[tuple[int, list[dict[str, Any]]]]] = defaultdict(list)
    for (group, topic, partition), rows in rows_of.items():
        key = (group, topic, partition) if by_partition else (group, topic)
        members[key].append((partition, rows))
    found = [_series(key[0], key[1], parts, span) for key, parts in members.items()]
    return sorted(
        found, key=lambda each: (-(each.now or 0), each.group, each.topic, min(each.partitions))
    )


def _series(
    group: str, topic: str, parts: list[tuple[int, list[dict[str, Any]]]], span: Span
) -> LagSeries:
    count = (span.end_s - span.first_s) // span.width_s
    lags: list[int | None] = [None] * count
    firsts, lasts = [], []
    produced = consumed = 0
    for _, rows in parts:
        for index, lag in _carried(rows, span, count):
            lags[index] = (lags[index] or 0) + lag
        produced += max(0, rows[-1]["log_end_max"] - rows[0]["log_end_max"])
        consumed += max(0, rows[-1]["committed_max"] - rows[0]["committed_max"])
        firsts.append(_start_s(rows[0]))
        lasts.append(_start_s(rows[-1]))
    numbers = frozenset(partition for partition, _ in parts)
    late = lags[-1 - _LATE_S // span.width_s :]
    now = next((lag for lag in reversed(late) if lag is not None), None)
    seconds = max(lasts) - min(firsts)
    return LagSeries(group, topic, numbers, lags, produced, consumed, seconds, now)


def _carried(rows: list[dict[str, Any]], span: Span, count: int) -> Iterable[tuple[int, int]]:
    """Index of the window and lag: of each row, and of the windows without one after it."""
    ends = [(_start_s(row) - span.first_s) // span.width_s for row in rows[1:]]
    for row, next_index in zip(rows, [*ends, count], strict=True):
        index = (_start_s(row) - span.first_s) // span.width_s
        carried = index + 1 + _CARRIED_S // span.width_s
        for each in range(index, min(next_index, carried, count)):
            yield each, row["lag_last"]


def _start_s(row: dict[str, Any]) -> int:
    return int(row["window_start"].timestamp())
