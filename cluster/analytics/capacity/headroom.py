"""The headroom of each broker: idle time, its busiest window, connections. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster.analytics.capacity.history import GONE_S, WindowHistory
from cluster.analytics.windows.kinds import BROKER

LOW_DECILE: Final = 0.1
_BYTES: Final = (
    *("bytes_in_exact", "bytes_out_exact"),
    *("replication_bytes_in_exact", "replication_bytes_out_exact"),
)
_COVERED: Final = 0.5
"""Windows of which records cover less are no evidence of a typical load."""


@dataclass(frozen=True, slots=True)
class BrokerHeadroom:
    """One broker over the whole history. Shares are from 0 to 1."""

    broker: int
    is_gone: bool
    windows: int
    idle_avg: float | None
    idle_low: float | None
    """The broker's idle share was at most this in the busiest tenth of its windows."""
    busy_max: float | None
    """The busy share of the busiest interval of a record."""
    bytes_per_s_max: float
    bytes_per_s_max_at: int | None
    """The window with the most bytes, including replication, and its begin."""
    requests_per_s: float
    connections_max: int | None
    leaders_max: int | None
    under_replicated_max: int | None


@dataclass(frozen=True, slots=True)
class Headroom:
    """All brokers in order of their ids."""

    brokers: list[BrokerHeadroom]
    bottleneck: int | None
    """The broker with the least idle time in its busiest tenth, of those present at the end."""
    how: str


def headroom(history: WindowHistory) -> Headroom:
    """The figures of each broker with windows."""
    gauges = ("connections_max", "leaders_max", "under_replicated_max")
    rows_of: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in history.rows(
        *(BROKER, "broker", "idle_ms", "covered_ms", "busy_max", "requests"),
        *(*_BYTES, *gauges),
        fine=True,
    ):
        rows_of[row["broker"]].append(row)
    brokers = [_headroom(broker, rows, history) for broker, rows in sorted(rows_of.items())]
    measured = [
        (each.idle_low, each.broker)
        for each in brokers
        if each.idle_low is not None and not each.is_gone
    ]
    return Headroom(
        brokers,
        min(measured)[1] if len(measured) > 1 else None,
        f"from windows of brokers of {history.fine_s} s. Idle: idle_ms / covered_ms; the average of"
        " all time, and the lowest decile of windows of which records cover at least half. Busiest"
        " interval: busy_max. Highest window: bytes of clients and of replication, in and out. The"
        " bottleneck is the broker with the least idle time in its lowest decile",
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of some values, linear between the nearest two."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def is_covered(row: dict[str, Any], width_s: int) -> bool:
    """Whether records cover at least half of a window."""
    return bool((row["covered_ms"] or 0) >= _COVERED * 1000 * width_s)


def _headroom(broker: int, rows: list[dict[str, Any]], history: WindowHistory) -> BrokerHeadroom:
    covered_ms = sum(row["covered_ms"] or 0 for row in rows)
    shares = [
        row["idle_ms"] / row["covered_ms"]
        for row in rows
        if row["idle_ms"] is not None and is_covered(row, history.fine_s)
    ]
    rates = [
        (1000 * sum(row[name] or 0 for name in _BYTES) / row["covered_ms"], row["start_s"])
        for row in rows
        if is_covered(row, history.fine_s)
    ]
    highest, highest_at = max(rates, default=(0.0, None))
    return BrokerHeadroom(
        broker=broker,
        is_gone=rows[-1]["start_s"] + history.fine_s <= history.end_s - GONE_S,
        windows=len(rows),
        idle_avg=sum(row["idle_ms"] or 0 for row in rows) / covered_ms if covered_ms else None,
        idle_low=quantile(shares, LOW_DECILE) if shares else None,
        busy_max=_highest(rows, "busy_max"),
        bytes_per_s_max=highest,
        bytes_per_s_max_at=highest_at,
        requests_per_s=(
            1000 * sum(row["requests"] or 0 for row in rows) / covered_ms if covered_ms else 0.0
        ),
        connections_max=_highest(rows, "connections_max"),
        leaders_max=_highest(rows, "leaders_max"),
        under_replicated_max=_highest(rows, "under_replicated_max"),
    )


def _highest(rows: Sequence[dict[str, Any]], name: str) -> Any:
    return max((row[name] for row in rows if row[name] is not None), default=None)
