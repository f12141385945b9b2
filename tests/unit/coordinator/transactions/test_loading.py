"""What the next leader makes of the records of a partition, also of bad ones."""

import pytest

from cluster.coordinator.transactions.loading import MARKED_PER_STEP
from cluster.coordinator.transactions.records import transaction_key, transaction_value
from cluster.coordinator.transactions.requests import CountOpen, ListTransactions
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.clocks import WallMs
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    TIMEOUT_MS,
    V1,
    WALL_MS,
    TransactionStage,
)

Record = tuple[bytes | None, bytes | None]


def a_record(
    name: str = ID, epoch: int = 0, state: TransactionState = TransactionState.EMPTY
) -> Record:
    partitions = frozenset({P0, P1}) if state.is_preparing else frozenset()
    stored = StoredTransaction(
        7, epoch, TIMEOUT_MS, state, partitions, WallMs(WALL_MS), WallMs(WALL_MS)
    )
    return transaction_key(name), transaction_value(stored)


def test_the_last_one_of_records_with_the_same_key_counts() -> None:
    stage = TransactionStage().loaded([a_record(epoch=1), a_record("another"), a_record(epoch=4)])
    assert stage.producer() == (7, 5)
    assert stage.producer("another") == (7, 1)
    assert stage.shard.load_report.loaded == {"transactions": 3}


def test_oldest_open_transaction_is_known_after_loading() -> None:
    def begun(name: str, start_ms: int) -> Record:
        stored = StoredTransaction(
            7,
            0,
            TIMEOUT_MS,
            TransactionState.ONGOING,
            frozenset({P0}),
            WallMs(WALL_MS),
            WallMs(start_ms),
        )
        return transaction_key(name), transaction_value(stored)

    stage = TransactionStage().loaded([begun("later", WALL_MS - 10), begun("first", WALL_MS - 20)])
    assert stage.ask(CountOpen()) == (2, WALL_MS - 20)


def test_a_tombstone_removes_the_id() -> None:
    key, _ = a_record()
    stage = TransactionStage().loaded([a_record(), (key, None), (transaction_key("x"), None)])
    assert stage.described() is None
    assert stage.shard.load_report.loaded == {"transactions": 1, "tombstones": 2}
    stage = TransactionStage().loaded([a_record(), (key, None), a_record(epoch=3)])
    assert stage.producer() == (7, 4)


BAD: list[Record] = [
    (None, b"value"),
    (None, None),
    (b"", b"value"),
    (b"\0\0\0\1\xff", b"value"),
    (transaction_key(ID), b""),
    (transaction_key(ID), b"\0\1"),
    (transaction_key("new"), a_record()[1][:-3] if a_record()[1] else b""),
    a_record("dead", state=TransactionState.DEAD),
    a_record("fence", state=TransactionState.PREPARE_EPOCH_FENCE),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_corrupt_record_is_counted_and_ignored(bad: Record) -> None:
    stage = TransactionStage().loaded([a_record(epoch=3), bad, a_record("another")])
    report = stage.shard.load_report
    assert (report.corrupt.total(), report.unknown.total(), report.records) == (1, 0, 3)
    assert stage.producer() == (7, 4)
    assert stage.producer("another") == (7, 1)


@pytest.mark.parametrize(
    "unknown",
    [(b"\0\1newer", b"value"), (b"\0\1newer", None), (transaction_key("new"), b"\0\2value")],
)
def test_a_record_of_a_newer_broker_is_counted_and_ignored(unknown: Record) -> None:
    stage = TransactionStage().loaded([a_record(epoch=3), unknown])
    report = stage.shard.load_report
    assert (report.corrupt.total(), report.unknown.total()) == (0, 1)
    assert stage.producer() == (7, 4)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_markers_of_a_stored_outcome_are_written_again(is_commit: bool) -> None:
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    stage = TransactionStage(coordinator_epoch=9).loaded([a_record(epoch=5, state=state)])
    (message,) = stage.sent
    assert message == (ID, (7, 5), 9, is_commit, {P0, P1})
    token = stage.init()
    stage.mark(P0)
    assert stage.error(token) is None
    stage.mark(P1)
    assert stage.producer_in(token) == (7, 6)


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_an_outcome_without_partitions_is_completed(state: TransactionState) -> None:
    stage = TransactionStage().loaded_with(**{ID: StoredTransaction(7, 5, TIMEOUT_MS, state)})
    assert stage.sent == []
    assert stage.state().is_idle


def test_only_the_markers_of_the_last_transaction_are_written_again() -> None:
    records = [
        a_record(state=TransactionState.PREPARE_COMMIT),
        a_record(state=TransactionState.COMPLETE_COMMIT),
        a_record(state=TransactionState.PREPARE_ABORT),
    ]
    stage = TransactionStage().loaded(records)
    assert [message.is_commit for message in stage.sent] == [False]


def test_an_open_transaction_goes_on() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, P0, version=V1)
    stage = stage.reloaded()
    assert stage.verify(producer, P0) == [NONE]
    assert stage.error(stage.add(producer, P1, version=V1)) is NONE
    assert stage.error(stage.end(producer, version=V1)) is NONE
    assert stage.sent[0].partitions == {P0, P1}
    assert stage.sent[0].coordinator_epoch == 4


def test_many_ids_are_loaded() -> None:
    """And only their newest records are kept."""
    count = 20_000
    stage = TransactionStage()
    for epoch in range(2):
        for number in range(count):
            stage.shard.replay(*a_record(f"{ID}-{number}", epoch))
    stage.finish_loading()
    assert stage.in_flight == []
    assert stage.shard.load_report.records == 2 * count
    assert stage.producer(f"{ID}-{count - 1}") == (7, 2)


def test_transactions_that_end_are_resumed_in_steps_and_requests_may_come_in_between() -> None:
    count = 3 * MARKED_PER_STEP
    stage = TransactionStage()
    for number in range(count):
        ending = a_stored(number, TransactionState.PREPARE_COMMIT, start_ms=count - number)
        name = f"{ID}-{number}"
        stage.shard.replay(transaction_key(name), transaction_value(ending))
    list(stage.shard.finishing_steps())
    stage.perform(stage.shard.on_loaded(stage.now))
    assert stage.sent == []
    steps = stage.shard.resuming_steps(lambda: stage.now)
    stage.perform(next(steps))
    assert len(stage.sent) == MARKED_PER_STEP
    assert stage.sent[0].transactional_id == f"{ID}-{count - 1}", "the oldest"
    described = stage.described(f"{ID}-0")
    assert described is not None
    assert described.partitions == {P0}, "its marker was not sent yet"
    waiting = stage.init(f"{ID}-0")
    assert stage.error(waiting) is None
    for effects in steps:
        stage.perform(effects)
    assert len({each.transactional_id for each in stage.sent}) == len(stage.sent) == count
    stage.mark_all()
    assert stage.error(waiting) is NONE


def test_a_shard_that_is_unloaded_sends_no_more_markers() -> None:
    stage = TransactionStage()
    for number in range(2 * MARKED_PER_STEP):
        ending = a_stored(number, TransactionState.PREPARE_COMMIT)
        stage.shard.replay(transaction_key(f"{ID}-{number}"), transaction_value(ending))
    list(stage.shard.finishing_steps())
    stage.perform(stage.shard.on_loaded(stage.now))
    steps = stage.shard.resuming_steps(lambda: stage.now)
    stage.perform(next(steps))
    stage.unload()
    assert [effects.messages for effects in steps] == [()]
    assert len(stage.sent) == MARKED_PER_STEP


def test_open_transactions_are_found_in_steps_in_the_order_in_which_they_began() -> None:
    count = 1_200
    stage = TransactionStage()
    for number in range(count):
        begun = a_stored(number, TransactionState.ONGOING, start_ms=number * 7 % count)
        stage.shard.replay(transaction_key(f"{ID}-{number}"), transaction_value(begun))
    assert len(list(stage.shard.finishing_steps())) == 3 + 2
    stage.perform(stage.shard.on_loaded(stage.now))
    found = [
        each.start_ms
        for piece in stage.ask(ListTransactions(frozenset({TransactionState.ONGOING})))
        for each in piece
    ]
    assert found == sorted(found)
    assert len(found) == count


def a_stored(number: int, state: TransactionState, start_ms: int = WALL_MS) -> StoredTransaction:
    return StoredTransaction(
        *(number, 3, 600_000_000, state, frozenset({P0})), WallMs(WALL_MS), WallMs(start_ms)
    )
