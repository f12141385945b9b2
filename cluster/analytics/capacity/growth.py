"""How much comes in a day, in all and per topic, how that changes, and at which hours. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.analytics.capacity.history import GONE_S, History, HourTotal, last_day, traffic
from cluster.analytics.capacity.trends import DAY_S, HOUR_S, Trend, trend_of_levels, trend_of_rates
from cluster.analytics.windows.kinds import TOPIC

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_BUSIEST: Final = 3


@dataclass(frozen=True, slots=True)
class Growth:
    """Of all topics together."""

    bytes_in_per_day: float | None
    bytes_out_per_day: float | None
    messages_per_day: float | None
    """Now: over the last 24 hours of the history. None without windows."""
    trend: Trend
    """Of bytes in."""
    messages_trend: Trend
    how: str


@dataclass(frozen=True, slots=True)
class TopicGrowth:
    """One topic, at all brokers together."""

    topic: str
    bytes_in_per_day: float
    bytes_out_per_day: float
    messages_per_day: float
    size: float
    """Bytes of all of its replicas, when they were last told."""
    trend: Trend
    """Of bytes in."""
    size_trend: Trend


@dataclass(frozen=True, slots=True)
class Topics:
    """Those with the most bytes in a day, or in their logs."""

    rows: list[TopicGrowth]
    left_out: int
    how: str


@dataclass(frozen=True, slots=True)
class BusyHour:
    """One hour of the week, in UTC."""

    weekday: int
    """0 is Monday."""
    hour: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class BusyHours:
    """The average traffic of each hour of the week."""

    days: tuple[str, ...]
    bytes_per_s: list[list[float | None]]
    """By weekday, by hour: bytes in and out; None where there is no history."""
    busiest: list[BusyHour]
    how: str


def growth(history: History) -> Growth:
    """What came in, and how that changes."""
    found = traffic(history)
    if not found.hours:
        nothing = trend_of_rates([])
        return Growth(None, None, None, nothing, nothing, "there are no windows of traffic")
    now = last_day(found.hours)
    covered_s = sum(hour.covered_s for hour in now)
    return Growth(
        _a_day(sum(hour.bytes_in for hour in now), covered_s),
        _a_day(sum(hour.bytes_out for hour in now), covered_s),
        _a_day(sum(hour.messages for hour in now), covered_s),
        trend_of_rates([(hour.start_s, hour.covered_s, hour.bytes_in) for hour in found.hours]),
        trend_of_rates([(hour.start_s, hour.covered_s, hour.messages) for hour in found.hours]),
        f"from {found.source}: totals of the last 24 hours of the history, of which records cover"
        f" {covered_s / HOUR_S:.1f}, taken to 24",
    )


def topics(history: History, most: int) -> Topics:
    """The topics that had the most bytes in the last 24 hours, and of equals the largest."""
    names = ("bytes_in_exact", "bytes_out_exact", "messages_in_exact")
    totals: dict[str, dict[int, tuple[float, ...]]] = defaultdict(dict)
    for row in history.sums(TOPIC, ["topic", "start_s"], *names, "log_size_last"):
        totals[row["topic"]][row["start_s"]] = tuple(
            row[name] or 0.0 for name in (*names, "log_size_last")
        )
    hours = traffic(history).hours
    now = last_day(hours)
    covered_s = sum(hour.covered_s for hour in now)
    sizes = _sizes(history)
    rates = {
        topic: [_a_day(_sum(by_hour, now, at), covered_s) for at in range(3)]
        for topic, by_hour in totals.items()
    }
    order = sorted(rates, key=lambda topic: (-rates[topic][0], -sizes.get(topic, 0.0), topic))
    rows = [
        TopicGrowth(
            topic=topic,
            bytes_in_per_day=rates[topic][0],
            bytes_out_per_day=rates[topic][1],
            messages_per_day=rates[topic][2],
            size=sizes.get(topic, 0.0),
            trend=_topic_trend(hours, totals[topic]),
            size_trend=trend_of_levels(
                [((at + HOUR_S) / DAY_S, each[3]) for at, each in sorted(totals[topic].items())]
            ),
        )
        for topic in order[:most]
    ]
    return Topics(
        rows,
        len(order) - len(rows),
        "from windows of topics: bytes and messages as for all topics; an hour of the history"
        " without a window of the topic counts as 0. Size: of all replicas, the last value of each"
        " broker; its trend over the sums of those of each hour",
    )


def busy_hours(history: History) -> BusyHours:
    """The average rate of each hour of the week that records cover."""
    found = traffic(history)
    seen: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for hour in found.hours:
        cell = seen[_weekday(hour.start_s), hour.start_s % DAY_S // HOUR_S]
        cell[0] += hour.covered_s
        cell[1] += hour.bytes_in + hour.bytes_out
    rates = {key: total / covered_s for key, (covered_s, total) in seen.items()}
    order = sorted((key for key in rates if rates[key] > 0), key=lambda key: (-rates[key], key))
    return BusyHours(
        DAYS,
        [[rates.get((day, hour)) for hour in range(24)] for day in range(7)],
        [BusyHour(*key, rates[key]) for key in order[:_BUSIEST]],
        f"from {found.source}: bytes of clients in and out in all windows of that hour of the week"
        " (UTC), divided by the time that records cover",
    )


def _sum(by_hour: dict[int, tuple[float, ...]], hours: Sequence[HourTotal], at: int) -> float:
    return sum(by_hour[hour.start_s][at] for hour in hours if hour.start_s in by_hour)


def _topic_trend(hours: Sequence[HourTotal], totals: dict[int, tuple[float, ...]]) -> Trend:
    """From the first hour on in which there was the topic."""
    first_s = min(totals)
    return trend_of_rates(
        [
            (
                hour.start_s,
                hour.covered_s,
                totals[hour.start_s][0] if hour.start_s in totals else 0.0,
            )
            for hour in hours
            if hour.start_s >= first_s
        ]
    )


def _sizes(history: History) -> dict[str, float]:
    """Of each topic: the last sizes at its brokers, of those that told one at the end."""
    last: dict[tuple[str, int], tuple[int, float]] = {}
    for row in history.rows(TOPIC, "topic", "broker", "log_size_last"):
        last[row["topic"], row["broker"]] = (row["start_s"], row["log_size_last"] or 0)
    sizes: dict[str, float] = defaultdict(float)
    for (topic, _), (start_s, size) in last.items():
        if start_s + HOUR_S > history.end_s - GONE_S:
            sizes[topic] += size
    return sizes


def _a_day(total: float, covered_s: float) -> float:
    return DAY_S * total / covered_s if covered_s else 0.0


def _weekday(time_s: int) -> int:
    return (time_s // DAY_S + 3) % 7  # 1970-01-01 was a Thursday
