"""Appends that fail, come late or get lost: what is answered, and what goes on by itself."""

import pytest

from cluster.coordinator.transactions.requests import CountRetried
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.unwritten_ends import DELAY_MS, WRITTEN_PER_TICK
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    V1,
    V2,
    TransactionStage,
)

SHORT = ErrorCode.not_enough_replicas
SHORT_AFTERWARDS = ErrorCode.not_enough_replicas_after_append
UNAVAILABLE = ErrorCode.coordinator_not_available


def prepared(stage: TransactionStage, version: int = V2) -> int:
    """The token of a commit whose record is in flight."""
    producer = stage.producer()
    stage.add(producer, P0, P1, version=version)
    stage.holds_appends = True
    return stage.end(producer, version=version)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (SHORT, UNAVAILABLE),
        (ErrorCode.request_timed_out, UNAVAILABLE),
        (ErrorCode.unknown_topic_or_partition, UNAVAILABLE),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.record_list_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
@pytest.mark.parametrize("version", [V1, V2])
def test_an_outcome_that_cannot_be_stored_has_no_effect(
    error: ErrorCode, answer: ErrorCode, version: int
) -> None:
    stage = TransactionStage().loaded()
    token = prepared(stage, version)
    stage.settle(error)
    assert stage.error(token) is answer
    assert stage.sent == []
    assert stage.state() is TransactionState.ONGOING
    # The client asks again.
    token = stage.end((1_000, 0), version=version)
    stage.settle()
    assert stage.error(token) is NONE
    assert len(stage.sent) == 1


def test_no_marker_is_written_for_an_outcome_that_may_still_get_lost() -> None:
    """The record is in the log of too few replicas: a new leader may not have it."""
    stage = TransactionStage().loaded()
    token = prepared(stage)
    stage.settle(SHORT_AFTERWARDS, is_in_log=True)
    assert stage.error(token) is UNAVAILABLE
    assert stage.sent == []
    # This leader may still decide otherwise; its later record replaces the first one.
    stage.end((1_000, 0), is_commit=False)
    stage.settle()
    (message,) = stage.sent
    assert not message.is_commit
    (message,) = stage.reloaded().sent
    assert not message.is_commit


def test_an_outcome_that_was_stored_after_all_is_found_by_the_next_leader() -> None:
    stage = TransactionStage().loaded()
    prepared(stage)
    stage.settle(SHORT_AFTERWARDS, is_in_log=True)
    stage = stage.reloaded()
    assert stage.sent[0].is_commit
    token = stage.end((1_000, 0))
    stage.mark_all()
    assert stage.producer_in(token) == (1_000, 1)


def test_a_late_append_is_answered_once_and_takes_effect_when_it_is_stored() -> None:
    stage = TransactionStage().loaded()
    token = prepared(stage)
    stage.be_late()
    assert stage.error(token) is UNAVAILABLE
    assert stage.sent == []
    stage.be_late()
    stage.settle()
    assert stage.error(token) is UNAVAILABLE
    assert len(stage.sent) == 1


@pytest.mark.parametrize("is_in_log", [False, True])
@pytest.mark.parametrize("error", [SHORT, SHORT_AFTERWARDS, ErrorCode.kafka_storage_error])
def test_a_completion_that_cannot_be_stored_is_tried_again(
    error: ErrorCode, is_in_log: bool
) -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer)
    stage.end(producer)
    stage.holds_appends = True
    stage.mark(P0)
    stage.write_ends()
    for _ in range(5):
        assert stage.ask(CountRetried()) == 0
        stage.settle(error, is_in_log=is_in_log)
        assert stage.in_flight == []
        assert stage.ask(CountRetried()) == 1
        stage.pass_time(499)
        assert stage.in_flight == []
        stage.pass_time(1)
        assert len(stage.in_flight) == 1
    token = stage.init()
    stage.settle_one()
    assert stage.history()[-1] == "CompleteCommit"
    stage.settle()
    assert stage.error(token) is NONE
    assert len(stage.sent) == 0
    stage.pass_time(9_000)
    assert stage.history()[-2:] == ["CompleteCommit", "Empty"]


@pytest.mark.parametrize("error", [NONE, SHORT])
def test_a_later_record_replaces_the_last_one_of_a_transaction_once_it_is_stored(
    error: ErrorCode,
) -> None:
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    stage.add(producer)
    producer = stage.producer_in(stage.end(producer))
    stage.pass_time(DELAY_MS - 1)
    stage.holds_appends = True
    stage.add(producer)
    stage.pass_time(1)
    assert len(stage.in_flight) == 1, "its outcome is awaited"
    stage.settle(error)
    stage.pass_time(2 * DELAY_MS)
    stage.settle()
    written = "Ongoing" if error is NONE else "CompleteCommit"
    assert stage.history() == ["Empty", "Ongoing", "PrepareCommit", written]


def test_a_last_record_that_failed_is_not_tried_again_once_a_later_one_is_stored() -> None:
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    stage.add(producer)
    producer = stage.producer_in(stage.end(producer))
    stage.holds_appends = True
    stage.write_ends()
    stage.settle(SHORT)
    assert stage.ask(CountRetried()) == 1
    stage.add(producer)
    stage.settle()
    assert stage.ask(CountRetried()) == 0


def test_transactions_are_counted_when_all_their_markers_are_written() -> None:
    stage = TransactionStage().loaded()
    counts = stage.counts
    producer = stage.producer()
    for is_commit in (True, False, True):
        stage.add(producer, P0, P1)
        token = stage.end(producer, is_commit=is_commit)
        before = counts.committed + counts.aborted
        stage.mark(P0)
        assert counts.committed + counts.aborted == before
        stage.mark(P1)
        producer = stage.producer_in(token)
    assert (counts.committed, counts.aborted) == (2, 1)


def test_a_busy_producer_needs_two_records_for_each_transaction() -> None:
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    for _ in range(50):
        stage.add(producer)
        stage.pass_time(DELAY_MS // 3)
        producer = stage.producer_in(stage.end(producer))
        stage.pass_time(DELAY_MS // 2)
    assert stage.history() == ["Empty", *["Ongoing", "PrepareCommit"] * 50]


def test_the_next_leader_writes_the_markers_of_a_transaction_without_its_last_record() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, P0, P1)
    ended = stage.producer_in(stage.end(producer))
    stage.mark(P0, P1)
    assert stage.state() is TransactionState.COMPLETE_COMMIT
    stage = stage.reloaded()
    (message,) = stage.sent
    assert (message.is_commit, message.partitions) == (True, {P0, P1})
    token = stage.add(ended)
    assert stage.error(token) is None
    stage.mark(P0, P1)
    assert stage.error(token) is NONE


def test_the_last_record_is_written_when_later_ones_of_several_ids_fail() -> None:
    stage = TransactionStage(marks=True).loaded()
    names = [f"{ID}-{number}" for number in range(3)]
    producers = {}
    for name in names:
        producer = stage.producer(name)
        stage.add(producer, transactional_id=name)
        producers[name] = stage.producer_in(stage.end(producer, transactional_id=name))
    stage.holds_appends = True
    for name in names[:2]:
        stage.add(producers[name], transactional_id=name)
    stage.write_ends()
    stage.settle(SHORT)
    stage.holds_appends = False
    stage.pass_time(1_000)
    assert [stage.history(name)[-1] for name in names] == ["CompleteCommit"] * 3


def test_the_last_records_of_many_transactions_are_written_in_many_turns() -> None:
    stage = TransactionStage(marks=True).loaded()
    count = 2 * WRITTEN_PER_TICK + 7
    for number in range(count):
        name = f"{ID}-{number}"
        producer = stage.producer(name)
        stage.add(producer, transactional_id=name)
        stage.end(producer, transactional_id=name)
    stage.now_ms += DELAY_MS
    turns = []
    for _ in range(4):
        before = len(stage.log)
        stage.perform(stage.shard.on_tick(stage.now))
        turns.append(len(stage.log) - before)
        stage.now_ms += 1
    assert turns == [WRITTEN_PER_TICK, WRITTEN_PER_TICK, 7, 0]


def test_a_producer_id_that_could_not_be_stored_is_used_by_the_next_request() -> None:
    stage = TransactionStage(holds_appends=True).loaded()
    token = stage.init()
    stage.settle(SHORT)
    assert stage.error(token) is UNAVAILABLE
    token = stage.init()
    stage.settle()
    assert stage.producer_in(token) == (1_000, 0)


def test_a_new_producer_that_could_not_be_stored_does_not_fence_the_one_before() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    stage.init()
    stage.settle(SHORT)
    token = stage.add(producer)
    stage.settle()
    assert stage.error(token) is NONE


def test_an_expired_id_whose_tombstone_cannot_be_stored_stays() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    stage.pass_time(8 * 24 * 3_600_000)
    assert stage.in_flight[0].records[0].value is None
    stage.settle(SHORT)
    assert stage.state() is TransactionState.EMPTY
    token = stage.add(producer)
    stage.settle()
    assert stage.error(token) is NONE


def test_one_append_at_a_time_is_in_flight_for_a_transactional_id() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    for _ in range(10):
        stage.init()
        stage.add(producer)
        stage.end(producer, version=V1)
        assert len(stage.in_flight) == 1


# -- a lost leadership -----------------------------------------------------------------------------


def test_every_request_is_answered_when_the_shard_is_unloaded() -> None:
    stage = TransactionStage(holds_appends=True).loaded()
    tokens = [stage.init(), stage.init(), stage.add((1_000, 0)), stage.end((1_000, 0), version=V1)]
    tokens += [stage.init("another"), stage.end((1_001, 0), transactional_id="another")]
    stage.unload()
    assert stage.error(tokens[0]) is ErrorCode.not_coordinator
    assert all(stage.error(token) is not None for token in tokens)
    assert stage.described() is None
    stage.settle()  # what is reported afterwards changes nothing
    assert stage.sent == []
    for _ in stage.shard.forgetting_steps():
        pass


def test_a_request_that_was_answered_late_is_not_answered_again_by_unloading() -> None:
    stage = TransactionStage(holds_appends=True).loaded()
    token = stage.init()
    stage.be_late()
    assert stage.error(token) is UNAVAILABLE
    stage.unload()
    assert stage.error(token) is UNAVAILABLE


def test_no_markers_are_asked_for_by_a_shard_that_is_unloaded() -> None:
    stage = TransactionStage().loaded()
    prepared(stage)
    stage.unload()
    assert stage.sent == []


def test_memory_is_freed_in_steps_after_unloading() -> None:
    stage = TransactionStage().loaded()
    for number in range(1_200):
        stage.producer(f"{ID}-{number}")
    stage.unload()
    assert len(list(stage.shard.forgetting_steps())) == 3


def test_a_producer_id_that_was_never_given_to_a_client_takes_no_transaction() -> None:
    """Producer ids are easy to guess, and the epoch before the first one is -1."""
    stage = TransactionStage(holds_appends=True).loaded()
    stage.init()
    stage.settle(SHORT)
    for token in (
        stage.add((1_000, -1)),
        stage.end((1_000, -1), is_commit=False),
        stage.end((1_000, -1), is_commit=False, version=V1),
    ):
        assert stage.error(token) is ErrorCode.producer_fenced
    assert stage.in_flight == []
