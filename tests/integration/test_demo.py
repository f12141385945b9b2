"""`demo`: from its first step to its last, and interrupted in the middle."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cluster.tools import own_cluster
from cluster.tools.main import main
from cluster.tools.own_cluster import own_directory, remove_cluster, start_on_usual_ports
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
DEADLINE_S = 170.0

Demo = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """Starts demos in a directory of the test; whatever one leaves behind is killed."""
    data_dir = tmp_path / "demo"
    made = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cluster", "--data-dir", str(data_dir), "demo", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        made.append(process)
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()
    for left in processes_of(data_dir):
        left.kill()


def processes_of(data_dir: Path) -> list[psutil.Process]:
    """The cluster of a directory: its processes have their logs there open."""
    found = []
    for process in psutil.process_iter(["open_files", "status"]):
        paths = [Path(each.path) for each in process.info["open_files"] or []]
        is_one = any(path.is_relative_to(data_dir) for path in paths)
        if process.info["status"] != psutil.STATUS_ZOMBIE and is_one:
            found.append(process)
    return found


def read_until(process: subprocess.Popen[str], part: str) -> None:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if part in line:
            return
    pytest.fail(f"no line has {part!r}:\n{''.join(seen)}")


@pytest.mark.slow
def test_demo_runs_in_its_short_form(demo, tmp_path):
    """Kept at its end, so that what it leaves can be looked at; Ctrl-C shows that else all goes."""
    process = demo("--short", "--port", "0", "--keep")
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, out
    dashboard = re.search(r"^DASHBOARD=(\S+)", out, re.MULTILINE)
    assert dashboard
    assert dashboard.start() < out.index("3/6"), "to be watched meanwhile"
    steps = [line for line in out.splitlines() if line.startswith("[")]
    assert [step.split("] ")[1].split()[0] for step in steps] == [f"{n}/6" for n in range(1, 7)]
    assert "Client 'noisy'" in out  # explained while it was throttled
    assert "The quota holds." in out
    assert "✗" not in out
    report = tmp_path / "demo-report.html"
    assert str(report) in out
    assert "noisy" in report.read_text()

    with urllib.request.urlopen(dashboard[1], timeout=10) as page:
        assert page.status == 200
    assert (tmp_path / "demo" / "rollup" / "_meta" / "manifest.json").exists()
    stopping = re.search(r"^The cluster still runs. Stop it: (.+)$", out, re.MULTILINE)
    assert stopping
    words = shlex.split(stopping[1])[1:]
    assert main(words) == 0
    assert not (tmp_path / "demo").exists()
    assert processes_of(tmp_path / "demo") == []


@pytest.mark.parametrize("step", ["2/6", "3/6", "polite alone"])
def test_ctrl_c_at_any_step_leaves_nothing(demo, tmp_path, step):
    process = demo("--short", "--port", "0")
    read_until(process, step)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert out.splitlines()[-1].startswith("Interrupted: ")
    assert "Traceback" not in out
    wait_until(lambda: not processes_of(tmp_path / "demo"), "the cluster to be gone")
    assert not (tmp_path / "demo").exists()


def test_demo_refuses_a_directory_that_is_not_empty(tmp_path, capsys):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    (tmp_path / "precious").write_text("mine")
    try:
        assert main(["--data-dir", str(tmp_path), "demo"]) == 1
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert "is not empty" in capsys.readouterr().err
    assert (tmp_path / "precious").exists()


def test_demo_reports_a_taken_port_in_one_line(demo, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = demo("--short", "--port", str(taken.getsockname()[1]))
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "already in use" in out.splitlines()[-1]
    assert "Traceback" not in out
    assert not (tmp_path / "demo").exists()


def test_demo_replaces_a_port_taken_after_the_check(tmp_path, monkeypatch):
    files = own_directory(tmp_path / "demo")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(own_cluster, "wanted_ports", lambda _port: (0, port))
        try:
            assert start_on_usual_ports(files, None).state()["registry"] != f"127.0.0.1:{port}"
        finally:
            remove_cluster(files)
