"""Reports on groups: lag over time, including idle partitions."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.tools.main import main
from tests.support.metric_records import (
    START_MS,
    Record,
    generated_group_records,
    group_record,
    lag_record,
    quota_record,
)

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")


from cluster.analytics.reports.lag_history import GroupTimes, LagSeries, group_times, lag_series
from cluster.analytics.reports.terminal_plot import sparkline
from cluster.analytics.reports.usage_history import Span
from cluster.analytics.windows.kinds import GROUP, LAG
from tests.support.window_directories import windows_of_records, written

START_S = START_MS // 1000


def at(seconds: int) -> dict[str, int]:
    """The time of a record whose interval begins this long after the start."""
    return {"ts": START_MS + 1000 * seconds + 5_000}


def series(records: list[Record], seconds: int, **how: Any) -> list[LagSeries]:
    span = Span(START_S, START_S + seconds, 10)
    return lag_series(windows_of_records(records, LAG, "10s"), span, **how)


def test_silent_partition_keeps_its_lag():
    records = [
        lag_record(**at(0), lag=5, log_end=105),
        lag_record(**at(0), partition=1, lag=100, log_end=200),
        lag_record(**at(30), lag=2, log_end=110, committed=108),
        lag_record(**at(60), partition=1, lag=0, log_end=200, committed=200),
    ]
    (both,) = series(records, 150)
    # Partition 0 is silent after 30 s: after another minute it is gone, not idle.
    assert both.lags[:10] == [105, 105, 105, 102, 102, 102, 2, 2, 2, 2]
    assert both.lags[10:] == [0, 0, 0, None, None]
    assert (both.last, both.now, both.most) == (0, 0, 105)
    assert both.partitions == {0, 1}
    assert (both.produced, both.consumed, both.seconds) == (5, 108, 60)
    assert both.consumed_per_s == pytest.approx(1.8)


def test_a_deleted_topic_and_an_ended_group_have_no_lag_now():
    records = [
        lag_record(**at(0), topic="deleted", lag=500, log_end=500),
        *(lag_record(**at(seconds), topic="kept", lag=7, log_end=9) for seconds in (0, 60, 130)),
    ]
    kept, deleted = series(records, 200)
    assert (kept.topic, kept.now, kept.last) == ("kept", 7, 7)
    assert (deleted.topic, deleted.now, deleted.last, deleted.most) == ("deleted", None, 500, 500)
    assert deleted.as_json()["lag_now"] is None
    groups = [
        group_record(**at(0), group="ended", lag=500),
        *(group_record(**at(seconds), group="goes on", lag=7) for seconds in range(0, 200, 20)),
    ]
    going, ended = group_times(
        windows_of_records(groups, GROUP, "10s"), Span(START_S, START_S + 200, 10)
    )
    assert (going.group, going.lag_now) == ("goes on", 7)
    assert (ended.group, ended.lag_now, ended.lag_last) == ("ended", None, 500)


def test_the_furthest_behind_come_first_and_partitions_one_by_one():
    records = [
        lag_record(topic="a", lag=1),
        lag_record(topic="b", lag=9),
        lag_record(topic="b", partition=1, lag=4),
    ]
    assert [(one.topic, one.last) for one in series(records, 10)] == [("b", 13), ("a", 1)]
    apart = [(one.topic, *one.partitions, one.last) for one in series(records, 10, by_partition=1)]
    assert apart == [("b", 0, 9), ("b", 1, 4), ("a", 0, 1)]
    assert {one.produced_per_s for one in series(records, 10)} == {None}, "of one window, no rate"


def test_a_log_that_was_cut_has_not_produced_less_than_nothing():
    records = [
        lag_record(**at(0), lag=10, log_end=500, committed=490),
        lag_record(**at(20), lag=0, log_end=40, committed=90),
    ]
    (one,) = series(records, 30)
    assert (one.produced, one.consumed) == (0, 0)


def test_time_in_states_adds_up():
    records = [
        group_record(**at(0), lag=50, members=3),
        group_record(**at(5), lag=90, state_ms={"Stable": 1_000, "CompletingRebalance": 4_000}),
        group_record(**at(20), lag=20, state_ms={"Empty": 10_000}),
        group_record(**at(20), group="other", lag=30, state_ms={"Reconciling": 5_000}),
    ]
    span = Span(START_S, START_S + 30, 10)
    other, billing = group_times(windows_of_records(records, GROUP, "10s"), span)
    assert (billing.lag_max, billing.lag_last, billing.members_max) == (90, 20, 3)
    assert (billing.rebalancing_ms, billing.known_ms) == (4_200, 20_000)
    assert billing.share(billing.rebalancing_ms) == 21.0
    assert other.share(other.rebalancing_ms) == 100.0
    assert GroupTimes("new").share(0) == 0.0


def test_sparkline_has_a_character_for_each_amount():
    assert sparkline([0, 1, 4, 8]) == " ▁▄█"
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return written(tmp_path / "rollup", list(generated_group_records(2, seconds=90)))


def report(output: Path, *words: str) -> int:
    return main(["groups", "report", "--data-dir", str(output.parent), *words])


def test_tables_of_groups_and_of_topics(output, capsys):
    assert report(output) == 0
    head, groups, lags = capsys.readouterr().out.rstrip("\n").split("\n\n")
    assert head == "2026-09-21 14:13:20 to 2026-09-21 14:14:50 UTC, windows of 10 s"
    assert len(groups.splitlines()) == len(lags.splitlines()) == 4
    assert "REBALANCING FOR" in groups
    assert "4 of them" in lags


def test_one_group_partition_by_partition_in_either_width(output, capsys):
    for width in ("10s", "1m"):
        assert report(output, "--group", "group-1", "--width", width) == 0
        _, groups, lags = capsys.readouterr().out.rstrip("\n").split("\n\n")
        assert len(groups.splitlines()) == 2
        assert len(lags.splitlines()) == 5
        assert "group-2" not in lags


def test_json_has_everything(output, capsys):
    assert report(output, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["end_s"] - found["first_s"] == 90
    assert {each["group"] for each in found["groups"]} == {"group-0", "group-1", "group-2"}
    (lags,) = found["groups"][0]["lags"]
    assert len(lags["lags"]) == 9
    assert lags["partitions"] == [0, 1, 2, 3]
    assert found["groups"][0]["state_ms"]["Stable"] > 0


def test_names_stay_on_their_line(tmp_path, capsys):
    name = "a\nb\x1b[2J"
    assert (
        report(written(tmp_path / "rollup", [group_record(group=name), lag_record(group=name)]))
        == 0
    )
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert len(text.splitlines()) == 2 + 2 + 1 + 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--output", "/nowhere"], "there are no windows in /nowhere: run `"),
        (["--group", "nobody"], "no windows of group nobody; there are group-0, group-1"),
    ],
)
def test_mistakes_are_reported_in_one_line(output, capsys, words, reason):
    assert report(output, *words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {reason}")
    assert err.count("\n") == 1


def test_report_of_groups_is_empty_with_quota_windows_only(tmp_path, capsys):
    assert report(written(tmp_path / "rollup", [quota_record()])) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: there are no windows of groups in ")
    assert "no such records were in the topic when" in err


def test_command_without_an_action_lists_the_actions(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["groups", "--data-dir", str(tmp_path)])
    assert ended.value.code == 2
    assert "say what to do: list, describe, " in capsys.readouterr().err
