"""Timeouts of transactions and expiry of transactional ids, also of very many."""

from collections.abc import Iterable

import pytest

from cluster.coordinator.transactions.machine import TransactionMachine
from cluster.coordinator.transactions.options import DAY_MS, TransactionOptions
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.sweeps import IDS_PER_TICK, Sweep
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import ID, NONE, P0, P1, V1, V2, WALL_MS, TransactionStage

INTERVAL_MS = TransactionOptions().timeout_check_interval_ms
RARELY = TransactionOptions(timeout_check_interval_ms=DAY_MS)


def open_since(stage: TransactionStage, version: int = V2, timeout_ms: int = 5_000) -> None:
    stage.add(stage.producer(timeout_ms=timeout_ms), P0, version=version)


# -- timeouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
def test_a_transaction_is_aborted_after_its_timeout(version: int) -> None:
    stage = TransactionStage().loaded()
    open_since(stage, version, INTERVAL_MS)
    stage.pass_time(INTERVAL_MS)  # not longer than the timeout
    assert stage.state() is TransactionState.ONGOING
    stage.pass_time(INTERVAL_MS)
    (message,) = stage.sent
    assert (message.producer, message.is_commit) == ((1_000, 1), False)
    assert stage.error(stage.end((1_000, 0), version=V1)) is ErrorCode.producer_fenced
    added = stage.add((1_000, 0), P1)
    stage.mark(P0)
    assert stage.error(added) is ErrorCode.producer_fenced
    assert stage.state() is TransactionState.COMPLETE_ABORT
    stage.pass_time(10 * INTERVAL_MS)
    assert stage.history()[-1] == "CompleteAbort"


def test_a_client_that_commits_after_the_timeout_is_refused() -> None:
    stage = TransactionStage(marks=True).loaded()
    open_since(stage)
    stage.pass_time(INTERVAL_MS)
    assert stage.error(stage.end((1_000, 0))) is ErrorCode.invalid_txn_state


def test_a_client_that_aborts_after_the_timeout_may_go_on() -> None:
    """The abort looks like a repeated one, as in Kafka."""
    stage = TransactionStage(marks=True).loaded()
    open_since(stage)
    stage.pass_time(INTERVAL_MS)
    assert stage.producer_in(stage.end((1_000, 0), is_commit=False)) == (1_000, 1)


def test_the_timeout_begins_with_the_first_partition_and_is_not_prolonged() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer(timeout_ms=INTERVAL_MS + 1_000)
    stage.pass_time(INTERVAL_MS - 500)
    stage.add(producer, P0)
    stage.pass_time(INTERVAL_MS)
    stage.add(producer, P1)
    assert stage.state() is TransactionState.ONGOING
    stage.pass_time(INTERVAL_MS + 500)
    assert stage.state() is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_timeout_during_the_append_of_an_outcome_changes_nothing(is_commit: bool) -> None:
    stage = TransactionStage().loaded()
    open_since(stage)
    stage.holds_appends = True
    token = stage.end((1_000, 0), is_commit=is_commit)
    stage.pass_time(3 * INTERVAL_MS)
    assert len(stage.in_flight) == 1
    stage.settle()
    assert stage.error(token) is NONE
    assert stage.sent[0].is_commit is is_commit


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_comes_during_a_timeout_is_fenced(is_commit: bool) -> None:
    stage = TransactionStage(marks=True).loaded()
    open_since(stage, V1)
    stage.holds_appends = True
    stage.pass_time(INTERVAL_MS)
    token = stage.end((1_000, 0), is_commit=is_commit, version=V1)
    stage.settle()
    assert stage.error(token) is ErrorCode.producer_fenced


def test_a_timeout_that_cannot_be_stored_is_tried_at_the_next_check() -> None:
    stage = TransactionStage().loaded()
    open_since(stage)
    stage.holds_appends = True
    for _ in range(3):
        stage.pass_time(INTERVAL_MS)
        assert len(stage.in_flight) == 1
        stage.settle(ErrorCode.not_enough_replicas)
    stage.pass_time(INTERVAL_MS)
    stage.settle()
    assert stage.sent[0].producer == (1_000, 1), "the epoch grows once"


def test_the_next_leader_continues_with_the_timeout() -> None:
    stage = TransactionStage().loaded()
    open_since(stage, timeout_ms=30_000)
    stage.pass_time(25_000)
    stage = stage.reloaded()
    stage.pass_time(INTERVAL_MS)
    assert stage.state() is TransactionState.PREPARE_ABORT


def test_a_changed_interval_is_used_after_the_next_check() -> None:
    stage = TransactionStage().loaded()
    stage.options = TransactionOptions(timeout_check_interval_ms=300)
    open_since(stage, timeout_ms=100)
    stage.pass_time(INTERVAL_MS)
    assert stage.state() is TransactionState.PREPARE_ABORT
    stage.mark_all()
    stage.add((1_000, 1))
    stage.pass_time(300)
    assert stage.state() is TransactionState.PREPARE_ABORT


# -- expiry ----------------------------------------------------------------------------------------


def test_an_id_expires_when_it_was_not_used_for_long() -> None:
    stage = TransactionStage().loaded()
    stage.producer()
    stage.pass_time(7 * DAY_MS - 1)
    assert stage.described() is not None
    stage.pass_time(TransactionOptions().expiry_check_interval_ms)
    assert stage.described() is None
    assert stage.history() == ["Empty", "tombstone"]
    assert stage.reloaded().described() is None
    assert stage.producer() == (1_001, 0)


def test_an_id_that_is_used_does_not_expire() -> None:
    stage = TransactionStage(RARELY, marks=True).loaded()
    producer = stage.producer()
    for _ in range(3):
        stage.pass_time(6 * DAY_MS)
        stage.add(producer, version=V1)
        stage.end(producer, version=V1)
    assert stage.described() is not None


def test_an_id_does_not_expire_before_its_transaction_is_complete() -> None:
    stage = TransactionStage(RARELY).loaded()
    open_since(stage)
    stage.end((1_000, 0))
    stage.pass_time(30 * DAY_MS)
    assert stage.state() is TransactionState.PREPARE_COMMIT
    stage.mark_all()
    stage.pass_time(8 * DAY_MS)
    assert stage.described() is None


def test_an_id_whose_first_record_was_never_stored_expires() -> None:
    stage = TransactionStage(holds_appends=True).loaded()
    stage.init()
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.described() is not None
    stage.holds_appends = False
    stage.pass_time(DAY_MS)
    assert stage.described() is None


# -- many ids --------------------------------------------------------------------------------------


def loaded_with_many(count: int, state: TransactionState, timeout_ms: int) -> TransactionStage:
    partitions = frozenset({P0}) if state is TransactionState.ONGOING else frozenset()
    return TransactionStage(marks=True).loaded_with(
        **{
            f"{ID}-{number}": StoredTransaction(
                number, 0, timeout_ms, state, partitions, WallMs(WALL_MS), WallMs(WALL_MS)
            )
            for number in range(count)
        }
    )


def test_many_transactions_that_time_out_at_a_time_end_in_many_turns() -> None:
    count = 3 * IDS_PER_TICK + 7
    stage = loaded_with_many(count, TransactionState.ONGOING, 1_000)
    stage.now_ms += INTERVAL_MS
    turns = []
    while (due_ms := stage.shard.next_deadline_ms()) is not None and due_ms <= stage.now_ms:
        before = len(stage.log)
        stage.perform(stage.shard.on_tick(stage.now))
        turns.append(len(stage.log) - before)
    assert turns == [IDS_PER_TICK] * 3 + [7]
    assert {stage.state(f"{ID}-{number}") for number in range(count)} == {
        TransactionState.COMPLETE_ABORT
    }


def test_a_check_for_timeouts_looks_at_open_transactions_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []

    def on_timeout(_self: TransactionMachine, transactional_id: str, _now: Moment) -> None:
        looked_at.append(transactional_id)

    monkeypatch.setattr(TransactionMachine, "on_timeout", on_timeout)
    stage = loaded_with_many(2_000, TransactionState.EMPTY, 1_000)
    for number in (7, 8, 9):
        stage.add((number, 0), transactional_id=f"{ID}-{number}")
    stage.end((8, 0), transactional_id=f"{ID}-8")
    stage.pass_time(INTERVAL_MS)
    assert looked_at == [f"{ID}-7", f"{ID}-9"]
    stage = stage.reloaded(marks=True)
    stage.pass_time(INTERVAL_MS)
    assert looked_at == [f"{ID}-7", f"{ID}-9"] * 2


def test_a_sweep_looks_at_each_id_once_in_an_interval() -> None:
    count, interval_ms = 100_000, 10_000
    known = dict.fromkeys(map(str, range(count)))
    looked_at: list[str] = []
    copies = 0

    def ids() -> Iterable[str]:
        nonlocal copies
        copies += 1
        return known

    def look_at(name: str, _now: Moment) -> None:
        looked_at.append(name)
        known.pop(name)  # what is done may change the collection

    sweep = Sweep(ids, look_at, lambda: interval_ms)
    now = Moment(MonotonicMs(0), WallMs(0))
    assert sweep.due_ms is None
    sweep.work(now)
    sweep.start(now)
    turns = 0
    while (due_ms := sweep.due_ms) is not None and due_ms < 2 * interval_ms:
        now = Moment(due_ms, WallMs(due_ms))
        before = len(looked_at)
        sweep.work(now)
        assert len(looked_at) - before <= IDS_PER_TICK
        turns += 1
    assert looked_at == [str(number) for number in range(count)]
    assert copies == 1
    assert turns == count // IDS_PER_TICK + 1
