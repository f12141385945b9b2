"""The dashboard's history of a client, from the windows of the rollup."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.dashboard.rollup_history import client_history
from cluster.model.errors import UserError
from tests.support.metric_records import Record, quota_record
from tests.support.window_directories import written

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def used(after_s: int = 0, **fields: Any) -> Record:
    """A record of a second that begins this long after noon, at a rate of 1 over 10 s."""
    usual = {"user": "u", "client_id": "c", "usage": 10.0, "rate": 2.0, "limit": 5.0}
    return quota_record(**{**usual, "ts": NOON_MS + 1000 * (after_s + 1), **fields})


def history(place: Path, since_ms: int = NOON_MS - 60_000, client_id: str = "c") -> dict[str, Any]:
    return client_history(place, "u", client_id, since_ms, NOON_MS + 60_000, "bin/cluster")


def test_command_is_named_without_a_rollup(tmp_path: Path) -> None:
    told = history(tmp_path / "rollup")
    assert told["windows"] == []
    assert "not written any window yet" in told["empty"]
    assert told["command"] == "bin/cluster rollup"


def test_the_history_of_a_client_is_that_of_its_busiest_broker(tmp_path: Path) -> None:
    written(
        tmp_path,
        [
            used(),
            used(broker=1, usage=30.0, rate=4.0, limit=6.0),
            used(broker=1, usage=70.0, rate=8.0, limit=None, quota="fetch"),
            used(client_id="another", usage=90.0, rate=9.0),
        ],
    )
    told = history(tmp_path)
    assert told["width_s"] == 10
    shown = [(each["quota"], each["rate_avg"], each["limit"]) for each in told["windows"]]
    assert shown[:2] == [("fetch", 7.0, None), ("produce", 3.0, 6.0)]
    assert {each["start_s"] for each in told["windows"][:2]} == {NOON_MS // 1000}
    assert "no window of this client" in history(tmp_path, client_id="nobody")["empty"]
    assert history(tmp_path, since_ms=NOON_MS + 1)["windows"] == []


def test_time_without_a_window_is_a_gap_and_a_window_alone_has_a_length(tmp_path: Path) -> None:
    written(tmp_path, [used(0), used(10), used(40)])
    told = [
        (each["start_s"] - NOON_MS // 1000, each["rate_avg"])
        for each in history(tmp_path)["windows"]
    ]
    line, alone = [(0, 1.0), (9, 1.0), (10, 1.0), (19, 1.0)], [(40, 1.0), (49, 1.0)]
    assert told == [*line, (20, None), *alone, (50, None)]


def test_a_long_time_is_shown_in_wider_windows(tmp_path: Path) -> None:
    written(tmp_path, [used()])
    assert history(tmp_path, NOON_MS - 3_600_000)["width_s"] == 10
    assert history(tmp_path, NOON_MS - 86_400_000)["width_s"] == 60
    assert history(tmp_path, NOON_MS - 30 * 86_400_000)["width_s"] == 3600
    assert history(tmp_path, 0)["width_s"] == 86_400


def test_history_includes_the_open_hour_and_no_future_windows(tmp_path: Path) -> None:
    written(tmp_path, [used(), used(3600 * 24 * 365 * 20)], is_merged=False)
    told = history(tmp_path)["windows"]
    assert {each["start_s"] - NOON_MS // 1000 for each in told} == {0, 9, 10}


def test_broken_file_is_reported_in_one_line(tmp_path: Path) -> None:
    written(tmp_path, [used()])
    (path,) = tmp_path.glob("kind=quota/width=10s/*/*.parquet")
    path.write_bytes(b"no parquet")
    with pytest.raises(UserError) as problem:
        history(tmp_path)
    assert "\n" not in str(problem.value)
