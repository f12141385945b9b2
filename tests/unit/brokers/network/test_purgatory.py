"""Delayed operations: completed by a key, expired, or dropped."""

import pytest

from cluster.brokers.network.purgatory import Purgatory
from cluster.runtime.loop import EventLoop
from tests.support.fake_clock import FakeClock


class Waiting:
    """Completes when told to; records its calls."""

    kind = "Produce"

    def __init__(self) -> None:
        self.can_complete = False
        self.tries = 0
        self.expired = 0

    def try_complete(self) -> bool:
        self.tries += 1
        return self.can_complete

    def expire(self) -> None:
        self.expired += 1


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.purgatory = Purgatory(self.loop.call_at, self.loop.time)

    def pass_time(self, duration_ms: int) -> None:
        self.clock.pass_time(duration_ms)
        self.loop.run_once(max_wait_ms=0)


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.loop.close()


def test_a_check_of_any_key_completes_the_operation_once(stage):
    operation = Waiting()
    stage.purgatory.park(operation, ["a", "b"], stage.clock.now_ms + 100)
    stage.purgatory.check("a")
    assert (operation.tries, len(stage.purgatory)) == (1, 2)
    assert stage.purgatory.size_by_kind["Produce"] == 2
    operation.can_complete = True
    stage.purgatory.check("b")
    stage.purgatory.check("a")
    assert operation.tries == 2
    assert len(stage.purgatory) == 0
    stage.pass_time(200)
    assert operation.expired == 0


def test_the_deadline_expires_an_operation_once(stage):
    operation = Waiting()
    stage.purgatory.park(operation, ["a"], stage.clock.now_ms + 100)
    stage.pass_time(99)
    assert operation.expired == 0
    stage.pass_time(1)
    assert operation.expired == 1
    stage.purgatory.check("a")
    stage.pass_time(1_000)
    assert (operation.tries, operation.expired) == (0, 1)
    assert not stage.purgatory.is_watched("a")


def test_a_dropped_operation_is_neither_asked_nor_expired(stage):
    operation = Waiting()
    operation.can_complete = True
    parked = stage.purgatory.park(operation, ["a"], stage.clock.now_ms + 100)
    parked.drop()
    parked.drop()
    parked.attempt()
    stage.purgatory.check("a")
    stage.pass_time(200)
    assert (operation.tries, operation.expired) == (0, 0)
    assert len(stage.purgatory) == 0


def test_a_key_without_operations_is_not_watched(stage):
    stage.purgatory.check("a")
    stage.purgatory.park(Waiting(), ["b"], stage.clock.now_ms + 100)
    assert stage.purgatory.is_watched("b")
    assert not stage.purgatory.is_watched("a")


def test_the_same_key_twice_is_one_watch(stage):
    operation = Waiting()
    stage.purgatory.park(operation, ["a", "a"], stage.clock.now_ms + 100)
    stage.purgatory.check("a")
    assert operation.tries == 1
    operation.can_complete = True
    stage.purgatory.check("a")
    assert len(stage.purgatory) == 0


def test_an_operation_without_keys_waits_for_its_deadline(stage):
    operation = Waiting()
    stage.purgatory.park(operation, [], stage.clock.now_ms)
    stage.pass_time(0)
    assert operation.expired == 1


def test_operations_may_come_and_go_while_a_key_is_checked(stage):
    purgatory = stage.purgatory
    newcomer, neighbor = Waiting(), Waiting()

    class Successor(Waiting):
        def try_complete(self) -> bool:
            purgatory.park(newcomer, ["a"], stage.clock.now_ms + 100)
            parked_neighbor.drop()
            return True

    purgatory.park(Successor(), ["a"], stage.clock.now_ms + 100)
    parked_neighbor = purgatory.park(neighbor, ["a"], stage.clock.now_ms + 100)
    purgatory.check("a")
    assert (newcomer.tries, neighbor.tries) == (0, 0)
    assert len(purgatory) == 1


def test_completed_operations_leave_no_timers_behind(stage):
    for _ in range(20_000):
        operation = Waiting()
        operation.can_complete = True
        stage.purgatory.park(operation, ["a"], stage.clock.now_ms + 500)
        stage.purgatory.check("a")
    assert stage.loop.timer_count < 10_000
