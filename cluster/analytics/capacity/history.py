"""The windows for capacity planning, and sums of them as plain rows. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.capacity.trends import DAY_S, HOUR_S
from cluster.analytics.windows.kinds import BROKER, QUOTA, TOPIC, WindowKind

GONE_S: Final = 2 * HOUR_S
"""A broker without a window for this long at the end of the history has left the cluster."""
_MICRO: Final = 1_000_000

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class WindowHistory:
    """Windows of each kind, by its name, in tables with (some of) the columns of its schema.

    Kinds without windows may be missing.
    """

    hours: Mapping[str, pa.Table]
    """Windows of one hour."""
    fine: Mapping[str, pa.Table]
    fine_s: int
    """The width of the narrower windows `fine`, in seconds, unless `widths_s` has the kind."""
    widths_s: Mapping[str, int] = field(default_factory=dict)
    first_s: int = field(init=False, default=0)
    end_s: int = field(init=False, default=0)
    """From the start of the first window to the end of the last; 0 without windows."""

    def __post_init__(self) -> None:
        edges = [
            edge
            for name, table in self.fine.items()
            for edge in _edges(table, self.widths_s.get(name, self.fine_s))
        ] or [edge for table in self.hours.values() for edge in _edges(table, HOUR_S)]
        if edges:
            object.__setattr__(self, "first_s", min(first for first, _ in edges))
            object.__setattr__(self, "end_s", max(end for _, end in edges))

    @property
    def span_s(self) -> int:
        """The time between the start of the first window and the end of the last."""
        return self.end_s - self.first_s

    def width_s(self, kind: WindowKind) -> int:
        """The width in seconds of the narrower windows of a kind."""
        return self.widths_s.get(kind.name, self.fine_s)

    def rows(
        self,
        kind: WindowKind,
        *columns: str,
        fine: bool = False,
        since_s: int | None = None,
        before_s: int | None = None,
        **only: Sequence[str],
    ) -> Rows:
        """The windows of a kind that begin in a period, in order of time: `start_s` and these
        columns.

        Decimals become floats. `only`: the accepted values of a column.
        """
        table = (self.fine if fine else self.hours).get(kind.name)
        if table is None or not table.num_rows:
            return []
        table = _plain(_only(table, only), columns)
        if since_s is not None:
            table = table.filter(pc.greater_equal(table["start_s"], since_s))
        if before_s is not None:
            table = table.filter(pc.less(table["start_s"], before_s))
        found: Rows = table.sort_by("start_s").to_pylist()
        return found

    def sums(
        self,
        kind: WindowKind,
        keys: Sequence[str],
        *columns: str,
        fine: bool = False,
        since_s: int = 0,
        **only: Sequence[str],
    ) -> Rows:
        """Columns added up for each value of the keys, of which `start_s` may be one.

        Windows that begin earlier are left out; `only`: the accepted values of a column. Nulls
        count as 0. In order of the keys.
        """
        table = (self.fine if fine else self.hours).get(kind.name)
        if table is None or not table.num_rows:
            return []
        table = _only(table, only)
        if since_s:
            starts = table["window_start"]
            since = pa.scalar(since_s * _MICRO, pa.int64()).cast(starts.type)
            table = table.filter(pc.greater_equal(starts, since))
        plain = _plain(table, [*(key for key in keys if key != "start_s"), *columns])
        summed = plain.group_by(list(keys), use_threads=False).aggregate(
            [(column, "sum", pc.ScalarAggregateOptions(min_count=0)) for column in columns]
        )
        named = summed.rename_columns(
            [
                name.removesuffix("_sum") if name not in keys else name
                for name in summed.column_names
            ]
        )
        found: Rows = named.sort_by([(key, "ascending") for key in keys]).to_pylist()
        return found


class HourTotal(NamedTuple):
    """The bytes of clients in one hour, at all brokers together."""

    start_s: int
    covered_s: float
    """The time of the hour that records cover."""
    bytes_in: float
    bytes_out: float
    messages: float


class Traffic(NamedTuple):
    """The traffic of every hour, and the kind of windows that it comes from."""

    hours: list[HourTotal]
    source: str


def traffic(history: WindowHistory) -> Traffic:
    """The traffic by windows of brokers, or else by windows of topics, or else of quotas."""
    for kind in (BROKER, TOPIC):
        found = _measured(history, kind)
        if found:
            return Traffic(found, f"windows of {kind.name}s")
    return Traffic(
        _of_quotas(history),
        "quota windows, which count requests with their headers and no messages; the first and the"
        " last hour are left out, because it is not known how much of them was covered",
    )


def last_day(hours: Sequence[HourTotal]) -> list[HourTotal]:
    """The last 24 hours of the history."""
    return [hour for hour in hours if hour.start_s > hours[-1].start_s - DAY_S]


def a_day(total: float, covered_s: float) -> float:
    """A total over this many seconds, scaled to a day."""
    return DAY_S * total / covered_s if covered_s else 0.0


def _measured(history: WindowHistory, kind: WindowKind) -> list[HourTotal]:
    names = ("bytes_in_exact", "bytes_out_exact", "messages_in_exact")
    covered: dict[int, float] = {}
    for row in history.sums(kind, ["start_s", *kind.keys], "covered_ms"):
        start_s = row["start_s"]
        covered[start_s] = max(covered.get(start_s, 0.0), min(HOUR_S, row["covered_ms"] / 1000))
    return [
        HourTotal(row["start_s"], covered[row["start_s"]], *(row[name] for name in names))
        for row in history.sums(kind, ["start_s"], *names)
        if covered[row["start_s"]] > 0
    ]


def _of_quotas(history: WindowHistory) -> list[HourTotal]:
    used: dict[int, dict[str, float]] = {}
    for row in history.sums(QUOTA, ["start_s", "quota"], "usage_exact"):
        used.setdefault(row["start_s"], {})[row["quota"]] = row["usage_exact"]
    if not used:
        return []
    return [
        HourTotal(
            *(start_s, float(HOUR_S)),
            *(used.get(start_s, {}).get("produce", 0.0), used.get(start_s, {}).get("fetch", 0.0)),
            0.0,
        )
        for start_s in range(min(used) + HOUR_S, max(used), HOUR_S)
    ]


def _only(table: pa.Table, only: Mapping[str, Sequence[str]]) -> pa.Table:
    for name, values in only.items():
        table = table.filter(pc.is_in(table[name], pa.array(values, pa.string())))
    return table


def _plain(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    starts = pc.divide(pc.cast(table["window_start"], pa.int64()), _MICRO)
    made = {"start_s": starts}
    for name in columns:
        column = table[name]
        made[name] = pc.cast(column, pa.float64()) if pa.types.is_decimal(column.type) else column
    return pa.table(made)


def _edges(table: pa.Table, width_s: int) -> list[tuple[int, int]]:
    """The start of the first and the end of the last window, if there are any."""
    if not table.num_rows:
        return []
    bounds = pc.min_max(pc.cast(table["window_start"], pa.int64())).as_py()
    return [(bounds["min"] // _MICRO, bounds["max"] // _MICRO + width_s)]
