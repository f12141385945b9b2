"""The size of each broker's logs, and when its disk will be full. Pure.

Two ways lead to the answer: the trend of the free space in the file systems, which includes
everything that fills them, and the growth of the logs. Logs that stay the same while records come
in are bounded by retention.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from cluster.analytics.capacity.history import GONE_S, WindowHistory
from cluster.analytics.capacity.trends import DAY_S, HOUR_S, Trend, trend_of_levels, unknown
from cluster.analytics.windows.kinds import BROKER

YEAR_DAYS: Final = 365
_HELD_SHARE: Final = 0.1
"""Logs that keep less than this share of what comes in are bounded by retention."""
_HOW: Final = (
    "sizes: the last values of each broker. Days until full: the space left in its file systems,"
    " divided by its decrease (Theil-Sen slope of disk_usable_last since the disks last"
    " changed their size), if it shrinks beyond noise. Otherwise logs that grow by less than 10 %"
    " of what comes in (from clients and leaders) are held by retention. By logs: what is left,"
    " divided by the growth of the logs. A retention that has not deleted anything yet is not known"
    " from windows (what-if --retention). A broker's file systems are added up, so that the"
    " smallest may be full earlier; brokers of one machine share theirs"
)


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The logs and file systems of one broker."""

    broker: int
    is_gone: bool
    """Whether it has no window at the end of the history."""
    log_size: float | None
    disk_total: float | None
    disk_usable: float | None
    """Bytes, as last reported; None if the records do not report them."""
    inflow_per_day: float | None
    """Bytes per day from clients and from leaders, over the whole history."""
    log_trend: Trend
    usable_trend: Trend
    verdict: str
    """`full in days`, `full now`, `not within a year`, `held by retention`, `gone` or `unknown`."""
    days_until_full: float | None
    basis: str
    """The way that gave the verdict."""
    days_by_usable: float | None
    days_by_logs: float | None
    """The result of each way; None if it has none."""


@dataclass(frozen=True, slots=True)
class Disks:
    """All brokers in order of their ids."""

    brokers: list[BrokerDisk]
    first_full: int | None
    """The broker whose disk is the first to be full, within a year."""
    how: str


def disks(history: WindowHistory) -> Disks:
    """The figures of each broker with windows."""
    names = ("log_size_last", "disk_total_last", "disk_usable_last", "covered_ms")
    inflows = ("bytes_in_exact", "replication_bytes_in_exact")
    rows_of: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in history.rows(BROKER, "broker", *names, *inflows):
        rows_of[row["broker"]].append(row)
    brokers = [_disk(broker, rows, history.end_s) for broker, rows in sorted(rows_of.items())]
    filling = [
        (each.days_until_full, each.broker)
        for each in brokers
        if each.days_until_full is not None and each.days_until_full <= YEAR_DAYS
    ]
    return Disks(brokers, min(filling)[1] if filling else None, _HOW)


def _disk(broker: int, rows: list[dict[str, Any]], end_s: int) -> BrokerDisk:
    last = rows[-1]
    is_gone = last["start_s"] + HOUR_S <= end_s - GONE_S
    covered_s = sum(row["covered_ms"] or 0 for row in rows) / 1000
    came_in = sum(
        (row["bytes_in_exact"] or 0) + (row["replication_bytes_in_exact"] or 0) for row in rows
    )
    inflow = DAY_S * came_in / covered_s if covered_s else None
    log_trend = _trend_of(rows, "log_size_last")
    usable, total = last["disk_usable_last"], last["disk_total_last"]
    usable_trend = _trend_of(_since_resized(rows), "disk_usable_last")
    by_usable = _days(usable, usable_trend, -1)
    by_logs = _days(usable, log_trend, 1)
    verdict, days, basis = _verdict(usable, usable_trend, by_usable, by_logs, log_trend, inflow)
    if is_gone:
        verdict, days, basis = "gone", None, "no window at the end of the history"
    return BrokerDisk(
        broker=broker,
        is_gone=is_gone,
        log_size=last["log_size_last"],
        disk_total=total,
        disk_usable=usable,
        inflow_per_day=inflow,
        log_trend=log_trend,
        usable_trend=usable_trend,
        verdict=verdict,
        days_until_full=days,
        basis=basis,
        days_by_usable=by_usable,
        days_by_logs=by_logs,
    )


def _verdict(
    usable: float | None,
    usable_trend: Trend,
    by_usable: float | None,
    by_logs: float | None,
    log_trend: Trend,
    inflow: float | None,
) -> tuple[str, float | None, str]:
    """The verdict, the days, and their basis."""
    if usable is None:
        return "unknown", None, "the records do not contain the size of the disks"
    if usable <= 0:
        return "full now", 0.0, "no space is left"
    if by_usable is not None:
        return _within_a_year(by_usable, "trend of the space left")
    if is_held(log_trend, inflow):
        return "held by retention", None, "logs grow by less than 10 % of what comes in"
    if usable_trend.verdict == "unknown":
        return "unknown", None, usable_trend.how
    if by_logs is not None:
        return _within_a_year(by_logs, "growth of the logs; the space left does not shrink yet")
    return "not within a year", None, "neither do the logs grow nor does the space left shrink"


def is_held(log_trend: Trend, inflow_per_day: float | None) -> bool:
    """Whether logs stay the same although this many bytes come in."""
    if log_trend.per_day is None or not inflow_per_day:
        return False
    return log_trend.per_day < _HELD_SHARE * inflow_per_day


def _within_a_year(days: float, basis: str) -> tuple[str, float | None, str]:
    if days > YEAR_DAYS:
        return "not within a year", None, basis
    return "full in days", days, basis


def _days(usable: float | None, trend: Trend, sign: int) -> float | None:
    """How long the free space lasts, if the trend is significant."""
    wanted = "grows" if sign > 0 else "shrinks"
    if usable is None or trend.verdict != wanted or not trend.per_day:
        return None
    return usable / abs(trend.per_day)


def _trend_of(rows: list[dict[str, Any]], name: str) -> Trend:
    points = [
        ((row["start_s"] + HOUR_S) / DAY_S, float(row[name]))
        for row in rows
        if row[name] is not None
    ]
    return trend_of_levels(points) if points else unknown(f"no window contains {name}")


def _since_resized(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The windows at the end during which the disks had their current size."""
    total = rows[-1]["disk_total_last"]
    first = len(rows)
    while first > 0 and rows[first - 1]["disk_total_last"] == total:
        first -= 1
    return rows[first:]
