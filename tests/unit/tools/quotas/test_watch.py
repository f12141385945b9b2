"""`quotas watch --once` over stats files: which clients it shows, and how."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.tools.main import main
from cluster.tools.top import command as top


def used(client_id: str, **fields: Any) -> QuotaRow:
    given = {"quota": "produce", "user": "ANONYMOUS", "active_ms": now_ms(), **fields}
    return QuotaRow(client_id=client_id, **given)


def now_ms() -> MonotonicMs:
    return MonotonicMs(time.monotonic_ns() // 1_000_000)


def watched(directory: Path, capsys: pytest.CaptureFixture[str], *rows: QuotaRow) -> list[str]:
    """The lines of one look, without that of the brokers and its time."""
    run = directory / "run"
    run.mkdir()
    stats = MmapStats.create(run / "broker-0.stats", "broker-0", 0, rows=8, groups_bytes=0)
    for index, row in enumerate(rows):
        stats.write_row(index, row)
    stats.write_time(WallMs(0), now_ms())
    assert main(["--data-dir", str(directory), "quotas", "watch", "--once"]) == 0
    return capsys.readouterr().out.rstrip().splitlines()[1:]


def test_a_client_is_named_once_above_its_quotas(tmp_path, capsys):
    head, first, second, third = watched(
        tmp_path,
        capsys,
        used("calm", rate=5.0),
        used("app", rate=2048.0, limit=1024.0, rule="client", delay_ms=1_500),
        used("app", quota="request", rate=1.5),
        used("app", quota="fetch"),
    )
    assert head.split()[:2] == ["CLIENT-ID", "QUOTA"]
    assert first.split()[:3] == ["app", "produce", "client"]
    assert second.split()[0] == "request"
    assert third.split()[:2] == ["calm", "produce"]
    assert first.endswith("200 %        1,500")
    assert second.endswith("none")


def test_users_are_a_column_if_somebody_has_logged_in(tmp_path, capsys):
    head, first, _ = watched(tmp_path, capsys, used("a", rate=2.0), used("b", user="bob"))
    assert head.split()[0] == "USER"
    assert first.split()[:2] == ["ANONYMOUS", "a"]


def test_json_has_no_infinity_where_a_limit_is_0(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(top, "_FIRST_RATES_S", 0.0)
    watched(tmp_path, capsys, used("app", rate=2.0, limit=0.0, rule="client"))
    explain = ["quotas", "explain", "--client-id", "app"]
    for command in (["quotas", "watch", "--once"], ["top", "--once"], explain):
        assert main(["--data-dir", str(tmp_path), *command, "--json"]) == 0
        out = capsys.readouterr().out
        assert "app" in out
        json.loads(out, parse_constant=pytest.fail)


def test_own_and_idle_clients_are_counted(tmp_path, capsys):
    told = watched(
        tmp_path,
        capsys,
        used("milena-topics", rate=1.0),
        used("gone", active_ms=now_ms() - 61_000),
    )
    assert told == [
        "No client is active.",
        "2 more: 1 of Milena's own, 1 without a request for a minute (--all)",
    ]
    assert main(["--data-dir", str(tmp_path), "quotas", "watch", "--once", "--all", "--json"]) == 0
    clients = json.loads(capsys.readouterr().out)["clients"]
    assert {each["client_id"]: each["hidden"] for each in clients} == {
        "milena-topics": "own",
        "gone": "idle",
    }
