"""The lag and the states of groups over time, from the rollup's windows. Pure.

An unchanged partition has a metric record a minute, so narrow windows have gaps, in which its lag
is assumed to stay the same.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.reports.usage_history import Span
from cluster.analytics.windows.kinds import STATES
from cluster.model.printable import one_line

_CARRIED_S: Final = 60
"""A partition that is silent for longer has no committed offset any more."""
_LATE_S: Final = 30
"""How much later than a minute after the previous one a record may be."""
_PARTITION: Final = ("group", "topic", "partition")
GROUP_COLUMNS: Final = (
    *("window_start", "group", "members_max", "lag_max", "lag_last"),
    *STATES.values(),
)
"""The columns of windows that `group_times` needs."""
LAG_COLUMNS: Final = ("window_start", *_PARTITION, "lag_last", "log_end_max", "committed_max")
"""The columns of windows that `lag_series` needs."""
_CHANGE: Final = ("index", "lag", "known")
_MILLION: Final = 1_000_000
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
    """The lag at the end of each window of the span, added up over partitions.

    None before the first and after the last record."""
    produced: int = 0
    consumed: int = 0
    """The records by which log ends and committed offsets advanced."""
    seconds: int = 0
    """The time in which they did, from the first window to the last."""
    now: int | None = None
    """The lag at the end of the span.

    None if the topic was deleted, or if the group has no offsets there."""

    @property
    def last(self) -> int | None:
        """The latest known lag."""
        return next((lag for lag in reversed(self.lags) if lag is not None), None)

    @property
    def most(self) -> int:
        """The highest lag at the end of a window."""
        return max((lag for lag in self.lags if lag is not None), default=0)

    @property
    def produced_per_s(self) -> float | None:
        """None with a single window."""
        return self.produced / self.seconds if self.seconds else None

    @property
    def consumed_per_s(self) -> float | None:
        """None with a single window."""
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
    """The lag at the end of the span; None for a group that had ended by then."""
    states_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES.values(), 0))
    """The time in each state, by column."""

    @property
    def name(self) -> str:
        """Its id on one line, for display."""
        return one_line(self.group) or "(empty id)"

    @property
    def known_ms(self) -> int:
        """The time for which its state is known."""
        return sum(self.states_ms.values())

    @property
    def rebalancing_ms(self) -> int:
        """The time in which its members had no assignment, or revoked and waited for partitions."""
        return sum(self.states_ms[column] for column in REBALANCING)

    def share(self, spent_ms: int) -> float:
        """The percentage of the time in which its state is known."""
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
    """The groups in a table of their windows in order of time, those with the largest lag first.

    A group that is silent in the last minute of the span has ended.
    """
    sums = list(STATES.values())
    found = windows.group_by("group", use_threads=False).aggregate(
        [
            *((name, "max") for name in ("members_max", "lag_max", "window_start")),
            ("lag_last", "last"),
            *((name, "sum") for name in sums),
        ]
    )
    return sorted(
        (_times(row, span) for row in found.to_pylist()),
        key=lambda each: (-(each.lag_now or 0), -each.lag_max, each.group),
    )


def _times(row: dict[str, Any], span: Span) -> GroupTimes:
    last_s = int(row["window_start_max"].timestamp())
    is_there = last_s + span.width_s + _CARRIED_S >= span.end_s
    return GroupTimes(
        row["group"],
        members_max=row["members_max_max"],
        lag_max=row["lag_max_max"],
        lag_last=row["lag_last_last"],
        lag_now=row["lag_last_last"] if is_there else None,
        states_ms={column: row[f"{column}_sum"] for column in STATES.values()},
    )


def lag_series(windows: pa.Table, span: Span, *, by_partition: bool = False) -> list[LagSeries]:
    """The groups and topics, or partitions, in a table of their windows in order of time.

    Those with the largest lag come first.
    """
    whose = ["group", "topic", "partition"] if by_partition else ["group", "topic"]
    changes = _changes(windows, span, whose)
    found = [
        _series(row, changes[tuple(row[name] for name in whose)], span)
        for row in _moves(windows, whose).to_pylist()
    ]
    return sorted(
        found, key=lambda each: (-(each.now or 0), each.group, each.topic, min(each.partitions))
    )


def _moves(windows: pa.Table, whose: list[str]) -> pa.Table:
    """The partitions of each series, its first and last window, and the advance of log ends and
    committed offsets.
    """
    names = ("log_end_max", "committed_max")
    by_partition = windows.group_by(list(_PARTITION), use_threads=False).aggregate(
        [(name, how) for name in ("window_start", *names) for how in ("first", "last")]
    )
    moved = {
        name: pc.max_element_wise(
            pc.subtract(by_partition[f"{name}_last"], by_partition[f"{name}_first"]), 0
        )
        for name in names
    }
    for name, amounts in moved.items():
        by_partition = by_partition.append_column(name, amounts)
    return (
        by_partition.append_column("number", by_partition["partition"])
        .group_by(whose, use_threads=False)
        .aggregate(
            [
                ("number", "list"),
                ("window_start_first", "min"),
                ("window_start_last", "max"),
                *((name, "sum") for name in names),
            ]
        )
    )


def _changes(
    windows: pa.Table, span: Span, whose: list[str]
) -> dict[tuple[Any, ...], list[tuple[int, int, int]]]:
    """The windows of each series in order of time: the number of a window, and the changes of the
    lag and of the number of known partitions since the previous window.

    A partition's row holds for its window and those without a row after it, but not for longer than
    a partition may be silent.
    """
    if not windows.num_rows:
        return {}
    order = [(name, "ascending") for name in (*_PARTITION, "window_start")]
    ordered = windows.sort_by(order).combine_chunks()
    seconds = pc.divide(pc.cast(ordered["window_start"], pa.int64()), _MILLION)
    index = pc.divide(pc.subtract(seconds, span.first_s), span.width_s)
    count = (span.end_s - span.first_s) // span.width_s
    is_followed = _is_same_partition_as_next(ordered)
    following = pa.chunked_array([index.slice(1).combine_chunks(), pa.array([count], index.type)])
    end = pc.min_element_wise(
        pc.if_else(is_followed, following.combine_chunks(), count),
        pc.min_element_wise(pc.add(index, 1 + _CARRIED_S // span.width_s), count),
    )
    lag = ordered["lag_last"]
    keys = [ordered[name] for name in whose]
    begins = pa.table([*keys, index, lag, pa.repeat(1, len(lag))], [*whose, *_CHANGE])
    ends = pa.table([*keys, end, pc.negate(lag), pa.repeat(-1, len(lag))], [*whose, *_CHANGE])
    added = (
        pa.concat_tables([begins, ends])
        .group_by([*whose, "index"], use_threads=False)
        .aggregate([("lag", "sum"), ("known", "sum")])
        .sort_by("index")
    )
    found = defaultdict(list)
    for row in added.to_pylist():
        key = tuple(row[name] for name in whose)
        found[key].append((row["index"], row["lag_sum"], row["known_sum"]))
    return found


def _is_same_partition_as_next(ordered: pa.Table) -> pa.Array:
    """Whether the row after each row is of the same partition."""
    same = [
        pc.equal(ordered[name].slice(0, len(ordered) - 1), ordered[name].slice(1))
        for name in _PARTITION
    ]
    all_same = pc.and_(pc.and_(same[0], same[1]), same[2])
    return pa.chunked_array([*all_same.chunks, pa.array([False])]).combine_chunks()


def _series(row: dict[str, Any], changes: list[tuple[int, int, int]], span: Span) -> LagSeries:
    count = (span.end_s - span.first_s) // span.width_s
    lags: list[int | None] = [None] * count
    lag = known = 0
    for (index, more, more_known), following in zip(changes, [*changes[1:], (count,)], strict=True):
        lag, known = lag + more, known + more_known
        if known:
            lags[index : following[0]] = [lag] * (following[0] - index)
    late = lags[-1 - _LATE_S // span.width_s :]
    return LagSeries(
        row["group"],
        row["topic"],
        frozenset(row["number_list"]),
        lags,
        produced=row["log_end_max_sum"],
        consumed=row["committed_max_sum"],
        seconds=int((row["window_start_last_max"] - row["window_start_first_min"]).total_seconds()),
        now=next((each for each in reversed(late) if each is not None), None),
    )
