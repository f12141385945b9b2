"""The ranges of days of the home view, from the windows of the rollup."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.dashboard.sampling.rollup_past import lag, rollup_past, throttles
from cluster.model.errors import UserError
from tests.support.capacity_history import DAY_S, HOUR_S, THURSDAY, Truth, written

END_S = THURSDAY + 2 * DAY_S
TRUTH = Truth(days=2, first_s=THURSDAY)


def past(place: Path, name: str, now_s: int = END_S) -> dict[str, Any]:
    return rollup_past(place, name, now_s * 1_000, "bin/cluster")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("rollup")
    written(place, TRUTH.rows())
    return place


def test_command_is_named_without_a_rollup_and_without_windows(tmp_path: Path, place: Path) -> None:
    told = past(tmp_path / "rollup", "1d")
    assert (told["ts"], told["events"], told["command"]) == ([], [], "bin/cluster rollup")
    assert "not written any window yet" in told["empty"]
    later = past(place, "1d", END_S + 40 * DAY_S)
    assert "no window of this time" in later["empty"]


def test_days_have_the_figures_of_the_windows(place: Path) -> None:
    told = past(place, "7d")
    assert (told["step_s"], len(told["ts"])) == (HOUR_S, 7 * 24)
    values = told["values"]
    assert values["bytes_in"][: 5 * 24] == [None] * (5 * 24)
    for at, hour in enumerate(range(THURSDAY, END_S, HOUR_S), 5 * 24):
        steps = range(hour, hour + HOUR_S, 600)
        assert told["ts"][at] == (hour + HOUR_S // 2) * 1_000
        mean = sum(TRUTH.rate(step) for step in steps) / len(steps)
        assert values["bytes_in"][at] == pytest.approx(mean, rel=1e-3)
        assert values["bytes_out"][at] == pytest.approx(2 * mean, rel=1e-3)
        busy = TRUTH.busy_idle + TRUTH.busy_per_mib * 3 * mean * TRUTH.shares[1] / (1 << 20)
        assert values["busy:1"][at] == pytest.approx(busy, rel=1e-3)
        assert 0.5 < values["produce_p50_ms"][at] < 1.1  # bucket 10 is below 1.024 ms
        assert 4 < values["produce_p99_ms"][at] < 16.4
    assert "fetch_p50_ms" not in values  # nobody but replicas fetched


def test_a_day_is_in_narrower_steps_and_one_without_a_window_is_a_gap(place: Path) -> None:
    told = past(place, "1d")
    assert (told["step_s"], len(told["ts"])) == (300, 288)
    rates = told["values"]["bytes_in"]
    assert [rate is None for rate in rates] == [False, True] * 144  # every ten minutes a record
    assert rates[0] == pytest.approx(TRUTH.rate(END_S - DAY_S), rel=1e-3)


def test_events_have_the_kinds_of_the_supervisor(place: Path) -> None:
    told = past(place, "30d")["events"]
    assert [(each["kind"], each["subject"]) for each in told] == [
        ("death", "broker 2"),
        ("election", "topic orders"),
        ("start", "broker 2"),
        ("quota", "client-id loader"),
        ("rebalance", "group behind"),
    ]
    assert told[0]["ts"] == (THURSDAY + DAY_S) * 1_000
    assert told[3]["text"] == "quota: producer_byte_rate=1048576"


def test_lag_is_the_sum_of_the_means_of_groups() -> None:
    rows = [
        {"start_s": 0, "group": "a", "lag_avg": 10.0},
        {"start_s": 60, "group": "a", "lag_avg": 30.0},
        {"start_s": 60, "group": "b", "lag_avg": 5.0},
        {"start_s": 300, "group": "b", "lag_avg": None},
    ]
    assert lag(rows, 300) == {"lag": {0: 25.0}}


def test_throttle_times_of_an_hour_hold_for_each_step_in_it() -> None:
    rows = [
        {"start_s": 3_600, "throttled": 30, "throttle_ms_exact": 600},
        {"start_s": 3_600, "throttled": 6, "throttle_ms_exact": 120},
        {"start_s": 7_200, "throttled": 0, "throttle_ms_exact": 0},
    ]
    found = throttles(rows, 1_800)
    assert found["throttle_ms"] == {3_600: 20, 5_400: 20, 7_200: 0, 9_000: 0}
    assert found["throttled"][5_400] == 0.01


def test_broken_file_is_reported_in_one_line(tmp_path: Path) -> None:
    written(tmp_path, Truth(days=0.1, first_s=THURSDAY).rows())
    for path in tmp_path.glob("kind=broker/width=1h/*/*.parquet"):
        path.write_bytes(b"no parquet")
    with pytest.raises(UserError, match="cannot read the rollup's windows") as problem:
        past(tmp_path, "7d", THURSDAY + DAY_S)
    assert "\n" not in str(problem.value)
