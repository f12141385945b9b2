"""Robust trends: the Theil-Sen slope of points in time, with an interval of its uncertainty. Pure.

The slope is the median of the slopes of all pairs of points, so that up to 29 % of them may be
arbitrary. With a season, only points that are whole seasons apart make a pair, so that neither the
hours of a day nor the days of a week look like growth (Hirsch's seasonal slope). The interval
follows from the variance of Kendall's rank statistic.
"""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DAY_S: Final = 86_400
HOUR_S: Final = 3600
HOURS_MIN: Final = 6
"""The hours that the trend of a gauge needs, or the comparable hours for one of a rate."""
_DAYS_MIN: Final = 4
"""From this number of whole days on, days are compared instead of hours."""
_WEEKS_DAYS: Final = 14
"""From this number of whole days on, only equal weekdays are compared."""
_HOURS_MAX: Final = 1000
"""If gaps leave no whole days, the latest hours are compared."""
_POINTS_MAX: Final = 120
"""More points are thinned out by medians, since all pairs are used."""
_CONFIDENCE: Final = 1.645
"""Standard deviations on each side of the middle 90 % of a normal distribution."""

Point = tuple[float, float]
"""A time in days, and a value."""


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of a line through points, per day."""

    per_day: float
    low: float | None
    high: float | None
    """The bounds with 90 % confidence; None with too few points."""

    @property
    def stands_out(self) -> bool:
        """Whether its sign differs significantly from 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class Trend:
    """How a quantity changes, or why that is unknown."""

    verdict: str
    """`grows`, `shrinks`, `steady` (no significant change) or `unknown`."""
    per_day: float | None
    """Units of the quantity per day, with the bounds of its 90 % interval."""
    per_day_low: float | None
    per_day_high: float | None
    percent_per_day: float | None
    """Compound, for rates; None if some total is 0."""
    percent_low: float | None
    percent_high: float | None
    points: int
    how: str


def theil_sen(points: Sequence[Point], season_days: float | None = None) -> Slope | None:
    """The slope of points in order of time; None without a pair of them."""
    slopes = sorted(
        (value - earlier) / (time - before)
        for at, (time, value) in enumerate(points)
        for before, earlier in points[:at]
        if time > before and (season_days is None or _is_whole((time - before) / season_days))
    )
    if not slopes:
        return None
    spread = _CONFIDENCE * math.sqrt(sum(map(_variance, _seasons(points, season_days))))
    count = len(slopes)
    if spread >= count:
        return Slope(statistics.median(slopes), None, None)
    low = max(0, round((count - spread) / 2) - 1)
    high = min(count - 1, round((count + spread) / 2))
    return Slope(statistics.median(slopes), slopes[low], slopes[high])


def thinned(points: Sequence[Point]) -> list[Point]:
    """At most 120 points: the medians of equally long runs of them."""
    size = -(-len(points) // _POINTS_MAX) or 1
    return [
        (
            statistics.median(time for time, _ in points[first : first + size]),
            statistics.median(value for _, value in points[first : first + size]),
        )
        for first in range(0, len(points), size)
    ]


def trend_of_rates(hours: Sequence[tuple[int, float, float]]) -> Trend:
    """The trend of totals per day, from hours: start in seconds, seconds covered, total.

    From 4 whole days on, totals of days are compared, from 14 on those of equal weekdays; with
    fewer, equal hours of the day.
    """
    days: dict[int, list[float]] = {}
    for start_s, covered_s, total in hours:
        day = days.setdefault(start_s // DAY_S, [0.0, 0.0])
        day[0] += covered_s
        day[1] += total
    whole = [
        (float(day), DAY_S * total / covered)
        for day, (covered, total) in sorted(days.items())
        if covered >= 0.9 * DAY_S
    ]
    if len(whole) >= _DAYS_MIN:
        season = 7.0 if len(whole) >= _WEEKS_DAYS else None
        compared = "equal weekdays" if season else "days; weekdays are not told apart before 14"
        return _trend(
            whole, season, f"totals of {len(whole)} whole days, comparing {compared}", compound=True
        )
    points = [
        (start_s / DAY_S, DAY_S * total / covered_s)
        for start_s, covered_s, total in sorted(hours)
        if covered_s >= HOUR_S / 2
    ][-_HOURS_MAX:]
    hours_of_day = Counter(round(24 * day) % 24 for day, _ in points)
    if len(points) - len(hours_of_day) < HOURS_MIN:
        return unknown(
            f"{_hours(len(points))} of traffic: growth is estimated from {HOURS_MIN} hours on that"
            " have an equal hour on another day",
            len(points),
        )
    which = f"totals of {len(points)} hours, comparing equal hours of the day"
    return _trend(points, 1.0, which, compound=True)


def trend_of_levels(points: Sequence[Point]) -> Trend:
    """The trend of a gauge from its values at the ends of hours."""
    if len(points) < HOURS_MIN:
        return unknown(
            f"values of {_hours(len(points))}: a trend needs {HOURS_MIN}",
            len(points),
        )
    which = f"the last values of {len(points)} hours"
    return _trend(thinned(points), None, which, compound=False)


def unknown(why: str, points: int = 0) -> Trend:
    """An unknown trend, and the reason."""
    return Trend("unknown", None, None, None, None, None, None, points, f"cannot be told: {why}")


def _trend(points: Sequence[Point], season: float | None, which: str, *, compound: bool) -> Trend:
    slope = theil_sen(points, season)
    if slope is None:
        return unknown(f"{which}: no two of them can be compared", len(points))
    verdict = "steady"
    if slope.stands_out:
        verdict = "grows" if slope.per_day > 0 else "shrinks"
    percents: tuple[float | None, float | None, float | None] = (None, None, None)
    if compound and all(value > 0 for _, value in points):
        ratio = theil_sen([(time, math.log(value)) for time, value in points], season)
        if ratio is not None:
            percents = (_percent(ratio.per_day), _percent(ratio.low), _percent(ratio.high))
    return Trend(
        verdict,
        *(slope.per_day, slope.low, slope.high),
        *percents,
        len(points),
        f"Theil-Sen slope over {which}; in brackets its 90 % interval",
    )


def _percent(log_slope: float | None) -> float | None:
    if log_slope is None:
        return None
    return 100 * math.expm1(min(log_slope, 50.0))


def _hours(count: int) -> str:
    return f"{count} {'hour' if count == 1 else 'hours'}"


def _is_whole(seasons: float) -> bool:
    return round(seasons) >= 1 and abs(seasons - round(seasons)) < 0.01


def _seasons(points: Sequence[Point], season_days: float | None) -> list[int]:
    """The number of points in each part of the season."""
    if season_days is None:
        return [len(points)]
    return list(Counter(round(time % season_days, 3) % season_days for time, _ in points).values())


def _variance(count: int) -> float:
    """The variance of Kendall's statistic of this many independent points."""
    return count * (count - 1) * (2 * count + 5) / 18
