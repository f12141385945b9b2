"""Forking a child: what is sent to it is its own, however early it comes."""

import os
import signal
from pathlib import Path

from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.supervisor.plan import ChildSpec
from cluster.supervisor.processes import fork_child, read_report, wait_for
from cluster.supervisor.signal_pipe import SignalPipe
from tests.support.waiting import wait_until


def test_a_signal_to_a_child_that_has_just_been_forked_does_not_reach_its_parent(
    tmp_path: Path,
) -> None:
    loop = EventLoop(SystemClock())
    calls: list[int] = []
    signals = SignalPipe(loop, {signal.SIGTERM: lambda: calls.append(signal.SIGTERM)})
    spec = ChildSpec("child", "child", "127.0.0.1", 1, lambda ready: ready({}), None)
    try:
        forked = fork_child(
            spec, tmp_path / "child.log", lambda: os.kill(os.getpid(), signal.SIGTERM)
        )
        how = wait_until(lambda: wait_for(forked.pid), "the child's end")
        assert how == "was killed by SIGTERM"
        assert read_report(forked.report_fd) is None, "it did not run"
        os.close(forked.report_fd)
        loop.run_once(max_wait_ms=0)
        assert calls == []
        os.kill(os.getpid(), signal.SIGTERM)
        loop.run_once(max_wait_ms=0)
        assert calls == [signal.SIGTERM], "the parent's own signals arrive as before"
    finally:
        signals.close()
        loop.close()
