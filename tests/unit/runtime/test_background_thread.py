"""Work on another thread, and work that either of two threads may do."""

import threading
import time
import weakref
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.runtime.background_thread import BackgroundThread, Once, Pace
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


def test_calls_are_run_in_order_and_all_before_the_end() -> None:
    thread = BackgroundThread("test")
    ran: list[int] = []
    for number in range(100):
        thread.do(lambda number=number: ran.append(number))  # type: ignore[misc]
    thread.close()
    assert ran == list(range(100))


def test_calls_that_have_not_begun_can_be_dropped() -> None:
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


def test_close_runs_remaining_calls_at_once_despite_a_small_share() -> None:
    thread = BackgroundThread("test", share=1e-6)
    ran: list[int] = []

    def work(number: int) -> None:
        end_s = time.thread_time() + 0.003
        while time.thread_time() < end_s:
            pass
        ran.append(number)

    for number in range(3):
        thread.do(partial(work, number))
    wait_until(lambda: ran, "the first call")
    thread.close()  # its sleep after the first call would take most of an hour
    assert ran == [0, 1, 2]


@given(
    st.sampled_from([0.1, 0.2, 0.5, 1.0]),
    st.lists(st.floats(0, 0.05, allow_subnormal=False), max_size=50),
)
def test_work_takes_its_share_of_the_time_and_one_rest_more_at_the_most(
    share: float, worked_s: list[float]
) -> None:
    pace = Pace(share)
    rested_s = sum(pace.rest_s(part) for part in worked_s)
    due_s = sum(worked_s) * (1 / share - 1)
    assert due_s - 0.002 * (1 / share - 1) - 1e-9 <= rested_s <= due_s + 1e-9


def test_work_is_done_once_and_a_second_caller_waits_for_it() -> None:
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


def test_a_call_that_was_made_is_let_go_of_before_the_next_one() -> None:
    class Held:
        def call(self) -> None:
            made.set()

    thread, made = BackgroundThread("test"), threading.Event()
    held = Held()
    let_go = weakref.ref(held)
    thread.do(held.call)
    del held
    assert made.wait(30)
    wait_until(lambda: let_go() is None, "it to be let go of")
    thread.close()
