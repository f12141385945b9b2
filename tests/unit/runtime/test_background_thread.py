"""Work on another thread, and work that two threads may come to first."""

import threading

import pytest

from cluster.runtime.background_thread import BackgroundThread, Once

DEADLINE_S = 60.0


def test_calls_are_run_in_order_and_all_before_the_end() -> None:
    thread = BackgroundThread("test")
    ran: list[int] = []
    for number in range(100):
        thread.do(lambda number=number: ran.append(number))  # type: ignore[misc]
    thread.close()
    assert ran == list(range(100))


def test_what_has_not_begun_can_be_dropped() -> None:
    thread = BackgroundThread("test")
    begun, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def first() -> None:
        begun.set()
        assert go_on.wait(DEADLINE_S)
        ran.append(1)

    thread.do(first)
    thread.do(lambda: ran.append(2))
    assert begun.wait(DEADLINE_S)
    threading.Timer(0.05, go_on.set).start()
    thread.close(drop=True)
    assert ran == [1]


def test_work_is_done_once_and_whoever_comes_second_waits_for_it() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def act() -> None:
        begun.set()
        assert go_on.wait(DEADLINE_S)
        done.append(1)

    once = Once(act)
    thread = BackgroundThread("test")
    thread.do(once.run)
    assert begun.wait(DEADLINE_S)
    threading.Timer(0.05, go_on.set).start()
    once.run()
    assert done == [1]
    assert not once.cancel()
    thread.close()


def test_work_that_failed_is_tried_again() -> None:
    outcomes = [OSError("first"), None]

    def act() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    once = Once(act)
    with pytest.raises(OSError, match="first"):
        once.run()
    once.run()
    assert outcomes == []


def test_cancelled_work_is_not_done() -> None:
    done: list[int] = []
    once = Once(lambda: done.append(1))
    assert once.cancel()
    once.run()
    assert done == []
