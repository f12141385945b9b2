"""Each client's usage of each quota over time, from the rollup's windows, without Spark.

Rates are those of one broker, as Kafka's limits are. Arrow adds up windows in pieces; only the
clients that a report shows become Python objects.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.kinds import QUOTA_AMOUNTS, QUOTA_COUNTS, QUOTA_MAXIMA
from cluster.model.own_clients import OWN_PREFIX, is_own
from cluster.model.printable import one_line
from cluster.model.quota_usage import CLIENT_KEYS
from cluster.model.quotas import CLIENT_KINDS

_PARTS: Final = (*CLIENT_KEYS, "broker", "rule", "limit")
"""The first key by which windows are added up: the sums are the most that is in memory, beside one
piece."""
_COUNTS: Final = (*QUOTA_COUNTS, "seconds_over_limit", "covered_ms")
_SUMS: Final = (*(f"{name}_sum" for name in QUOTA_AMOUNTS), *_COUNTS)
_HIGHEST: Final = tuple(f"{name}_max" for name in QUOTA_MAXIMA)
_TIMES: Final = (("first_start", "min"), ("last_start", "max"))
TOTALS_COLUMNS: Final = ("window_start", *_PARTS, *_SUMS, *_HIGHEST)
"""The columns of windows that `totals` needs."""
SERIES_COLUMNS: Final = ("window_start", *_PARTS[:4], "limit", "rate_avg", "throttle_ms_sum")
"""The columns of windows that `add_series` needs."""
_ROWS_AT_ONCE: Final = 500_000
"""Rows that wait to be added up: this bounds memory."""
_OBJECTS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Point:
    """One window of one broker."""

    start_s: int
    """Start of the window in seconds since the epoch."""
    rate: float
    """Bytes per second, or percent of one thread, over the whole window."""
    limit: float | None
    throttle_ms: float


@dataclass(frozen=True, slots=True)
class Span:
    """The time that every plot of a report shows, and the width of its windows."""

    first_s: int
    end_s: int
    width_s: int


@dataclass(slots=True)
class ClientUsage:
    """One client's use of one quota, added up over brokers and windows."""

    user: str | None
    client_id: str | None
    quota: str
    rule: str | None
    limit: float | None
    """Rule and limit are the latest; a limit applies to each broker separately."""
    limits: int
    """The number of different limits in the period."""
    brokers: list[int]
    rate_max: float
    """The highest rate of a broker, in bytes/s or percent of one thread."""
    requests: int
    throttled: int
    throttle_ms: float
    throttle_ms_max: float
    """The longest throttle time of one broker in one interval, in ms."""
    muted_ms: float
    seconds_over_limit: int
    usage: float
    active_seconds: float
    """Seconds in which the client was active, added up over brokers."""
    limited_seconds: float
    """Those of them with a limit."""
    limited_usage: float
    """The usage in the limited seconds."""
    allowed: float
    """The usage that the limits allowed in the limited seconds."""
    series: dict[int, list[Point]] = field(default_factory=dict)
    """The points of each broker, in order of time; only after `add_series`."""

    @property
    def rate_avg(self) -> float:
        """The average rate at a broker while the client was active there."""
        return self.usage / self.active_seconds if self.active_seconds else 0.0

    @property
    def limited_rate_avg(self) -> float | None:
        """The average rate at a broker while a limit held; None without one."""
        return self.limited_usage / self.limited_seconds if self.limited_seconds else None

    @property
    def percent_of_limit(self) -> float | None:
        """The usage of the limited seconds as percent of what the limits allowed in them."""
        return 100 * self.limited_usage / self.allowed if self.allowed else None

    @property
    def limited_percent(self) -> float | None:
        """Percentage of the active seconds in which a limit held; None without one."""
        if not self.limited_seconds:
            return None
        return 100 * self.limited_seconds / self.active_seconds

    @property
    def throttled_percent(self) -> float:
        """Percentage of requests that were throttled."""
        return 100 * self.throttled / self.requests if self.requests else 0.0

    @property
    def name(self) -> str:
        """The client id on one line, for display."""
        return one_line(self.client_id or "") or "(no client id)"

    def as_json(self) -> dict[str, Any]:
        """The fields that `--json` prints; rates in bytes/s or percent of one thread."""
        return {
            "user": self.user,
            "client_id": self.client_id,
            "own_client": is_own(self.client_id),
            "quota": self.quota,
            "rule": self.rule,
            "limit": self.limit,
            "limits": self.limits,
            "brokers": self.brokers,
            "rate_avg": self.rate_avg,
            "rate_max": self.rate_max,
            "percent_of_limit": self.percent_of_limit,
            "limited_seconds": self.limited_seconds,
            "limited_rate_avg": self.limited_rate_avg,
            "requests": self.requests,
            "throttled": self.throttled,
            "throttled_percent": self.throttled_percent,
            "throttle_ms_sum": self.throttle_ms,
            "throttle_ms_max": self.throttle_ms_max,
            "muted_ms_sum": self.muted_ms,
            "seconds_over_limit": self.seconds_over_limit,
            "active_seconds": self.active_seconds,
        }


class Summary(NamedTuple):
    """The totals of all clients."""

    clients: int
    """The number of users and client ids."""
    throttled_clients: int
    throttle_ms: float
    most_throttled: ClientUsage | None
    """None if nobody was throttled."""


def totals(pieces: Iterable[pa.Table]) -> pa.Table:
    """The sums of windows with TOTALS_COLUMNS, by user, client id and quota; not empty.

    The most throttled come first, then those with a limit. Pieces may come in any order of time,
    and with texts in dictionaries, which is faster.
    """
    parts: list[pa.Table] = []
    for piece in pieces:
        piece = piece.unify_dictionaries()
        starts = [piece["window_start"]] * len(_TIMES)
        columns = [*(_finite(piece[name]) for name in TOTALS_COLUMNS[1:]), *starts]
        names = [*TOTALS_COLUMNS[1:], *(name for name, _ in _TIMES)]
        parts.append(_added_up(pa.table(columns, names=names)))
        if sum(part.num_rows for part in parts) > 2 * parts[0].num_rows + _ROWS_AT_ONCE:
            parts = [_added_up(pa.concat_tables(parts))]
    return _in_order(_by_client(_added_up(pa.concat_tables(parts))))


def _added_up(table: pa.Table) -> pa.Table:
    """Adds up the rows of each key _PARTS, in one thread: so sums of floats are reproducible."""
    how = [
        *((name, "sum") for name in _SUMS),
        *((name, "max") for name in _HIGHEST),
        *_TIMES,
    ]
    found = table.group_by(list(_PARTS), use_threads=False).aggregate(how)
    columns = [found[name] for name in _PARTS]
    columns += [found[f"{name}_{function}"] for name, function in how]
    return pa.table([*map(_plain, columns)], names=[*_PARTS, *(name for name, _ in how)])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with plain texts, which may have been in a dictionary."""
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def _finite(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with null in place of NaN and infinities."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_finite(column), column, None)


def _by_client(parts: pa.Table) -> pa.Table:
    """Adds up the rows of each client and quota, with the rule and limit of the latest window."""
    limit = parts["limit"]
    is_limited = pc.is_valid(limit)
    seconds = pc.divide(pc.cast(parts["covered_ms"], pa.float64()), 1000.0)
    parts = (
        parts.append_column("limited_ms", pc.if_else(is_limited, parts["covered_ms"], 0))
        .append_column("limited_usage", pc.if_else(is_limited, parts["usage_sum"], 0.0))
        .append_column("allowed", pc.fill_null(pc.multiply(limit, seconds), 0.0))
        .append_column("limits", limit)
        .sort_by([(name, "ascending") for name in ("last_start", "broker", "rule", "limit")])
    )
    last = pc.ScalarAggregateOptions(skip_nulls=False)
    how: list[tuple[Any, ...]] = [
        *((name, "sum") for name in (*_SUMS, "limited_ms", "limited_usage", "allowed")),
        *((name, "max") for name in _HIGHEST),
        *_TIMES,
        ("rule", "last", last),
        ("limit", "last", last),
        ("limits", "count_distinct"),
        ("broker", "distinct"),
    ]
    found = parts.group_by(list(CLIENT_KEYS), use_threads=False).aggregate(how)
    names = [*CLIENT_KEYS, *(f"{each[0]}_{each[1]}" for each in how)]
    return found.select(names).rename_columns([*CLIENT_KEYS, *(each[0] for each in how)])


def _in_order(table: pa.Table) -> pa.Table:
    places = {
        "is_free": pc.is_null(table["limit"]),
        "place": pc.index_in(table["quota"], pa.array([kind.value for kind in CLIENT_KINDS])),
    }
    for name, values in places.items():
        table = table.append_column(name, values)
    order = [("throttle_ms_sum", "descending")]
    order += [(name, "ascending") for name in ("is_free", "client_id", "user", "place", "quota")]
    return table.sort_by(order).drop_columns(list(places))


def without_own(found: pa.Table) -> pa.Table:
    """The rows of `totals` without Milena's own clients."""
    return found.filter(pc.invert(_is_own(found["client_id"])))


def only_own(found: pa.Table) -> pa.Table:
    """The rows of `totals` of Milena's own clients."""
    return found.filter(_is_own(found["client_id"]))


def own_clients(found: pa.Table) -> int:
    """The number of Milena's own client ids in rows of `totals`."""
    ids = found["client_id"]
    return len(pc.unique(ids.filter(_is_own(ids))))


def _is_own(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(pc.starts_with(ids, OWN_PREFIX), False)


def span_of(found: pa.Table, width_s: int) -> Span:
    """The span of the windows in nonempty rows of `totals`."""
    ends = pa.chunked_array([*found["first_start"].chunks, *found["last_start"].chunks])
    return span_of_starts(ends, width_s)


def span_of_starts(starts: pa.ChunkedArray, width_s: int) -> Span:
    """The time between the first start of a window and the end of the last one; not empty."""
    found = pc.min_max(starts)
    first, last = (int(found[name].as_py().timestamp()) for name in ("min", "max"))
    return Span(first, last + width_s, width_s)


def summary(found: pa.Table) -> Summary:
    """The summary of nonempty rows of `totals`."""
    throttled = found.filter(pc.greater(found["throttled"], 0))
    (first,) = usages(found.slice(0, 1))
    return Summary(
        clients=_clients(found),
        throttled_clients=_clients(throttled),
        throttle_ms=pc.sum(found["throttle_ms_sum"]).as_py() or 0.0,
        most_throttled=first if first.throttle_ms else None,
    )


def _clients(found: pa.Table) -> int:
    rows: int = found.group_by(["user", "client_id"]).aggregate([]).num_rows
    return rows


def usages(found: pa.Table) -> Iterator[ClientUsage]:
    """The rows of `totals`, one by one and without series."""
    for batch in found.to_batches(max_chunksize=_OBJECTS_AT_ONCE):
        for row in batch.to_pylist():
            yield ClientUsage(
                user=row["user"],
                client_id=row["client_id"],
                quota=row["quota"],
                rule=row["rule"],
                limit=row["limit"],
                limits=row["limits"],
                brokers=sorted(row["broker"]),
                rate_max=row["rate_max"] or 0.0,
                requests=row["requests"] or 0,
                throttled=row["throttled"] or 0,
                throttle_ms=row["throttle_ms_sum"] or 0.0,
                throttle_ms_max=row["throttle_ms_max"] or 0.0,
                muted_ms=row["muted_ms_sum"] or 0.0,
                seconds_over_limit=row["seconds_over_limit"] or 0,
                usage=row["usage_sum"] or 0.0,
                active_seconds=(row["covered_ms"] or 0) / 1000,
                limited_seconds=(row["limited_ms"] or 0) / 1000,
                limited_usage=row["limited_usage"] or 0.0,
                allowed=row["allowed"] or 0.0,
            )


def of_usages(found: Sequence[ClientUsage]) -> pc.Expression:
    """Selects the windows that `add_series` needs, and perhaps some more."""
    return pc.field("client_id").isin(_ids(found))


def _ids(found: Sequence[ClientUsage]) -> pa.Array:
    return pa.array({usage.client_id for usage in found}, pa.string())


def add_series(found: Sequence[ClientUsage], pieces: Iterable[pa.Table]) -> None:
    """Give each usage its series, from windows with SERIES_COLUMNS in order of time."""
    usage_of = {(usage.user, usage.client_id, usage.quota): usage for usage in found}
    ids = _ids(found)
    for piece in pieces:
        chosen = piece.filter(pc.is_in(piece["client_id"], ids)).select(SERIES_COLUMNS)
        columns = [_finite(column) for column in chosen.columns]
        for row in pa.table(columns, names=SERIES_COLUMNS).to_pylist():
            usage = usage_of.get((row["user"], row["client_id"], row["quota"]))
            if usage is not None:
                _add_point(usage.series.setdefault(row["broker"], []), row)


def _add_point(points: list[Point], row: dict[str, Any]) -> None:
    start: datetime = row["window_start"]
    limit = row["limit"]
    rate, throttle_ms = row["rate_avg"] or 0.0, row["throttle_ms_sum"] or 0.0
    point = Point(int(start.timestamp()), rate, limit, throttle_ms)
    if points and points[-1].start_s == point.start_s:  # a changed limit splits a window
        before = points.pop()
        point = Point(
            point.start_s,
            before.rate + point.rate,
            before.limit if limit is None else limit,
            before.throttle_ms + point.throttle_ms,
        )
    points.append(point)


def busiest(usage: ClientUsage) -> dict[int, Point]:
    """The highest rate of a broker in each window, its limit, and all brokers' throttle time."""
    merged: dict[int, Point] = {}
    for point in (point for points in usage.series.values() for point in points):
        before = merged.get(point.start_s)
        if before is not None:
            higher = max(before, point, key=lambda each: each.rate)
            throttle_ms = before.throttle_ms + point.throttle_ms
            point = Point(point.start_s, higher.rate, higher.limit, throttle_ms)
        merged[point.start_s] = point
    return merged
