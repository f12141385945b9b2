"""A cluster ends with the program that holds the other end of the pipe."""

import os

import pytest

from cluster.runtime.clock import SystemClock
from cluster.runtime.lifeline import KEEP, Lifeline
from cluster.runtime.loop import EventLoop


@pytest.mark.parametrize(("told", "removes"), [(b"", True), (KEEP, False)])
def test_the_end_of_the_program_ends_the_cluster(told, removes):
    loop = EventLoop(SystemClock())
    reader, writer = os.pipe()
    lifeline = Lifeline(reader, loop, loop.stop)
    os.write(writer, told)
    assert not lifeline.removes_data
    loop.call_after(0, lambda: os.close(writer))
    loop.run()
    assert lifeline.removes_data is removes
    lifeline.close()
    loop.close()


def test_a_cluster_without_such_a_program_is_not_removed():
    loop = EventLoop(SystemClock())
    lifeline = Lifeline(None, loop, loop.stop)
    lifeline.close_inherited()
    lifeline.close()
    assert not lifeline.removes_data
    loop.close()
