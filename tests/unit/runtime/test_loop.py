"""Turns of the event loop: order, timers, calls from other threads; with each kind of poller."""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.runtime import loop as loop_module
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop
from cluster.runtime.readiness import Poller, SelectorPoller
from tests.support.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=[select.epoll, SelectorPoller], ids=["epoll", "selectors"])
def poller(request: pytest.FixtureRequest) -> Callable[[], Poller]:
    return request.param


@pytest.fixture
def loop(clock: FakeClock, poller: Callable[[], Poller]) -> Iterator[EventLoop]:
    loop = EventLoop(clock, poller)
    yield loop
    loop.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def turn(loop: EventLoop) -> None:
    loop.run_once(max_wait_ms=0)


# Descriptors


def test_a_readable_descriptor_calls_its_callback_every_turn_until_it_is_read(loop, pair):
    ours, theirs = pair
    seen: list[int] = []
    loop.watch(ours, READABLE, seen.append)
    turn(loop)
    assert seen == []
    theirs.send(b"x")
    turn(loop)
    turn(loop)
    assert seen == [READABLE, READABLE]
    ours.recv(1)
    turn(loop)
    assert len(seen) == 2


def test_rewatch_changes_the_events_and_unwatch_ends_them(loop, pair):
    ours, _ = pair
    seen: list[int] = []
    loop.watch(ours, READABLE, seen.append)
    loop.rewatch(ours, READABLE | WRITABLE, seen.append)
    turn(loop)
    assert seen == [WRITABLE]
    loop.unwatch(ours)
    turn(loop)
    assert seen == [WRITABLE]


def test_an_unwatched_descriptor_is_not_called_in_the_same_turn_even_when_reused(loop):
    """The end and the last output of a child arrive in one turn, and the next child is forked."""
    pipes = [os.pipe(), os.pipe()]
    calls: list[str] = []
    successors: list[int] = []

    def replace(one: int) -> None:
        calls.append("first")
        other = pipes[1 - one][0]
        loop.unwatch(other)
        os.close(other)
        reader, writer = os.pipe()
        assert reader == other, "the number is given again"
        successors.extend((reader, writer))
        loop.watch(reader, READABLE, lambda _: calls.append("successor"))

    for one, (reader, writer) in enumerate(pipes):
        os.write(writer, b"x")
        loop.watch(reader, READABLE, lambda _, one=one: replace(one))
    turn(loop)
    assert calls == ["first"]
    os.write(successors[1], b"x")
    called = next(reader for reader, _ in pipes if reader != successors[0])
    loop.unwatch(called)
    turn(loop)
    assert calls == ["first", "successor"]
    for number in {called, pipes[0][1], pipes[1][1], *successors}:
        os.close(number)


def test_callbacks_see_the_time_at_which_readiness_was_reported(loop, clock, pair):
    ours, theirs = pair
    seen: list[int] = []
    loop.watch(ours, READABLE, lambda _: seen.append(loop.now_ms))
    theirs.send(b"x")
    clock.pass_time(700)
    turn(loop)
    assert seen == [clock.now_ms]


# Timers


def test_timers_run_in_order_of_their_deadlines_and_not_before(loop, clock):
    ran: list[str] = []
    loop.call_after(20, lambda: ran.append("late"))
    loop.call_after(10, lambda: ran.append("early"))
    loop.call_after(10, lambda: ran.append("early, asked for later"))
    clock.pass_time(9)
    turn(loop)
    assert ran == []
    clock.pass_time(1)
    turn(loop)
    assert ran == ["early", "early, asked for later"]
    clock.pass_time(10)
    turn(loop)
    assert ran[2:] == ["late"]


def test_a_cancelled_timer_does_not_run_even_when_another_of_its_turn_cancels_it(loop, clock):
    ran: list[str] = []
    second = loop.call_at(clock.now_ms + 6, lambda: ran.append("second"))
    loop.call_at(clock.now_ms + 5, second.cancel)
    third = loop.call_at(clock.now_ms + 7, lambda: ran.append("third"))
    third.cancel()
    third.cancel()
    clock.pass_time(10)
    turn(loop)
    assert ran == []


def test_cancelling_after_the_call_ran_is_nothing(loop, clock):
    timer = loop.call_after(1, lambda: None)
    clock.pass_time(1)
    turn(loop)
    timer.cancel()
    timer.cancel()
    assert loop.timer_count == 0


def test_cancelled_timers_do_not_pile_up_and_the_others_still_run(loop, clock):
    ran: list[int] = []
    limit = loop_module.COMPACT_TIMERS_ABOVE
    for number in range(10):
        loop.call_after(1_000 + number, lambda n=number: ran.append(n))
    for _ in range(20 * limit):
        loop.call_after(500, lambda: ran.append(-1)).cancel()
        assert loop.timer_count <= 2 * limit
    clock.pass_time(2_000)
    turn(loop)
    assert ran == list(range(10))
    assert loop.timer_count == 0


def test_a_periodic_call_runs_once_per_turn_however_late_the_turn_is(loop, clock):
    ran: list[int] = []
    loop.call_every(10, lambda: ran.append(clock.now_ms))
    clock.pass_time(1_000)
    turn(loop)
    turn(loop)
    assert len(ran) == 1
    clock.pass_time(10)
    turn(loop)
    assert len(ran) == 2


def test_a_timer_asked_for_by_a_timer_runs_in_its_own_time(loop, clock):
    ran: list[int] = []
    loop.call_after(5, lambda: loop.call_after(5, lambda: ran.append(clock.now_ms)))
    clock.pass_time(5)
    turn(loop)
    assert ran == []
    clock.pass_time(5)
    turn(loop)
    assert ran == [clock.now_ms]


# Deferred and posted calls


def test_deferred_calls_run_at_the_end_of_the_turn_also_those_they_defer(loop, clock):
    ran: list[str] = []

    def deferred() -> None:
        ran.append("deferred")
        loop.defer(lambda: ran.append("deferred by it"))

    loop.call_after(0, lambda: (loop.defer(deferred), ran.append("timer")))
    turn(loop)
    assert ran == ["timer", "deferred", "deferred by it"]


def test_a_call_posted_by_a_posted_call_runs_in_the_next_turn(loop):
    ran: list[int] = []

    def again() -> None:
        ran.append(len(ran))
        if len(ran) < 100:
            loop.call_from_thread(again)

    loop.call_from_thread(again)
    turn(loop)
    assert ran == [0]
    turn(loop)
    assert ran == [0, 1]


def test_a_turn_does_not_wait_while_calls_are_posted_or_deferred(poller):
    loop = EventLoop(SystemClock(), poller)
    ran: list[str] = []
    loop.defer(lambda: ran.append("deferred"))
    loop.run_once()
    loop.call_from_thread(lambda: ran.append("posted"))
    loop.run_once()
    assert ran == ["deferred", "posted"]
    loop.close()


def test_calls_from_another_thread_wake_the_loop_and_stop_ends_it(poller):
    loop = EventLoop(SystemClock(), poller)
    ran: list[int] = []

    def work() -> None:
        for number in range(1_000):
            loop.call_from_thread(lambda n=number: ran.append(n))
        loop.stop()

    thread = threading.Thread(target=work)
    loop.call_from_thread(thread.start)
    loop.run()
    thread.join()
    turn(loop)
    assert ran == list(range(1_000))
    loop.close()


def test_calls_of_several_threads_each_wake_a_sleeping_loop(poller):
    loop = EventLoop(SystemClock(), poller)
    served: list[bool] = []

    def work() -> None:
        for _ in range(500):
            has_run = threading.Event()
            loop.call_from_thread(has_run.set)
            served.append(has_run.wait(20))
            if not served[-1]:
                break

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    stopping = threading.Thread(target=lambda: [*map(threading.Thread.join, threads), loop.stop()])
    stopping.start()
    loop.run()
    stopping.join()
    loop.close()
    assert served == [True] * 1_500


@pytest.mark.slow
def test_more_wake_ups_than_the_pipe_holds_are_not_lost(loop):
    ran: list[int] = []
    for number in range(70_000):
        loop.call_from_thread(lambda n=number: ran.append(n))
    turn(loop)
    assert len(ran) == 70_000


def test_a_stop_before_the_run_is_not_forgotten(loop):
    loop.stop()
    loop.run()


def test_a_callback_that_raises_takes_the_loop_down(loop, clock):
    def broken() -> None:
        raise ZeroDivisionError

    loop.call_after(0, broken)
    with pytest.raises(ZeroDivisionError):
        turn(loop)


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def test_a_closed_loop_releases_its_descriptors(poller):
    before = open_descriptors()
    loop = EventLoop(SystemClock(), poller)
    during = open_descriptors()
    loop.close()
    assert during > before
    assert open_descriptors() == before
