"""What the dashboard tells of a client's past: the windows of the rollup."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

import pyarrow as pa

from cluster.analytics.window_files import QUOTA_WINDOWS, replace_windows
from cluster.dashboard.rollup_history import client_history
from cluster.model.errors import UserError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def windows(*rows: dict[str, Any]) -> pa.Table:
    schema = QUOTA_WINDOWS.schema
    usual = {"window_start": NOON, "broker": 0, "user": "u", "client_id": "c", "quota": "produce"}
    whole = [{**dict.fromkeys(schema.names), **usual, **row} for row in rows]
    return pa.Table.from_pylist(whole, schema)


def history(place: Path, since_ms: int = NOON_MS - 60_000, client_id: str = "c") -> dict[str, Any]:
    return client_history(place, "u", client_id, since_ms, NOON_MS + 60_000, "bin/cluster")


def test_without_a_rollup_the_command_is_named(tmp_path: Path) -> None:
    told = history(tmp_path / "rollup")
    assert told["windows"] == []
    assert "not written any window yet" in told["empty"]
    assert told["command"] == "bin/cluster rollup"


def test_the_history_of_a_client_is_that_of_its_busiest_broker(tmp_path: Path) -> None:
    table = windows(
        {"broker": 0, "rate_avg": 1.0, "rate_max": 2.0, "limit": 5.0},
        {"broker": 1, "rate_avg": 3.0, "rate_max": 4.0, "limit": 6.0},
        {"broker": 1, "quota": "fetch", "rate_avg": 7.0, "rate_max": 8.0},
        {"client_id": "another", "rate_avg": 9.0, "rate_max": 9.0},
    )
    replace_windows(tmp_path, {"10s": table})
    told = history(tmp_path)
    assert told["width_s"] == 10
    shown = [(each["quota"], each["rate_avg"], each["limit"]) for each in told["windows"]]
    assert shown[:2] == [("fetch", 7.0, None), ("produce", 3.0, 6.0)]
    assert {each["start_s"] for each in told["windows"][:2]} == {NOON_MS // 1000}
    assert "no window of this client" in history(tmp_path, client_id="nobody")["empty"]
    assert history(tmp_path, since_ms=NOON_MS + 1)["windows"] == []


def test_time_without_a_window_is_a_gap_and_a_window_alone_has_a_length(tmp_path: Path) -> None:
    starts = (0, 10, 40)
    table = windows(
        *(
            {"window_start": NOON + timedelta(seconds=start), "rate_avg": 1.0, "rate_max": 2.0}
            for start in starts
        )
    )
    replace_windows(tmp_path, {"10s": table})
    told = [
        (each["start_s"] - NOON_MS // 1000, each["rate_avg"])
        for each in history(tmp_path)["windows"]
    ]
    line, alone = [(0, 1.0), (9, 1.0), (10, 1.0), (19, 1.0)], [(40, 1.0), (49, 1.0)]
    assert told == [*line, (20, None), *alone, (50, None)]


def test_a_long_time_is_shown_in_wider_windows(tmp_path: Path) -> None:
    table = windows({"rate_avg": 1.0, "rate_max": 2.0})
    replace_windows(tmp_path, {"10s": table, "1m": table})
    assert history(tmp_path, NOON_MS - 3_600_000)["width_s"] == 10
    assert history(tmp_path, NOON_MS - 86_400_000)["width_s"] == 60
    assert history(tmp_path, 0)["width_s"] == 60


def test_a_broken_file_is_one_line(tmp_path: Path) -> None:
    replace_windows(tmp_path, {"10s": windows({})})
    (path,) = (tmp_path / "width=10s").rglob("*.parquet")
    path.write_bytes(b"no parquet")
    with pytest.raises(UserError) as problem:
        history(tmp_path)
    assert "\n" not in str(problem.value)
