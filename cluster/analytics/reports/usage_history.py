"""What each client used of each quota over time, from the rollup's windows; needs no Spark.

Rates are those of one broker, as Kafka's limits are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from cluster.model.printable import one_line

_QUOTA_ORDER: Final = ("produce", "fetch", "request", "mutation")


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
class Usage:
    """One client's use of one quota, added up over brokers and windows."""

    user: str | None
    client_id: str | None
    quota: str
    series: dict[int, list[Point]] = field(default_factory=dict)
    """The points of each broker, in order of time."""
    rule: str | None = None
    limit: float | None = None
    """Rule and limit are the latest ones; a limit holds on every broker by itself."""
    rate_max: float = 0.0
    """The highest rate of a broker, in bytes/s or percent of one thread."""
    requests: int = 0
    throttled: int = 0
    throttle_ms: float = 0.0
    throttle_ms_max: float = 0.0
    """The longest throttle time of one broker in one interval, in ms."""
    muted_ms: float = 0.0
    seconds_over_limit: int = 0
    usage: float = 0.0
    active_seconds: int = 0
    """Seconds in which the client was active, added up over brokers."""
    allowed: float = 0.0
    """The usage that limits allowed in the time they held; `limited_usage` is the actual usage."""
    limited_usage: float = 0.0

    @property
    def rate_avg(self) -> float:
        """The average rate at a broker while the client was active there."""
        return self.usage / self.active_seconds if self.active_seconds else 0.0

    @property
    def percent_of_limit(self) -> float | None:
        """Usage as percent of what the limits allowed meanwhile; None without a limit."""
        return 100 * self.limited_usage / self.allowed if self.allowed else None

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
            "quota": self.quota,
            "rule": self.rule,
            "limit": self.limit,
            "brokers": sorted(self.series),
            "rate_avg": self.rate_avg,
            "rate_max": self.rate_max,
            "percent_of_limit": self.percent_of_limit,
            "requests": self.requests,
            "throttled": self.throttled,
            "throttled_percent": self.throttled_percent,
            "throttle_ms_sum": self.throttle_ms,
            "throttle_ms_max": self.throttle_ms_max,
            "muted_ms_sum": self.muted_ms,
            "seconds_over_limit": self.seconds_over_limit,
            "active_seconds": self.active_seconds,
        }


def usages(windows: pa.Table) -> list[Usage]:
    """The usages in a table of WINDOW_SCHEMA, whose rows are in order of time.

    The most throttled come first, then those with a limit.
    """
    found: dict[tuple[str | None, str | None, str], Usage] = {}
    for row in windows.to_pylist():
        key = (row["user"], row["client_id"], row["quota"])
        usage = found.setdefault(key, Usage(*key))
        _add(usage, row)
    return sorted(found.values(), key=_order)


def _add(usage: Usage, row: dict[str, Any]) -> None:
    limit = row["limit"]
    usage.rule, usage.limit = row["rule"], limit
    usage.rate_max = max(usage.rate_max, row["rate_max"])
    usage.requests += row["requests"]
    usage.throttled += row["throttled"]
    usage.throttle_ms += row["throttle_ms_sum"]
    usage.throttle_ms_max = max(usage.throttle_ms_max, row["throttle_ms_max"])
    usage.muted_ms += row["muted_ms_sum"]
    usage.seconds_over_limit += row["seconds_over_limit"]
    usage.usage += row["usage_sum"]
    usage.active_seconds += row["records"]
    if limit is not None:
        usage.allowed += limit * row["records"]
        usage.limited_usage += row["usage_sum"]
    points = usage.series.setdefault(row["broker"], [])
    start: datetime = row["window_start"]
    point = Point(int(start.timestamp()), row["rate_avg"], limit, row["throttle_ms_sum"])
    if points and points[-1].start_s == point.start_s:  # a limit that changed divides a window
        before = points.pop()
        point = Point(
            point.start_s,
            before.rate + point.rate,
            before.limit if limit is None else limit,
            before.throttle_ms + point.throttle_ms,
        )
    points.append(point)


def _order(usage: Usage) -> tuple[Any, ...]:
    quota = _QUOTA_ORDER.index(usage.quota) if usage.quota in _QUOTA_ORDER else len(_QUOTA_ORDER)
    return (-usage.throttle_ms, usage.limit is None, usage.name, usage.user or "", quota)


def busiest(usage: Usage) -> dict[int, Point]:
    """By window: the highest rate of a broker, its limit, and the throttle time of all of them."""
    merged: dict[int, Point] = {}
    for point in _points(usage.series.values()):
        before = merged.get(point.start_s)
        if before is not None:
            higher = max(before, point, key=lambda each: each.rate)
            throttle_ms = before.throttle_ms + point.throttle_ms
            point = Point(point.start_s, higher.rate, higher.limit, throttle_ms)
        merged[point.start_s] = point
    return merged


def _points(series: Iterable[list[Point]]) -> Iterable[Point]:
    return (point for points in series for point in points)
