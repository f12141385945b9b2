"""The page's capacity figures are those of the report, or it says how to get a history."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.dashboard.capacity_view import capacity_view
from cluster.model.errors import UserError
from cluster.model.finite_json import json_text
from tests.support.capacity_history import Truth, written

TRUTH = Truth(days=0.1)


def view(place: Path, now_s: int = TRUTH.end_s) -> dict[str, Any]:
    return capacity_view(place, now_s * 1000, "bin/cluster")


def test_command_is_named_without_a_rollup(tmp_path: Path) -> None:
    told = view(tmp_path / "rollup")
    assert "not written any window yet" in told["empty"]
    assert told["command"] == "bin/cluster rollup"
    (tmp_path / "rollup").mkdir()
    assert "no window of the last 28 days" in view(tmp_path / "rollup")["empty"]


def test_the_figures_and_texts_are_those_of_the_report(tmp_path: Path) -> None:
    written(tmp_path, TRUTH.rows(), is_merged=False)
    told = view(tmp_path)
    json_text(told)
    assert told["report"]["headroom"]["bottleneck"] == 0
    assert [table["title"] for table in told["tables"]] == [
        *("Growth", "Topics", "Disks", "Headroom of brokers"),
        *("Response times", "Lag of groups", "Events"),
    ]
    for table in told["tables"]:
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        assert table["how"]
    assert told["busiest"].startswith("Busiest: Thursday")
    assert told["period"].startswith("2025-01-02 00:00:00 to ")


def test_windows_of_long_ago_are_left_out(tmp_path: Path) -> None:
    written(tmp_path, TRUTH.rows(), is_merged=False)
    assert "empty" in view(tmp_path, TRUTH.end_s + 30 * 86_400)


@pytest.mark.slow
def test_broken_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    written(tmp_path, TRUTH.rows())
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(b"no parquet")
    with pytest.raises(UserError) as problem:
        view(tmp_path)
    assert "\n" not in str(problem.value)
