"""What a LocalCluster makes of its options; tests/integration starts real ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.datadir.supervisor_socket import NotRunning
from cluster.launch.options import StartOptions
from cluster.local.local_cluster import CommandFailed, LocalCluster


def test_ports_of_0_are_chosen_once_and_lie_side_by_side(tmp_path: Path) -> None:
    cluster = LocalCluster(
        StartOptions(tmp_path, brokers=2, port=0, registry_port=0, dashboard_port=0)
    )
    first = cluster.addresses[0][1]
    assert cluster.bootstrap == f"127.0.0.1:{first},127.0.0.1:{first + 1}"
    assert (cluster.registry_port, cluster.dashboard_port) == (first + 2, first + 3)
    assert f"--port={first}" in cluster.options.arguments()


def test_ports_that_are_given_stay(tmp_path: Path) -> None:
    cluster = LocalCluster(StartOptions(tmp_path, port=9500, registry_port=9600))
    assert [port for _, port in cluster.addresses] == [9500, 9501, 9502]
    assert (cluster.registry_port, cluster.dashboard_port) == (9600, None)


def test_a_failed_command_says_why(tmp_path: Path) -> None:
    cluster = LocalCluster(StartOptions(tmp_path / "none"))
    with pytest.raises(CommandFailed, match="no cluster is running") as failed:
        cluster.command("status")
    assert failed.value.reason.startswith("no cluster is running")
    assert cluster.command("status", check=False).returncode == 1


def test_a_failed_start_says_why_although_the_end_of_a_log_follows() -> None:
    told = "Cannot start: broker 0: no disk\nThe end of var/logs/broker-0.log:\n  12:00 ERROR ...\n"
    done = subprocess.CompletedProcess((), 1, stdout="Starting 1 broker\n", stderr=told)
    assert CommandFailed(done, ("start",)).reason == "broker 0: no disk"


def test_an_installed_program_sees_nothing_of_this_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    ours = LocalCluster(StartOptions(tmp_path))
    assert ours.command_line("stop")[0] == sys.executable
    assert ours.environment()["PYTHONPATH"].endswith(":/elsewhere")
    installed = LocalCluster(StartOptions(tmp_path), program=Path("/venv/bin/milena"))
    assert installed.command_line("stop") == [
        "/venv/bin/milena",
        "stop",
        "--data-dir",
        str(tmp_path),
    ]
    assert "PYTHONPATH" not in installed.environment()


def test_without_a_cluster_orders_are_refused_and_closing_removes_the_directory(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "var"
    directory.mkdir()
    cluster = LocalCluster(StartOptions(directory))
    with pytest.raises(NotRunning):
        cluster.stop()
    with pytest.raises(NotRunning):
        cluster.kill(1)
    cluster.close()
    assert not directory.exists()
