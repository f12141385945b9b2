"""How far groups were behind over time, and in which states, from the rollup's windows. Pure.

A partition of which nothing changes has a metric record a minute, so in narrow windows there are
gaps: there it is taken to be as it was before.
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
"""A partition that says nothing for longer has no committed offset any more."""
_LATE_S: Final = 30
"""By so much a record may be later than a minute after the one before."""
_PARTITION: Final = ("group", "topic", "partition")
GROUP_COLUMNS: Final = (
    *("window_start", "group", "members_max", "lag_max", "lag_last"),
    *STATES.values(),
)
"""What `group_times` reads of the windows."""
LAG_COLUMNS: Final = ("window_start", *_PARTITION, "lag_last", "log_end_max", "committed_max")
"""What `lag_series` reads of the windows."""
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
    """The groups in a table of their windows in order of time, the furthest behind first.

    One that is silent for a minute before the end of the span has ended.
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

    The furthest behind come first.
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
    """By series its partitions, the first and last window, and how far log ends and committed
    offsets have moved on."""
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
    """By series in order of time: the number of a window, by how much the lag differs from that of
    the window before, and by how many more partitions are known.

    What a partition's row says holds for its window and those without a row after it, but not for
    longer than a partition may be silent.
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
