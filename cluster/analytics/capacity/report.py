"""All figures of capacity planning, from one history. Pure."""

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any, Final

from cluster.analytics.capacity.disks import Disks, disks
from cluster.analytics.capacity.growth import BusyHours, TrafficGrowth, busy_hours, growth
from cluster.analytics.capacity.headroom import Headroom, headroom
from cluster.analytics.capacity.history import WindowHistory, traffic
from cluster.analytics.capacity.lags import Lags, lags
from cluster.analytics.capacity.latencies import Latencies, latencies, p99_over_time
from cluster.analytics.capacity.topics import LargestTopics, topics
from cluster.analytics.capacity.trends import DAY_S, HOUR_S
from cluster.analytics.windows.kinds import BROKER, EVENT, LATENCY
from cluster.metrics.events import EventKind
from cluster.model.printable import one_line

TOP: Final = 10
"""The number of topics, unless an option gives it."""
EVENTS_MAX: Final = 500
_OF_BROKERS: Final = frozenset({EventKind.BROKER_DOWN, EventKind.BROKER_UP})
"""The events whose subject is the id of a broker."""
_POINTS_MAX: Final = 400
_SHORT_S: Final = 12 * HOUR_S
"""Shorter histories are drawn in fine windows."""


@dataclass(frozen=True, slots=True)
class CoveredPeriod:
    """The time that the figures cover."""

    first_s: int
    end_s: int
    fine_s: int
    """The width in seconds of the narrower windows; the others are of an hour."""

    @property
    def days(self) -> float:
        return (self.end_s - self.first_s) / DAY_S


@dataclass(frozen=True, slots=True)
class EventRow:
    """The events of one window at one broker with the same subject."""

    start_s: int
    broker: int
    event: str
    subject: str
    count: int
    detail: str

    @property
    def text(self) -> str:
        """The event on one line, for a person."""
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        detail = f": {one_line(self.detail)}" if self.detail else ""
        broker = "broker " if self.event in _OF_BROKERS else ""
        return f"{broker}{one_line(self.subject)}{times}{detail}"


@dataclass(frozen=True, slots=True)
class Events:
    """The latest events, in order of time."""

    rows: list[EventRow]
    left_out: int
    how: str


@dataclass(frozen=True, slots=True)
class Series:
    """Throughput over time. A step without records has None."""

    step_s: int
    start_s: list[int]
    bytes_in_per_s: list[float | None]
    bytes_out_per_s: list[float | None]
    produce_p99_ms: list[float | None]
    how: str


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """Every section has `how`, which says how its figures were computed."""

    period: CoveredPeriod
    growth: TrafficGrowth
    topics: LargestTopics
    disks: Disks
    busy_hours: BusyHours
    headroom: Headroom
    latencies: Latencies
    lags: Lags
    events: Events
    series: Series

    def as_json(self) -> dict[str, Any]:
        """The document that `--json` prints and that the dashboard's page gets."""
        return asdict(self)


def report(history: WindowHistory, top: int = TOP) -> CapacityReport:
    """All figures of a nonempty history; the `top` topics."""
    return CapacityReport(
        CoveredPeriod(history.first_s, history.end_s, history.fine_s),
        growth(history),
        topics(history, top),
        disks(history),
        busy_hours(history),
        headroom(history),
        latencies(history),
        lags(history),
        events(history),
        series(history),
    )


def events(history: WindowHistory, most: int = EVENTS_MAX) -> Events:
    """The events in order of time."""
    found = [
        EventRow(
            row["start_s"],
            row["broker"],
            row["event"],
            row["subject"] or "",
            row["events"] or 0,
            row["detail"] or "",
        )
        for row in history.rows(
            EVENT, "broker", "event", "subject", "events", "detail", fine=EVENT.name in history.fine
        )
    ]
    how = f"windows of events of {history.fine_s} s; the latest detail of those of one window"
    return Events(found[-most:], max(0, len(found) - most), how)


def series(history: WindowHistory) -> Series:
    """Throughput in at most 400 steps of equal length."""
    if BROKER.name in history.fine and history.span_s <= _SHORT_S:
        step_s, totals = _stepped(_fine_totals(history), history, history.fine_s)
    else:
        hours = [(each.start_s, each.covered_s, *each[2:4]) for each in traffic(history).hours]
        step_s, totals = _stepped(hours, history, HOUR_S)
    is_fine = LATENCY.name in history.fine
    p99_s = max(step_s, history.width_s(LATENCY) if is_fine else HOUR_S)
    p99 = p99_over_time(history, "Produce", p99_s)
    starts = list(range(history.first_s // step_s * step_s, history.end_s, step_s))
    return Series(
        step_s,
        starts,
        [_rate(totals.get(start), 1) for start in starts],
        [_rate(totals.get(start), 2) for start in starts],
        [p99.get(start // p99_s * p99_s) for start in starts],
        f"bytes of clients at all brokers in steps of {step_s} s, divided by the time that records"
        " cover",
    )


Totals = tuple[int, float, float, float]
"""Start, seconds covered, bytes in, bytes out."""


def _fine_totals(history: WindowHistory) -> list[Totals]:
    covered: dict[int, float] = defaultdict(float)
    for row in history.sums(BROKER, ["start_s", "broker"], "covered_ms", fine=True):
        covered[row["start_s"]] = max(
            covered[row["start_s"]], min(history.fine_s, row["covered_ms"] / 1000)
        )
    return [
        (row["start_s"], covered[row["start_s"]], row["bytes_in_exact"], row["bytes_out_exact"])
        for row in history.sums(BROKER, ["start_s"], "bytes_in_exact", "bytes_out_exact", fine=True)
    ]


def _stepped(
    totals: list[Totals], history: WindowHistory, width_s: int
) -> tuple[int, dict[int, list[float]]]:
    """The length of a step, and the sums of the totals in it by its start."""
    step_s = width_s * max(1, -(-history.span_s // (width_s * _POINTS_MAX)))
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for start_s, *amounts in totals:
        for at, amount in enumerate(amounts):
            sums[start_s // step_s * step_s][at] += amount
    return step_s, sums


def _rate(sums: list[float] | None, at: int) -> float | None:
    return sums[at] / sums[0] if sums and sums[0] else None
