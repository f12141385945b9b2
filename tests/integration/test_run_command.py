"""`run`: a command with a cluster of its own, which is gone afterwards."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
CLUSTER = [sys.executable, "-P", "-m", "cluster"]
TOOL = f"{sys.executable} -P -m cluster"


class Run:
    """`run` with a single broker, and a data directory below that of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*CLUSTER, "run", "--brokers", "1", "--data-dir", str(self.data_dir), *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "MILENA_DATA_DIR": "/nowhere"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> tuple[int, str, str]:
        process = self.begin(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    if made.data_dir.exists():
        purge = [*CLUSTER, "--data-dir", str(made.data_dir), "stop", "--purge"]
        subprocess.run(purge, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)


def test_command_finds_its_cluster_which_is_removed_afterwards(run: Run) -> None:
    script = (
        "echo $MILENA_DATA_DIR $BOOTSTRAP_SERVERS;"
        f" {TOOL} topics --create --topic t --partitions 1 >&2; {TOOL} topics --list"
    )
    status, out, err = run("--", "sh", "-ec", script)
    assert status == 0, err
    first, *topics = out.splitlines()
    data_dir, bootstrap = first.split()
    assert data_dir == str(run.data_dir)
    assert bootstrap.startswith("127.0.0.1:")
    assert "t" in topics
    assert err.startswith(f"BOOTSTRAP_SERVERS={bootstrap}, data in ")
    assert not run.data_dir.exists()


def test_failed_command_leaves_the_logs_only(run: Run) -> None:
    status, out, err = run("--", "sh", "-c", "exit 3")
    assert (status, out) == (3, "")
    assert f"The command ended with status 3. Logs stay in {run.data_dir / 'logs'}\n" in err
    assert [each.name for each in run.data_dir.iterdir()] == ["logs"]
    assert "broker-0.log" in {each.name for each in (run.data_dir / "logs").iterdir()}


def test_cluster_that_does_not_start_leaves_the_reason(run: Run) -> None:
    run.data_dir.mkdir()
    fails = ("--override", f"ssl.keystore.location={run.folder}/nothing")
    status, out, err = run("--override", "listeners=SSL://127.0.0.1:0", *fails, "--", "true")
    assert (status, out) == (1, ""), err
    assert "error: the cluster did not start: " in err
    assert f"Logs stay in {run.data_dir / 'logs'}\n" in err
    assert [each.name for each in run.data_dir.iterdir()] == ["logs"]
    assert "nothing" in (run.data_dir / "logs" / "broker-0.log").read_text()


def test_kept_data_start_again(run: Run) -> None:
    create = f"{TOOL} topics --create --topic t --partitions 1"
    status, _, err = run("--keep", "--", "sh", "-c", f"{create}; kill -9 $$")
    assert status == 128 + 9, err
    assert f"Data stays in {run.data_dir}: " in err
    again = subprocess.run(
        [*CLUSTER, "--data-dir", str(run.data_dir), "start", "--detach"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    first = err.splitlines()[0].partition(",")[0]
    assert f"\n{first.replace('_SERVERS', '')}\n" in again.stdout, "the ports stay"


def test_cluster_ends_and_is_removed_when_run_is_killed(run: Run, tmp_path: Path) -> None:
    process = run.begin("--", "sh", "-c", f"echo $$ > {tmp_path / 'pid'}; exec sleep 600")
    pid_file = tmp_path / "pid"
    wait_until(lambda: pid_file.exists() and pid_file.read_text().strip(), "the command")
    state = json.loads((run.data_dir / "cluster.json").read_text())
    assert psutil.pid_exists(state["supervisor_pid"])

    process.kill()
    process.wait()
    try:
        wait_until(lambda: not psutil.pid_exists(state["supervisor_pid"]), "the supervisor's end")
    finally:
        psutil.Process(int(pid_file.read_text())).kill()
        process.communicate()  # the command held the pipes, too
    assert not run.data_dir.exists()


def test_terminated_run_leaves_nothing(run: Run) -> None:
    up = run.folder / "up"
    process = run.begin("--", "sh", "-c", f"touch {up}; exec sleep 600")
    wait_until(up.exists, "the command")
    process.terminate()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "stay" not in err
    assert not run.data_dir.exists()
