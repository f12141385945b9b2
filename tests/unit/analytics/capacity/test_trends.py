"""Slopes are those of the model despite a quarter of bad points, and need enough of them."""

import random

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from hypothesis import given
from hypothesis import strategies as st

from cluster.analytics.capacity.trends import (
    DAY_S,
    HOUR_S,
    HOURS_MIN,
    theil_sen,
    thinned,
    trend_of_levels,
    trend_of_rates,
)


@given(
    st.floats(-100, 100),
    st.floats(-1e6, 1e6),
    st.integers(8, 60),
    st.randoms(use_true_random=False),
)
def test_the_slope_of_a_line_is_found_although_a_fifth_of_the_points_is_anything(
    slope: float, start: float, count: int, dice: random.Random
) -> None:
    points = [(float(day), start + slope * day) for day in range(count)]
    for at in dice.sample(range(count), count // 5):
        points[at] = (points[at][0], dice.uniform(-1e9, 1e9))
    found = theil_sen(points)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low - 1e-6 <= slope <= found.high + 1e-6


def test_the_slope_of_an_exact_line_is_exact() -> None:
    found = theil_sen([(float(day), 5 + 3.0 * day) for day in range(9)])
    assert found is not None
    assert (found.per_day, found.low, found.high) == (3.0, 3.0, 3.0)
    assert found.stands_out


@pytest.mark.parametrize("points", [[], [(1.0, 5.0)], [(1.0, 5.0), (1.0, 6.0)]])
def test_without_a_pair_of_points_there_is_no_slope(points: list[tuple[float, float]]) -> None:
    assert theil_sen(points) is None


def test_three_points_do_not_stand_out_from_noise() -> None:
    found = theil_sen([(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)])
    assert found is not None
    assert found.per_day == 1.0
    assert not found.stands_out


def test_noise_gives_no_trend() -> None:
    dice = random.Random(5)
    trend = trend_of_levels([(hour / 24, 1000 + dice.gauss(0, 10)) for hour in range(100)])
    assert trend.verdict == "steady"


@given(st.integers(0, 3000))
def test_thinned_points_are_few_and_keep_the_line(count: int) -> None:
    found = thinned([(float(at), 2.0 * at) for at in range(count)])
    assert len(found) <= 120
    assert all(value == 2 * time for time, value in found)


def hourly(days: float, growth: float, *, weekend: float = 1.0) -> list[tuple[int, float, float]]:
    made = []
    for hour in range(round(days * 24)):
        of_day = 3.0 if 8 <= hour % 24 < 18 else 1.0
        of_week = weekend if hour // 24 % 7 >= 5 else 1.0
        total = 1e9 * of_day * of_week * (1 + growth) ** (hour / 24)
        made.append((hour * HOUR_S, float(HOUR_S), total))
    return made


def test_a_trend_of_a_gauge_needs_six_hours() -> None:
    points = [(hour / 24, 100.0 * hour) for hour in range(HOURS_MIN)]
    assert trend_of_levels(points).verdict == "grows"
    trend = trend_of_levels(points[1:])
    assert (trend.verdict, trend.per_day) == ("unknown", None)
    assert "values of 5 hours: a trend needs 6" in trend.how


def test_an_evening_is_not_compared_with_a_morning() -> None:
    trend = trend_of_rates(hourly(29 / 24, 0.5))
    assert trend.verdict == "unknown"
    assert "29 hours of traffic" in trend.how
    assert trend_of_rates(hourly(30 / 24, 0.5)).percent_per_day == pytest.approx(50)
    assert trend_of_rates(hourly(30 / 24, 0.0)).verdict == "steady"


def test_with_few_days_only_equal_hours_of_the_day_are_compared() -> None:
    trend = trend_of_rates(hourly(3.5, 0.05))
    assert "equal hours of the day" in trend.how
    assert trend.percent_per_day == pytest.approx(5, abs=0.01)


def test_from_four_days_on_days_are_compared() -> None:
    trend = trend_of_rates(hourly(6.7, 0.05))
    assert "totals of 6 whole days" in trend.how
    assert trend.percent_per_day == pytest.approx(5, abs=0.01)


def test_from_two_weeks_on_weekends_are_no_trend() -> None:
    flat = trend_of_rates(hourly(16, 0.0, weekend=0.2))
    assert "equal weekdays" in flat.how
    assert flat.verdict == "steady"
    assert trend_of_rates(hourly(16, 0.05, weekend=0.2)).percent_per_day == pytest.approx(5)


def test_days_with_gaps_count_by_what_records_cover() -> None:
    hours = [each for each in hourly(8, 0.05) if each[0] // HOUR_S % 24 != 3]  # an hour is missing
    assert trend_of_rates(hours).percent_per_day == pytest.approx(5, abs=0.2)
    half = [each for each in hourly(8, 0.05) if each[0] % DAY_S < DAY_S / 2]  # half of each day
    trend = trend_of_rates(half)
    assert "equal hours of the day" in trend.how
    assert trend.percent_per_day == pytest.approx(5, abs=0.2)


def test_totals_of_0_have_no_percentage() -> None:
    trend = trend_of_rates([(hour * HOUR_S, float(HOUR_S), 0.0) for hour in range(24 * 7)])
    assert trend.verdict == "steady"
    assert trend.per_day == 0
    assert trend.percent_per_day is None
