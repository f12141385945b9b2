"""A command in the foreground gets signals that its parent gets, and its end is passed on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.runtime.passed_signals import Ended, run_passing_signals
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys
from cluster.runtime.passed_signals import run_passing_signals
print(run_passing_signals(sys.argv[1:], os.environ), flush=True)
"""


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_exit_status_is_that_of_the_command_as_in_a_shell(script, status):
    assert run_passing_signals(["sh", "-c", script], os.environ) == Ended(status, False)


def test_command_has_the_environment_and_no_blocked_signals(tmp_path):
    out = tmp_path / "out"
    script = f"echo $GREETING > {out}; grep SigBlk /proc/self/status >> {out}"
    assert (
        run_passing_signals(["sh", "-c", script], {**os.environ, "GREETING": "hello"}).status == 0
    )
    said, *blocked = out.read_text().splitlines()
    assert said == "hello"
    assert all(int(line.split()[1], 16) == 0 for line in blocked)


def test_command_that_does_not_exist_has_the_status_of_a_shell(tmp_path):
    missing = run_passing_signals([str(tmp_path / "none")], os.environ)
    assert missing.status == 127
    assert missing.problem == f"cannot run {tmp_path / 'none'}: No such file or directory"
    (tmp_path / "text").write_text("hello")
    assert run_passing_signals([str(tmp_path / "text")], os.environ).status == 126


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_is_passed_on_to_the_command(number, tmp_path):
    ready, got = tmp_path / "ready", tmp_path / "got"
    script = (
        f"trap 'echo caught > {got}; exit 7' {number.name[3:]}; echo > {ready};"
        " while :; do sleep 0.05; done"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "sh", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(ready.exists, "the command")
        parent.send_signal(number)
        out, _ = parent.communicate(timeout=30)
    finally:
        parent.kill()
        parent.wait()
    assert got.read_text() == "caught\n"
    assert "status=7, was_interrupted=True" in out
