"""Forking a child: isolation of its signals, its reports, and how it ended."""

import errno
import json
import os
import signal
from pathlib import Path

import pytest

from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.supervisor.plan import ChildSpec
from cluster.supervisor.processes import (
    ChildReport,
    fork_child,
    parse_reports,
    read_reports,
    wait_for,
)
from cluster.supervisor.signal_pipe import SignalPipe
from tests.support.waiting import wait_until


def test_signal_to_a_newly_forked_child_does_not_reach_its_parent(
    tmp_path: Path,
) -> None:
    loop = EventLoop(SystemClock())
    calls: list[int] = []
    signals = SignalPipe(loop, {signal.SIGTERM: lambda: calls.append(signal.SIGTERM)})
    spec = ChildSpec("child", "child", "127.0.0.1", 1, lambda reports: reports.ready({}), None)
    try:
        forked = fork_child(
            spec, tmp_path / "child.log", lambda: os.kill(os.getpid(), signal.SIGTERM)
        )
        how = wait_until(lambda: wait_for(forked.pid), "the child's end")
        assert how == "was killed by SIGTERM"
        assert read_reports(forked.report_fd) is None, "it did not run"
        os.close(forked.report_fd)
        loop.run_once(max_wait_ms=0)
        assert calls == []
        os.kill(os.getpid(), signal.SIGTERM)
        loop.run_once(max_wait_ms=0)
        assert calls == [signal.SIGTERM], "the parent's own signals arrive as before"
    finally:
        signals.close()
        loop.close()


def test_reports_of_readiness_and_failure_are_read_together() -> None:
    text = b'{"ready": {"port": 1}}\n{"failed": "the disk is full"}\n'
    assert parse_reports(text) == [
        ChildReport({"port": 1}, None),
        ChildReport(None, "the disk is full"),
    ]


def test_starting_child_reports_its_progress() -> None:
    progress = RecoveryProgress(1, 2, 3, 4)
    text = json.dumps({"progress": progress.to_json()}).encode() + b"\n"
    assert parse_reports(text) == [ChildReport(None, None, progress)]
    assert parse_reports(b'{"progress": {"bytes_done": 1}}\n{"progress": 3}\n') == []


@pytest.mark.parametrize("text", [b"\xff\x00", b"[1]\n", b"3\n", b'{"ready"', b"[" * 60_000])
def test_malformed_report_is_ignored(text: bytes) -> None:
    assert parse_reports(text + b'\n{"ready": {}}\n') == [ChildReport({}, None)]


def test_empty_open_pipe_does_not_block() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    assert read_reports(reader) == []
    os.close(writer)
    assert read_reports(reader) is None
    os.close(reader)


def test_death_by_an_unnamed_signal_is_described_by_its_number() -> None:
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGRTMIN + 6)
        os._exit(1)
    how = wait_until(lambda: wait_for(pid), "the child's end")
    assert how == f"was killed by signal {signal.SIGRTMIN + 6}"


def test_failed_fork_leaves_no_open_descriptors_or_blocked_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "no room")

    spec = ChildSpec("child", "child", "127.0.0.1", 1, lambda reports: reports.ready({}), None)
    descriptors = set(Path("/proc/self/fd").iterdir())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(BlockingIOError):
        fork_child(spec, tmp_path / "child.log", lambda: None)
    assert set(Path("/proc/self/fd").iterdir()) <= descriptors  # others' garbage may be closed
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
