"""Helper processes: messages arrive, and no helper outlives its parent."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from cluster.runtime.clock import SystemClock
from cluster.runtime.helper_process import NICENESS, HelperFailed, HelperProcess
from cluster.runtime.loop import EventLoop
from tests.support.waiting import wait_until

MODULE = "tests.support.echoing_helper"


class Stage:
    def __init__(self) -> None:
        self.loop = EventLoop(SystemClock())
        self.heard: list[Any] = []
        self.ends: list[str] = []
        self.helper = HelperProcess(self.loop, MODULE, self.heard.append, self.ends.append)

    def turn_until(self, condition: Any, what: str) -> None:
        def look() -> bool:
            self.loop.run_once(max_wait_ms=20)
            return bool(condition())

        wait_until(look, what)


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.helper.close()
    assert stage.loop.watched_count == 0
    stage.loop.close()


def test_messages_are_answered_in_order_by_a_process_of_low_priority(stage):
    path = "/tmp/\udcff"  # `os.fsdecode` returns this for a name that is not UTF-8
    for number in range(3):
        stage.helper.send({"do": "echo", "number": number, "path": path})
    stage.turn_until(lambda: len(stage.heard) == 3, "three answers")
    assert [(m["number"], m["path"]) for m in stage.heard] == [(n, path) for n in range(3)]
    assert stage.heard[0]["niceness"] >= min(19, os.nice(0) + NICENESS)


@pytest.mark.slow
def test_a_message_larger_than_the_pipe_goes_both_ways_without_blocking_the_loop(stage):
    text = "x" * 3_000_000
    stage.helper.send({"do": "echo", "text": text})
    stage.helper.send({"do": "echo", "text": "after"})
    stage.turn_until(lambda: len(stage.heard) == 2, "both answers")
    assert [m["text"] for m in stage.heard] == [text, "after"]


def test_printed_output_is_not_taken_for_a_message(stage):
    stage.helper.send({"do": "print"})
    stage.turn_until(lambda: stage.heard, "the answer")
    assert stage.heard == [{"do": "print"}]


@pytest.mark.parametrize(("order", "reason"), [("fail", "ended (3)"), ("die", "ended by signal 9")])
def test_the_end_of_a_helper_is_reported_once(stage, order, reason):
    stage.helper.send({"do": order})
    stage.turn_until(lambda: stage.ends, "the end")
    stage.helper.send({"do": "echo"})
    stage.loop.run_once(max_wait_ms=0)
    assert (stage.ends, stage.heard) == ([reason], [])


def test_close_ends_a_busy_process(stage):
    stage.helper.send({"do": "hang"})
    stage.turn_until(lambda: stage.heard, "the work to begin")
    stage.helper.close()
    assert not psutil.pid_exists(stage.heard[0]["pid"])
    assert stage.ends == []


def test_close_does_not_wait_for_the_end_when_told_so(stage):
    stage.helper.send({"do": "hang"})
    stage.turn_until(lambda: stage.heard, "the work to begin")
    stage.helper.close(waits=False)
    stage.turn_until(lambda: not psutil.pid_exists(stage.heard[0]["pid"]), "its end")
    assert stage.ends == []


PARENT = """
from cluster.runtime.clock import SystemClock
from cluster.runtime.helper_process import HelperProcess
from cluster.runtime.loop import EventLoop
loop = EventLoop(SystemClock())
def on_message(message):
    print(message["pid"], flush=True)
helper = HelperProcess(loop, "tests.support.echoing_helper", on_message, print)
helper.send({"do": "hang"})
loop.run()
"""


def test_process_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()

    def is_gone() -> bool:
        # The new parent may not reap it, so it may be a zombie.
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(is_gone, "the helper to end")


def test_a_helper_that_cannot_be_started_raises_a_one_line_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/interpreter")
    loop = EventLoop(SystemClock())
    with pytest.raises(HelperFailed, match="cannot start"):
        HelperProcess(loop, MODULE, print, print)
    loop.close()
