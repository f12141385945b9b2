"""Watched descriptors: what is reported, and what it takes to watch, on each kind of poller."""

import select
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from cluster.runtime.loop import READABLE, WRITABLE, EventLoop
from cluster.runtime.readiness import Poller, SelectorPoller
from tests.support.examples import examples
from tests.support.fake_clock import FakeClock

POLLERS = [select.epoll, SelectorPoller]


class CountingPoller:
    """Counts what an event loop asks of a real poller."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self.close = poller.close
        self.changes: list[str] = []
        self.reports = 0

    def register(self, fd: int, events: int, /) -> None:
        self.changes.append("register")
        self._poller.register(fd, events)

    def modify(self, fd: int, events: int, /) -> None:
        self.changes.append("modify")
        self._poller.modify(fd, events)

    def unregister(self, fd: int, /) -> None:
        self.changes.append("unregister")
        self._poller.unregister(fd)

    def poll(self, wait_s: float | None, /) -> list[tuple[int, int]]:
        reported = self._poller.poll(wait_s)
        self.reports += len(reported)
        return reported


class Stage:
    """A loop that watches one end of a connection for READABLE."""

    def __init__(self, kind: type) -> None:
        self.poller = CountingPoller(kind())
        self.loop = EventLoop(FakeClock(), lambda: self.poller)
        self.ours, self.theirs = tcp_pair()
        self.seen: list[int] = []
        self.loop.watch(self.ours, READABLE, self.seen.append)
        self.poller.changes.clear()

    def want(self, events: int) -> None:
        self.loop.rewatch(self.ours, events, self.seen.append)

    def turn(self) -> list[int]:
        """The events of one turn."""
        self.seen.clear()
        self.loop.run_once(max_wait_ms=0)
        return list(self.seen)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()
        self.loop.close()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """A new TCP connection: both ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname())
        return listening.accept()[0], theirs


def reset(connection: socket.socket) -> None:
    """Close a connection so that the other end is told at once that it is lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture(params=POLLERS, ids=["epoll", "selectors"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    stage = Stage(request.param)
    yield stage
    stage.close()


def test_muting_and_unmuting_a_silent_connection_asks_nothing_of_the_poller(stage):
    for _ in range(3):
        stage.want(0)
        assert stage.turn() == []
        stage.want(READABLE)
    assert stage.poller.changes == []
    stage.theirs.send(b"x")
    assert stage.turn() == [READABLE]


def test_a_muted_connection_that_has_news_wakes_the_loop_once(stage):
    stage.want(0)
    stage.theirs.send(b"x")
    for _ in range(3):
        assert stage.turn() == []
    assert (stage.poller.changes, stage.poller.reports) == (["unregister"], 1)
    stage.want(READABLE)
    assert stage.turn() == [READABLE]


@pytest.mark.parametrize("events", [READABLE, WRITABLE, READABLE | WRITABLE])
def test_a_muted_connection_that_is_lost_wakes_the_loop_once_and_is_reported_later(stage, events):
    stage.want(0)
    reset(stage.theirs)
    for _ in range(3):
        assert stage.turn() == []
    assert stage.poller.reports == 1
    stage.want(events)
    assert stage.turn() == [events]
    assert stage.turn() == [events]


def test_a_connection_is_no_longer_reported_as_writable_once_all_is_written(stage):
    stage.want(WRITABLE)
    assert stage.turn() == [WRITABLE]
    reports = stage.poller.reports
    stage.want(READABLE)
    assert stage.turn() == []
    assert stage.poller.reports == reports


def test_readable_bytes_do_not_disturb_who_waits_to_write(stage):
    stage.want(READABLE | WRITABLE)
    stage.want(WRITABLE)
    assert stage.poller.changes == ["modify"]
    stage.theirs.send(b"x")
    assert stage.turn() == [WRITABLE]


def test_a_descriptor_is_watched_once_and_forgotten_once(stage):
    with pytest.raises(KeyError):
        stage.loop.watch(stage.ours, READABLE, stage.seen.append)
    stage.loop.unwatch(stage.ours)
    for forget in (stage.loop.unwatch, lambda one: stage.loop.rewatch(one, 0, stage.seen.append)):
        with pytest.raises(KeyError):
            forget(stage.ours)
    stage.loop.watch(stage.ours, READABLE, stage.seen.append)


def test_a_muted_connection_is_forgotten_whether_it_had_news_or_not(stage):
    for has_news in (False, True):
        stage.want(0)
        if has_news:
            stage.theirs.send(b"x")
        stage.turn()
        stage.loop.unwatch(stage.ours)
        assert stage.loop.watched_count == 0
        stage.loop.watch(stage.ours, WRITABLE, stage.seen.append)
        assert stage.turn() == [WRITABLE]


class WatchedConnections(stateful.RuleBasedStateMachine):
    """Each turn reports what is ready and wanted, whatever was wanted before."""

    kind: type

    def __init__(self) -> None:
        super().__init__()
        self.loop = EventLoop(FakeClock(), self.kind)
        self.pairs = [socket.socketpair() for _ in range(3)]
        self.wanted: dict[int, int] = {}
        self.unread = [0, 0, 0]
        self.ended = [False, False, False]
        self.seen: dict[int, int] = {}

    numbers = st.integers(0, 2)
    events = st.sampled_from([0, READABLE, WRITABLE, READABLE | WRITABLE])

    @stateful.rule(number=numbers, events=events)
    def want(self, number: int, events: int) -> None:
        change = self.loop.rewatch if number in self.wanted else self.loop.watch
        events = events if number in self.wanted else events or READABLE
        change(self.pairs[number][0], events, lambda ready: self.seen.update({number: ready}))
        self.wanted[number] = events

    @stateful.rule(number=numbers)
    def forget(self, number: int) -> None:
        if self.wanted.pop(number, None) is not None:
            self.loop.unwatch(self.pairs[number][0])

    @stateful.rule(number=numbers)
    def send(self, number: int) -> None:
        if not self.ended[number]:
            self.pairs[number][1].send(b"x")
            self.unread[number] += 1

    @stateful.rule(number=numbers)
    def read(self, number: int) -> None:
        if self.unread[number]:
            self.unread[number] -= len(self.pairs[number][0].recv(100))

    @stateful.rule(number=numbers)
    def end(self, number: int) -> None:
        self.pairs[number][1].close()
        self.ended[number] = True

    @stateful.rule()
    def turn(self) -> None:
        self.seen.clear()
        self.loop.run_once(max_wait_ms=0)
        expected = {}
        for number, wanted in self.wanted.items():
            has_input = self.unread[number] > 0 or self.ended[number]
            ready = wanted & (WRITABLE | (READABLE if has_input else 0))
            if ready:
                expected[number] = ready
        assert self.seen == expected

    def teardown(self) -> None:
        for pair in self.pairs:
            for end in pair:
                end.close()
        self.loop.close()


class WatchedByEpoll(WatchedConnections):
    kind = select.epoll


class WatchedBySelectors(WatchedConnections):
    kind = SelectorPoller


TestWatchedByEpoll = WatchedByEpoll.TestCase
TestWatchedByEpoll.settings = examples(100, stateful_step_count=30)
TestWatchedBySelectors = WatchedBySelectors.TestCase
TestWatchedBySelectors.settings = examples(100, stateful_step_count=30)
