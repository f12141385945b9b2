"""The command line, as a person uses it: start, look, kill, restart, stop, purge."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0


class CommandLine:
    """`bin/cluster` for one data directory, without the launcher's shell."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "cluster", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "MILENA_DATA_DIR": str(self.data_dir)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self("start", "--detach", "--port", "0", "--registry-port", "0", *words)

    def status(self) -> dict:
        return json.loads(self("status", "--json").stdout)


@pytest.fixture
def cluster(tmp_path):
    command_line = CommandLine(tmp_path / "data")
    yield command_line
    command_line("stop", "--purge")


def test_a_cluster_from_start_to_purge(cluster):
    started = cluster.start("--brokers", "2")
    assert started.returncode == 0, started.stderr
    assert started.stdout.splitlines()[-1].startswith("Cluster ready in ")

    state = cluster.status()
    assert state["cluster_id"]
    assert state["controller"] in (0, 1)
    assert [broker["state"] for broker in state["brokers"]] == ["running", "running"]
    assert f"BOOTSTRAP={state['bootstrap']}" in started.stdout
    assert Path(state["data_dir"]) == cluster.data_dir

    again = cluster.start()
    assert again.returncode == 0
    assert again.stdout.startswith("Cluster is already running.")
    assert cluster.start("--brokers", "5").returncode == 1

    pid = state["brokers"][1]["pid"]
    killed = cluster("kill", "1", "--stay-down")
    assert f"Broker 1 (pid {pid}) was sent SIGKILL." in killed.stdout
    restarted = cluster("restart", "1")
    assert restarted.returncode == 0, restarted.stderr
    assert cluster.status()["brokers"][1]["pid"] not in (pid, None)

    stopped = cluster("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert cluster("status").returncode == 1
    assert cluster("stop").stderr.count("\n") == 1
    assert (cluster.data_dir / "broker-0").is_dir()

    purged = cluster("stop", "--purge")
    assert purged.returncode == 0, purged.stderr
    assert not cluster.data_dir.exists()


def test_a_cluster_whose_supervisor_was_killed_starts_again_at_once(cluster):
    assert cluster.start("--brokers", "2").returncode == 0
    before = cluster.status()
    os.kill(before["supervisor_pid"], signal.SIGKILL)
    began = time.monotonic()
    started = cluster.start()
    assert started.returncode == 0, started.stderr
    assert time.monotonic() - began < 15, "it waited for sessions to time out"
    after = cluster.status()
    assert after["cluster_id"] == before["cluster_id"]
    assert len(after["brokers"]) == 2
    assert cluster("stop", "--purge").returncode == 0


def test_a_broker_that_cannot_start_is_named_and_nothing_stays_behind(cluster):
    (cluster.data_dir / "run").mkdir(parents=True)
    assert cluster.start("--brokers", "1").returncode == 0
    assert cluster("stop").returncode == 0
    meta = cluster.data_dir / "broker-0" / "meta.properties"
    meta.write_text(meta.read_text().replace("broker.id=0", "broker.id=9"))
    started = cluster.start()
    assert started.returncode == 1
    assert started.stderr.startswith("Cannot start: broker 0: ")
    assert cluster("status").returncode == 1
