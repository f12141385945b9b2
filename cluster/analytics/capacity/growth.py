"""Daily traffic, its growth, and its busiest hours. Pure."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from cluster.analytics.capacity.history import WindowHistory, a_day, last_day, traffic
from cluster.analytics.capacity.trends import DAY_S, HOUR_S, Trend, trend_of_rates

DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_BUSIEST: Final = 3


@dataclass(frozen=True, slots=True)
class TrafficGrowth:
    """The growth of the traffic of all topics together."""

    bytes_in_per_day: float | None
    bytes_out_per_day: float | None
    messages_per_day: float | None
    """Over the last 24 hours of the history. None without windows."""
    trend: Trend
    """The trend of the bytes that clients produce."""
    messages_trend: Trend
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


def growth(history: WindowHistory) -> TrafficGrowth:
    """The traffic and its growth."""
    found = traffic(history)
    if not found.hours:
        nothing = trend_of_rates([])
        return TrafficGrowth(None, None, None, nothing, nothing, "there are no windows of traffic")
    now = last_day(found.hours)
    covered_s = sum(hour.covered_s for hour in now)
    return TrafficGrowth(
        a_day(sum(hour.bytes_in for hour in now), covered_s),
        a_day(sum(hour.bytes_out for hour in now), covered_s),
        a_day(sum(hour.messages for hour in now), covered_s),
        trend_of_rates([(hour.start_s, hour.covered_s, hour.bytes_in) for hour in found.hours]),
        trend_of_rates([(hour.start_s, hour.covered_s, hour.messages) for hour in found.hours]),
        f"from {found.source}: totals of the last 24 hours of the history, of which records cover"
        f" {covered_s / HOUR_S:.1f}, taken to 24",
    )


def busy_hours(history: WindowHistory) -> BusyHours:
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


def _weekday(time_s: int) -> int:
    return (time_s // DAY_S + 3) % 7  # 1970-01-01 was a Thursday
