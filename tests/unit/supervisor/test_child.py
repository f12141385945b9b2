"""Dialogues with the child state machine: its effects after each event."""

import signal

import pytest

from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.model.event_kinds import EventKind
from cluster.supervisor.child import (
    Child,
    ChildState,
    CloseSession,
    Fork,
    Report,
    RestartPolicy,
    Signal,
    WakeAt,
)

POLICY = RestartPolicy(
    backoff_ms=1_000,
    backoff_max_ms=4_000,
    stable_after_ms=60_000,
    early_deaths_max=4,
    start_timeout_ms=30_000,
    stop_timeout_ms=10_000,
)


def a_running_child(now_ms: MonotonicMs = MonotonicMs(0)) -> Child:
    child = Child(POLICY)
    child.on_start_ordered(now_ms)
    child.on_ready(now_ms)
    return child


def test_child_is_forked_once_and_runs_when_it_reports_ready():
    child = Child(POLICY)
    assert child.on_start_ordered(MonotonicMs(5)) == [Fork(), WakeAt(30_005)]
    assert child.on_start_ordered(MonotonicMs(6)) == []
    assert child.state is ChildState.STARTING
    assert child.on_ready(MonotonicMs(10)) == []
    assert child.state is ChildState.RUNNING


def test_progress_report_restarts_the_start_timeout():
    child = Child(POLICY)
    child.on_start_ordered(MonotonicMs(0))
    assert child.on_progress(MonotonicMs(20_000)) == [WakeAt(50_000)]
    assert child.state is ChildState.RECOVERING
    assert child.is_alive
    assert child.on_wake(MonotonicMs(30_000)) == []
    assert child.on_wake(MonotonicMs(50_000)) == [
        Report("was not ready within 30 s: killing it", EventKind.FAILURE),
        Signal(signal.SIGKILL),
    ]
    assert child.on_ready(MonotonicMs(50_001)) == []
    assert child.state is ChildState.RUNNING
    assert child.on_progress(MonotonicMs(50_002)) == [], "a late report changes nothing"
    assert child.state is ChildState.RUNNING


def test_child_is_stopped_while_it_recovers():
    child = Child(POLICY)
    child.on_start_ordered(MonotonicMs(0))
    child.on_progress(MonotonicMs(10))
    assert Signal(signal.SIGTERM) in child.on_stop_ordered(MonotonicMs(20))
    assert child.on_progress(MonotonicMs(21)) == []
    assert child.on_exited("was killed by SIGTERM", MonotonicMs(30)) == [CloseSession()]
    assert child.state is ChildState.STOPPED


def test_child_is_not_restarted_when_it_was_never_ready():
    child = Child(POLICY)
    child.on_start_ordered(MonotonicMs(0))
    assert child.on_exited("ended with exit status 1", MonotonicMs(10)) == [
        CloseSession(),
        Report("could not start: it ended with exit status 1", EventKind.FAILURE),
    ]
    assert child.state is ChildState.FAILED


def test_dead_child_is_restarted_after_a_back_off():
    child = a_running_child()
    assert child.on_exited("was killed by SIGKILL", MonotonicMs(100)) == [
        CloseSession(),
        Report("was killed by SIGKILL; starting it again in 1 s", EventKind.DEATH),
        WakeAt(1_100),
    ]
    assert child.state is ChildState.BACKING_OFF
    assert child.on_wake(MonotonicMs(1_099)) == []
    assert child.on_wake(MonotonicMs(1_100)) == [Fork(), WakeAt(31_100)]
    assert child.restart_count == 1
    assert child.on_ready(MonotonicMs(1_200)) == [Report("is running again", EventKind.START)]


def test_back_off_doubles_up_to_its_limit_until_the_child_is_given_up():
    child = a_running_child()
    now_ms = 0
    pauses_ms = []
    for _ in range(POLICY.early_deaths_max):
        effects = child.on_exited("died", MonotonicMs(now_ms))
        (wake,) = [effect for effect in effects if isinstance(effect, WakeAt)]
        pauses_ms.append(wake.deadline_ms - now_ms)
        now_ms = wake.deadline_ms
        child.on_wake(MonotonicMs(now_ms))
        child.on_ready(MonotonicMs(now_ms))
    assert pauses_ms == [1_000, 2_000, 4_000, 4_000]
    close, report = child.on_exited("died", MonotonicMs(now_ms))
    assert close == CloseSession()
    assert isinstance(report, Report)
    assert "given up after 5 early deaths" in report.text
    assert child.state is ChildState.FAILED
    assert child.on_restart_ordered(MonotonicMs(now_ms))[0] == Fork()


def test_back_off_is_reset_when_the_child_ran_long_enough():
    child = a_running_child()
    child.on_exited("died", MonotonicMs(0))
    child.on_wake(MonotonicMs(1_000))
    child.on_ready(MonotonicMs(1_000))
    assert child.on_exited("died", MonotonicMs(61_000))[-1] == WakeAt(62_000)


def test_kill_by_command_does_not_count_as_an_early_death():
    child = a_running_child()
    for now_ms in map(MonotonicMs, range(0, 200_000, 2_000)):
        assert child.on_kill_ordered(signal.SIGKILL, stay_down=False, now_ms=now_ms) == [
            Signal(signal.SIGKILL)
        ]
        assert child.on_exited("was killed by SIGKILL", now_ms)[-1] == WakeAt(now_ms + 1_000)
        child.on_wake(MonotonicMs(now_ms + 1_000))
        child.on_ready(MonotonicMs(now_ms + 1_000))


def test_child_is_killed_when_it_is_not_ready_in_time():
    child = Child(POLICY)
    child.on_start_ordered(MonotonicMs(0))
    assert child.on_wake(MonotonicMs(30_000)) == [
        Report("was not ready within 30 s: killing it", EventKind.FAILURE),
        Signal(signal.SIGKILL),
    ]


def test_stop_sends_sigterm_and_kills_after_a_timeout():
    child = a_running_child()
    assert child.on_stop_ordered(MonotonicMs(100)) == [Signal(signal.SIGTERM), WakeAt(10_100)]
    assert child.on_wake(MonotonicMs(10_099)) == []
    assert child.on_wake(MonotonicMs(10_100)) == [
        Report("did not stop within 10 s: killing it", EventKind.FAILURE),
        Signal(signal.SIGKILL),
    ]
    assert child.on_exited("was killed by SIGKILL", MonotonicMs(10_200)) == [CloseSession()]
    assert child.state is ChildState.STOPPED


def test_stopped_child_ignores_earlier_deadlines():
    child = a_running_child()
    child.on_exited("died", MonotonicMs(0))
    assert child.on_stop_ordered(MonotonicMs(10)) == []
    assert child.on_wake(MonotonicMs(1_000)) == []
    assert child.state is ChildState.STOPPED


def test_child_told_to_stay_down_waits_for_a_restart():
    child = a_running_child()
    assert child.on_kill_ordered(signal.SIGKILL, stay_down=True, now_ms=MonotonicMs(0)) == [
        Signal(signal.SIGKILL),
        WakeAt(10_000),
    ]
    assert child.on_exited("was killed by SIGKILL", MonotonicMs(5)) == [CloseSession()]
    assert child.state is ChildState.HELD
    assert child.on_wake(MonotonicMs(10_000)) == []
    assert child.on_restart_ordered(MonotonicMs(20_000)) == [Fork(), WakeAt(50_000)]


def test_child_that_backs_off_can_be_held_down_but_not_signaled():
    child = a_running_child()
    child.on_exited("died", MonotonicMs(0))
    with pytest.raises(UserError, match="is restarting"):
        child.on_kill_ordered(signal.SIGKILL, stay_down=False, now_ms=MonotonicMs(0))
    assert child.on_kill_ordered(signal.SIGKILL, stay_down=True, now_ms=MonotonicMs(0)) == []
    assert child.on_wake(MonotonicMs(1_000)) == []
    assert child.state is ChildState.HELD


def test_restart_stops_and_starts_without_a_back_off():
    child = a_running_child()
    assert child.on_restart_ordered(MonotonicMs(0)) == [Signal(signal.SIGTERM), WakeAt(10_000)]
    assert child.on_exited("ended with exit status 0", MonotonicMs(50)) == [
        CloseSession(),
        Fork(),
        WakeAt(30_050),
    ]
    assert child.state is ChildState.STARTING


def test_paused_child_is_resumed_before_it_is_stopped():
    child = a_running_child()
    child.on_kill_ordered(signal.SIGSTOP, stay_down=False, now_ms=MonotonicMs(0))
    assert child.state is ChildState.PAUSED
    assert child.on_restart_ordered(MonotonicMs(5))[:2] == [
        Signal(signal.SIGCONT),
        Signal(signal.SIGTERM),
    ]


def test_paused_child_runs_after_sigcont():
    child = a_running_child()
    child.on_kill_ordered(signal.SIGSTOP, stay_down=False, now_ms=MonotonicMs(0))
    assert child.on_kill_ordered(signal.SIGCONT, stay_down=False, now_ms=MonotonicMs(1)) == [
        Signal(signal.SIGCONT)
    ]
    assert child.state is ChildState.RUNNING
