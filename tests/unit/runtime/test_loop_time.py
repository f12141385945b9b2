"""Accounting of the loop thread's CPU time: all of it is charged exactly once."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import READABLE, EventLoop
from cluster.runtime.loop_time import LoopTime, Payer
from tests.support.examples import examples


class Clocks:
    """A monotonic clock and a thread's CPU clock, which stops while the thread is not running."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000
        self.cpu_ns = 700
        self.cpu_reads = 0
        self.time = LoopTime(lambda: self.now_ns, self.read_cpu)
        self.time.begin_turn(self.now_ns)

    def read_cpu(self) -> int:
        self.cpu_reads += 1
        return self.cpu_ns

    def work(self, payer: Payer | None, duration_ns: int, waited_ns: int = 0) -> None:
        """Run a callback of the loop, for a payer or for nobody."""
        if payer is not None:
            self.time.payer = payer
        self.now_ns += duration_ns + waited_ns
        self.cpu_ns += duration_ns
        self.time.switch(self.time.exempt)

    def overhead(self, duration_ns: int) -> None:
        """Spend time outside of callbacks, as a wake-up does."""
        self.cpu_ns += duration_ns
        self.now_ns += duration_ns
        self.time.begin_turn(self.now_ns)


def test_a_payer_that_is_alone_pays_for_the_wake_up_too():
    clocks, payer = Clocks(), Payer()
    clocks.overhead(30_000)
    clocks.work(payer, 50_000)
    clocks.time.settle()
    assert (payer.owed_ns, clocks.time.exempt.owed_ns) == (80_000, 0)
    assert payer.take_us() == 80
    assert payer.owed_ns == 0


def test_time_is_divided_as_the_work_was():
    clocks, one, other = Clocks(), Payer(), Payer()
    clocks.overhead(40_000)
    clocks.work(one, 10_000)
    clocks.work(None, 20_000)
    clocks.work(other, 50_000)
    clocks.time.settle()
    assert (one.owed_ns, other.owed_ns, clocks.time.exempt.owed_ns) == (15_000, 75_000, 30_000)


def test_time_off_the_cpu_is_charged_to_nobody():
    clocks, payer = Clocks(), Payer()
    clocks.work(payer, 10_000, waited_ns=90_000_000)
    clocks.time.settle()
    assert payer.owed_ns == clocks.time.busy_ns == 10_000


def test_shared_time_is_divided_among_payers_with_work():
    clocks, one, other = Clocks(), Payer(), Payer()
    clocks.work(one, 10_000)
    clocks.work(other, 30_000)
    clocks.work(clocks.time.shared, 40_000)
    clocks.time.settle()
    assert (one.owed_ns, other.owed_ns, clocks.time.exempt.owed_ns) == (20_000, 60_000, 0)
    clocks.work(clocks.time.shared, 40_000)
    clocks.time.settle()
    assert (one.owed_ns, other.owed_ns, clocks.time.exempt.owed_ns) == (20_000, 60_000, 40_000)


def test_work_for_another_within_a_callback_is_the_others():
    clocks, asker, waiting = Clocks(), Payer(), Payer()
    clocks.time.payer = asker
    clocks.now_ns += 1_000
    before = clocks.time.switch(waiting)
    clocks.now_ns += 3_000
    clocks.time.switch(before)
    clocks.now_ns += 1_000
    clocks.cpu_ns += 5_000
    clocks.time.settle()
    assert before is asker
    assert (asker.owed_ns, waiting.owed_ns) == (2_000, 3_000)


def test_the_cpu_clock_is_read_once_a_millisecond():
    clocks, payer = Clocks(), Payer()
    reads = clocks.cpu_reads
    for turn in range(100):
        clocks.work(payer, 10_000)
        clocks.time.end_turn(10 + turn // 50)
    assert clocks.cpu_reads - reads == 2
    clocks.time.settle()
    assert payer.owed_ns == 1_000_000


def test_a_closed_payer_is_charged_for_its_remaining_time():
    clocks, known, unknown, charged = Clocks(), Payer(), Payer(), list[int]()
    known.on_closed = charged.append
    for payer in (known, unknown):
        clocks.time.payer = payer
        clocks.time.close(payer)
        clocks.work(payer, 7_000)
    clocks.time.settle()
    assert charged == [7_000]
    assert (known.owed_ns, clocks.time.exempt.owed_ns) == (0, 7_000)
    clocks.work(None, 5_000)
    clocks.time.settle()
    assert charged == [7_000]


pieces = st.lists(
    st.tuples(
        st.sampled_from(["one", "other", "shared", "nobody", "settle", "wake"]),
        st.integers(0, 2_000_000),
        st.integers(0, 5_000_000),
    ),
    max_size=30,
)


@given(pieces)
@examples(100)
def test_all_time_is_given_away_once(history):
    clocks, one, other = Clocks(), Payer(), Payer()
    began_ns = clocks.cpu_ns
    payers = {"one": one, "other": other, "shared": clocks.time.shared, "nobody": None}
    for kind, duration_ns, waited_ns in history:
        if kind == "settle":
            clocks.time.settle()
        elif kind == "wake":
            clocks.overhead(duration_ns)
        else:
            clocks.work(payers[kind], duration_ns, waited_ns)
    clocks.time.settle()
    given_ns = [payer.owed_ns for payer in (one, other, clocks.time.exempt)]
    assert sum(given_ns) == clocks.time.busy_ns == clocks.cpu_ns - began_ns
    assert min(given_ns) >= 0
    assert clocks.time.shared.owed_ns == 0


@pytest.fixture
def loop():
    one = EventLoop(SystemClock())
    yield one
    one.close()


def test_a_loop_gives_all_of_its_threads_time_away(loop):
    """Uses the real clocks: the time of callbacks, deferred calls and timers is charged."""
    clock, payer = SystemClock(), Payer()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")

        def on_ready(_events: int) -> None:
            loop.time.payer = payer
            until_ns = clock.thread_cpu_ns() + 3_000_000
            while clock.thread_cpu_ns() < until_ns:
                pass
            loop.defer(lambda: None)

        loop.watch(ours, READABLE, on_ready)
        loop.run_once(0)
        began_ns = clock.thread_cpu_ns()
        for _ in range(5):
            loop.run_once(0)
        loop.time.settle()
        used_ns = clock.thread_cpu_ns() - began_ns
        loop.unwatch(ours)
    assert payer.owed_ns >= 15_000_000
    assert payer.owed_ns + loop.time.exempt.owed_ns == loop.time.busy_ns >= used_ns * 0.95
