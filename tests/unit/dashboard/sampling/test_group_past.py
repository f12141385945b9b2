"""The lag of groups over time: trends, gaps, bounds."""

from typing import Any

import pytest

from cluster.dashboard.sampling.group_past import (
    COARSE_S,
    FINE_S,
    GROUPS_MAX,
    GroupPast,
    slope_per_s,
)
from cluster.views.group_lags import GroupLags

START_MS = 1_800_000_000_000
STEP_MS = int(FINE_S * 1_000)


def group(lag: int = 0, name: str = "g", ts: int = 0, **state_ms: float) -> GroupLags:
    return GroupLags({"group": name, "lag": lag, "ts": ts, "state_ms": state_ms})


def past(*lags: int | None) -> GroupPast:
    """A group with these lags, one each step; None is a reading without it."""
    found = GroupPast()
    for number, lag in enumerate(lags):
        found.take(START_MS + number * STEP_MS, [] if lag is None else [group(lag)])
    return found


def test_a_lag_grows_or_falls_by_its_slope() -> None:
    assert past(*range(0, 6_000, 600)).trend("g").lag_per_s == pytest.approx(600 / FINE_S)
    assert past(*range(6_000, 0, -600)).trend("g").lag_per_s == pytest.approx(-600 / FINE_S)


def test_a_lag_that_goes_up_and_down_with_the_commits_is_steady() -> None:
    assert past(*[0, 500, 80, 480, 20, 510, 90, 450, 10, 500]).trend("g").lag_per_s == 0
    assert past(*[70] * 10).trend("g").lag_per_s == 0


def test_a_trend_is_unknown_at_first_and_of_unknown_groups() -> None:
    assert past(1, 2).trend("g").lag_per_s is None
    assert past(1, 2, 3).trend("other") == (None, 0.0, 0.0)
    assert slope_per_s([]) is None


def test_only_the_last_minute_counts_for_a_trend() -> None:
    long_ago = [10_000 * number for number in range(20)]
    assert past(*long_ago, *[7] * 12).trend("g").lag_per_s == 0


def test_the_time_of_rebalances_is_added_up_once_for_each_interval() -> None:
    found = GroupPast()
    for number in range(10):
        ts = START_MS + 5_000 * (number // 3)  # the brokers' interval is longer
        found.take(
            START_MS + number * 2_000,
            [group(ts=ts, PreparingRebalance=300.0, Reconciling=20.0, Stable=4_680.0)],
        )
    trend = found.trend("g")
    assert trend.rebalanced_ms == 320 * len({0, 1, 2, 3})
    assert trend.watched_ms == 4 * STEP_MS


def test_a_reading_without_the_group_is_a_gap() -> None:
    shown: Any = past(5, None, 6).to_json("g", 900, 0)
    assert shown["values"]["lag"] == [5, None, 6]


def test_a_long_time_without_samples_is_a_gap() -> None:
    found = past(5)
    found.take(START_MS + 10 * STEP_MS, [group(6)])
    shown = found.to_json("g", 900, 0)
    assert shown["values"]["lag"] == [5, None, 6]
    assert shown["ts"] == [START_MS, START_MS + STEP_MS, START_MS + 10 * STEP_MS]


def test_samples_continue_after_a_time_and_long_ranges_are_coarse() -> None:
    found = past(*range(30))
    assert found.to_json("g", 900, START_MS + 27 * STEP_MS)["values"] == {"lag": [28, 29]}
    assert found.to_json("g", 900, START_MS + 29 * STEP_MS)["values"] == {}
    coarse = found.to_json("g", 3_600, 0)
    assert coarse["step_s"] == COARSE_S
    assert coarse["values"]["lag"] == [0, 10, 20]
    assert found.to_json("other", 900, 0)["ts"] == []


def test_old_samples_are_dropped() -> None:
    found = past(*range(200))
    assert found.to_json("g", 900, 0)["values"]["lag"] == list(range(50, 200))


def test_samples_later_than_a_clock_that_was_set_back_are_dropped() -> None:
    found = past(*range(200))
    found.take(START_MS + 180 * STEP_MS - 1, [group(7)])
    shown: Any = found.to_json("g", 900, 0)
    assert shown["values"]["lag"] == [*range(50, 180), 7]
    assert shown["ts"] == sorted(shown["ts"])
    found.take(START_MS, [group(8)])
    assert found.to_json("g", 900, 0)["values"]["lag"] == [8]


def test_groups_are_bounded_and_forgotten_when_they_have_been_gone_for_the_whole_time() -> None:
    found = GroupPast()
    many = [group(1, f"g{number}") for number in range(GROUPS_MAX + 1)]
    for number in range(2):
        found.take(START_MS + number * STEP_MS, many)
    assert found.to_json(f"g{GROUPS_MAX - 1}", 900, 0)["ts"]
    assert found.to_json(f"g{GROUPS_MAX}", 900, 0)["ts"] == []
    for number in range(2, 310):
        found.take(START_MS + number * STEP_MS, [many[-1]])
    assert found.to_json(f"g{GROUPS_MAX}", 900, 0)["ts"]
    assert found.to_json("g0", 900, 0)["ts"] == []
