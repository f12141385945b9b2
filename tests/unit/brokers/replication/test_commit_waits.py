"""Waits for the commit of batches: what a check answers, in which order, and deadlines."""

import gc
import heapq
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.brokers.replication.commit_waits import (
    COMPACT_ABOVE,
    CommitWait,
    CommitWaits,
    WaitingRequest,
)
from cluster.brokers.replication.leader_replica import LeaderReplica
from cluster.brokers.replication.partition import Partition
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import ErrorCode
from cluster.model.ids import LeaderEpoch, Offset, PartitionEpoch
from cluster.runtime.loop_time import LoopTime, Payer
from tests.support.cluster_states import a_partition, a_topic
from tests.support.examples import examples
from tests.support.handler_stage import BROKER, OTHER, HandlerStage

PARTITIONS = 3
TIMED_OUT = ErrorCode.request_timed_out


class Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Request(WaitingRequest):
    """Keeps its outcomes."""

    def __init__(self, name: int, answered: list[int], then: Callable[[], None]) -> None:
        self.name = name
        self.own: list[CommitWait] = []
        self.failures: dict[CommitWait, ErrorCode] = {}
        self._answered = answered
        self._then = then

    def on_failure(self, wait: CommitWait, code: ErrorCode) -> None:
        assert wait not in self.failures
        self.failures[wait] = code

    @property
    def outcomes(self) -> list[ErrorCode]:
        return [self.failures.get(wait, ErrorCode.none) for wait in self.own if wait.is_decided]

    def on_decided(self) -> None:
        self._answered.append(self.name)
        self._then()


class Stage:
    """Waits, a clock, and the partitions of a broker, whose high watermarks are set."""

    def __init__(self, partitions: list[Partition]) -> None:
        self.partitions = partitions
        self.now_ms = 0
        self.timers: list[tuple[int, int, Timer]] = []
        self.started_count = 0
        self.time = LoopTime(lambda: 0, lambda: 0)
        self.waits = CommitWaits(self.call_at, self.time)
        self.answered: list[int] = []
        self.requests: list[Request] = []
        for number in range(len(partitions)):
            self.lead(number, 0)

    def lead(self, number: int, epoch: int, since: int | None = None) -> None:
        partition = self.partitions[number]
        partition.is_offline = False
        partition.min_insync_replicas = 1
        partition.leader_epoch = LeaderEpoch(epoch)
        partition.led_since = LeaderEpoch(epoch if since is None else since)
        both = [BROKER, OTHER]
        partition.leader = LeaderReplica(
            BROKER,
            partition.leader_epoch,
            both,
            both,
            PartitionEpoch(epoch),
            Offset(1_000),
            Offset(0),
            MonotonicMs(0),
        )

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        self.started_count += 1
        timer = Timer(callback)
        heapq.heappush(self.timers, (deadline_ms, self.started_count, timer))
        return timer

    def pass_time(self, until_ms: int) -> None:
        self.now_ms = until_ms
        while self.timers and self.timers[0][0] <= until_ms:
            callback = heapq.heappop(self.timers)[2].callback
            if callback is not None:
                callback()

    def add(
        self,
        *required: tuple[int, int],
        deadline_ms: int = 1_000,
        then: Callable[[], None] = lambda: None,
    ) -> Request:
        """A request that waits for (partition, offset)."""
        request = Request(len(self.requests), self.answered, then)
        self.requests.append(request)
        waits = [CommitWait(self.partitions[number], Offset(end)) for number, end in required]
        request.own = waits
        self.waits.add(request, waits, deadline_ms)
        return request

    def commit(self, number: int, high_watermark: int) -> None:
        leader = self.partitions[number].leader
        assert leader is not None
        leader.high_watermark = Offset(high_watermark)

    def check(self, number: int) -> None:
        self.waits.check(self.partitions[number].id)


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Partition]]:
    directory: Path = tmp_path_factory.mktemp("waits")
    with HandlerStage(directory / "broker") as broker:
        broker.update(a_topic("t", *[a_partition([BROKER, OTHER])] * PARTITIONS))
        yield [broker.partition("t", number) for number in range(PARTITIONS)]


@pytest.fixture
def stage(partitions: list[Partition]) -> Stage:
    return Stage(partitions)


def test_requests_are_answered_from_the_front_as_the_high_watermark_moves(stage: Stage) -> None:
    for end in (1, 2, 3, 4):
        stage.add((0, end))
    stage.commit(0, 2)
    stage.check(0)
    assert stage.answered == [0, 1]
    stage.commit(0, 4)
    stage.check(0)
    assert stage.answered == [0, 1, 2, 3]
    assert stage.waits.size == 0


def test_duplicate_of_an_earlier_batch_is_answered_in_the_order_of_offsets(stage: Stage) -> None:
    for end in (5, 7, 6, 5, 9):
        stage.add((0, end))
    stage.commit(0, 6)
    stage.check(0)
    assert stage.answered == [0, 3, 2]


def test_request_is_answered_once_all_its_partitions_are_committed(stage: Stage) -> None:
    stage.add((0, 1), (1, 1), (2, 1))
    for number, answered in ((2, []), (0, []), (1, [0])):
        stage.commit(number, 1)
        stage.check(number)
        assert stage.answered == answered
        assert stage.waits.size == 2 - [2, 0, 1].index(number)


def test_all_waits_of_a_partition_fail_when_its_leader_is_replaced(stage: Stage) -> None:
    requests = [stage.add((0, end)) for end in (1, 2, 3)]
    stage.commit(0, 1)
    stage.partitions[0].leader = None
    stage.check(0)
    assert stage.answered == [0, 1, 2]
    assert [each.outcomes for each in requests] == [[ErrorCode.not_leader_or_follower]] * 3


def test_waits_go_on_in_the_next_epoch_of_the_same_leader(stage: Stage) -> None:
    old = stage.add((0, 9))
    stage.lead(0, epoch=1, since=0)
    stage.check(0)
    assert old.outcomes == []
    stage.commit(0, 9)
    stage.check(0)
    assert old.outcomes == [ErrorCode.none]


def test_waits_of_an_earlier_leadership_fail_and_those_of_the_new_one_go_on(stage: Stage) -> None:
    old = stage.add((0, 9))
    stage.lead(0, epoch=2)
    new = stage.add((0, 3))
    stage.check(0)
    assert old.outcomes == [ErrorCode.not_leader_or_follower]
    assert new.outcomes == []


def test_check_looks_at_one_request_more_than_it_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    outcome = Partition.produce_outcome

    def count(partition: Partition, required: Offset, epoch: LeaderEpoch) -> ErrorCode | None:
        tried.append(required)
        return outcome(partition, required, epoch)

    for end in range(1, 101):
        stage.add((0, end))
    monkeypatch.setattr(Partition, "produce_outcome", count)
    stage.commit(0, 3)
    stage.check(0)
    assert tried == [1, 2, 3, 4]


def test_unanswered_partitions_time_out_at_the_deadline(stage: Stage) -> None:
    request = stage.add((0, 1), (1, 1), deadline_ms=500)
    stage.commit(0, 1)
    stage.check(0)
    stage.pass_time(499)
    assert stage.answered == []
    stage.pass_time(500)
    assert request.outcomes == [ErrorCode.none, TIMED_OUT]
    assert stage.waits.size == 0


def test_request_that_is_committed_at_its_deadline_succeeds(stage: Stage) -> None:
    request = stage.add((0, 1), deadline_ms=500)
    stage.commit(0, 1)  # nobody has checked it yet
    stage.pass_time(500)
    assert request.outcomes == [ErrorCode.none]


def test_requests_time_out_in_the_order_of_their_deadlines(stage: Stage) -> None:
    for deadline_ms in (300, 100, 200, 100):
        stage.add((0, 1), deadline_ms=deadline_ms)
    for until_ms, answered in ((100, [1, 3]), (250, [1, 3, 2]), (300, [1, 3, 2, 0])):
        stage.pass_time(until_ms)
        assert stage.answered == answered


def test_one_timer_serves_all_requests(stage: Stage) -> None:
    for number in range(1_000):
        stage.add((0, number + 1), deadline_ms=30_000 + number)
        stage.commit(0, number + 1)
        stage.check(0)
    assert stage.started_count == 1
    stage.pass_time(40_000)
    assert len(stage.answered) == 1_000
    assert stage.timers == []


def test_dropped_request_is_not_answered(stage: Stage) -> None:
    dropped, other = stage.add((0, 1), (1, 1)), stage.add((0, 1))
    stage.waits.drop(dropped)
    stage.waits.drop(dropped)
    assert stage.waits.size == 1
    stage.commit(0, 1)
    stage.check(0)
    stage.pass_time(1_000)
    assert dropped.outcomes == []
    assert stage.answered == [other.name]


def test_ended_requests_of_a_partition_that_does_not_advance_are_released(stage: Stage) -> None:
    first = stage.add((0, 1), deadline_ms=1 << 40)
    alive: weakref.WeakSet[Request] = weakref.WeakSet()
    for number in range(20 * COMPACT_ABOVE):
        request = stage.add((0, 2), (1, 1), deadline_ms=1_000 + number)
        request.own = []
        alive.add(request)
        if number % 2:
            stage.waits.drop(request)
        else:
            stage.pass_time(1_000 + number)
        stage.requests.pop()
        del request
    gc.collect()
    assert len(alive) <= 2 * COMPACT_ABOVE + 2
    assert stage.waits.size == 1
    stage.commit(0, 1)
    stage.check(0)
    assert first.outcomes == [ErrorCode.none]


def test_answer_may_bring_the_next_request_of_the_same_partition(stage: Stage) -> None:
    followers: list[Request] = []
    stage.commit(0, 1)
    stage.add((0, 1), then=lambda: followers.append(stage.add((0, 2))))
    stage.check(0)
    assert stage.answered == [0]
    stage.commit(0, 2)
    stage.check(0)
    assert stage.answered == [0, 1]


def test_time_of_an_answer_is_charged_to_its_client(stage: Stage) -> None:
    mine, other = Payer(), Payer()
    paid: list[object] = []
    for payer in (mine, other):
        stage.time.payer = payer
        stage.add((0, 1), then=lambda: paid.append(stage.time.payer))
        stage.add((1, 1), then=lambda: paid.append(stage.time.payer), deadline_ms=10)
    stage.time.payer = stage.time.shared
    stage.commit(0, 1)
    stage.check(0)
    assert stage.time.payer is stage.time.shared
    stage.pass_time(10)
    assert paid == [mine, other, mine, other]


# -- against a plain model -------------------------------------------------------------------------


class Model:
    """Every request is tried at every check."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.waiting: list[Any] = []
        self.ended: dict[int, list[ErrorCode]] = {}

    def add(self, name: int, required: list[tuple[int, int]], deadline_ms: int) -> None:
        waits = [
            SimpleNamespace(
                number=number,
                end=Offset(end),
                epoch=self.stage.partitions[number].leader_epoch,
                code=None,
            )
            for number, end in required
        ]
        self.waiting.append(SimpleNamespace(name=name, waits=waits, deadline_ms=deadline_ms))

    def outcome(self, wait: Any) -> ErrorCode | None:
        return self.stage.partitions[wait.number].produce_outcome(wait.end, wait.epoch)

    def check(self, number: int) -> None:
        for request in list(self.waiting):
            for wait in request.waits:
                if wait.number == number and wait.code is None:
                    wait.code = self.outcome(wait)
            self.end_if_decided(request)

    def pass_time(self, until_ms: int) -> None:
        for request in list(self.waiting):
            if request.deadline_ms <= until_ms:
                for wait in request.waits:
                    if wait.code is None:
                        outcome = self.outcome(wait)
                        wait.code = TIMED_OUT if outcome is None else outcome
                self.end_if_decided(request)

    def end_if_decided(self, request: Any) -> None:
        if all(wait.code is not None for wait in request.waits):
            self.waiting.remove(request)
            self.ended[request.name] = [wait.code for wait in request.waits]

    @property
    def size(self) -> int:
        return sum(wait.code is None for request in self.waiting for wait in request.waits)


NUMBERS = st.integers(0, PARTITIONS - 1)
STEPS = st.one_of(
    st.tuples(
        st.just("add"),
        st.lists(st.tuples(NUMBERS, st.integers(1, 30)), min_size=1, max_size=4),
        st.integers(0, 60),
    ),
    st.tuples(st.just("commit"), NUMBERS, st.integers(1, 4)),
    st.tuples(st.just("check"), NUMBERS, st.just(0)),
    st.tuples(st.just("shrink"), NUMBERS, st.integers(1, 3)),
    st.tuples(st.just("lead"), NUMBERS, st.just(0)),
    st.tuples(st.just("resign"), NUMBERS, st.booleans()),
    st.tuples(st.just("time"), st.integers(1, 20), st.just(0)),
    st.tuples(st.just("drop"), st.integers(0, 100), st.just(0)),
)


@examples(300)
@given(steps=st.lists(STEPS, max_size=60))
def test_outcomes_are_those_of_a_plain_model(partitions: list[Partition], steps: Any) -> None:
    stage = Stage(partitions)
    model = Model(stage)
    for name, first, second in steps:
        if name == "add":
            if any(stage.partitions[number].leader is None for number, _ in first):
                continue  # it would not have been appended
            request = stage.add(*first, deadline_ms=stage.now_ms + second)
            model.add(request.name, first, stage.now_ms + second)
        elif name == "time":
            stage.pass_time(stage.now_ms + first)
            model.pass_time(stage.now_ms)
        elif name == "drop":
            for waiting in model.waiting:
                if waiting.name == first:
                    model.waiting.remove(waiting)
                    stage.waits.drop(stage.requests[first])
                    break
        else:
            partition = stage.partitions[first]
            leader = partition.leader
            if name == "commit" and leader is not None:
                leader.high_watermark = Offset(leader.high_watermark + second)
            elif name == "shrink":
                partition.min_insync_replicas = second
            elif name == "lead":
                stage.lead(first, partition.leader_epoch + 1)
            elif name == "resign":
                partition.leader, partition.is_offline = None, second
            stage.check(first)
            model.check(first)
        got = {
            request.name: request.outcomes
            for request in stage.requests
            if request.name in stage.answered
        }
        assert got == model.ended
        assert stage.waits.size == model.size
    assert len(set(stage.answered)) == len(stage.answered)
