"""InitProducerId: new producers, those that continue after an error, fences, exhausted epochs."""

import pytest

from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    TIMEOUT_MS,
    V1,
    V2,
    TransactionStage,
)

FENCED = ErrorCode.producer_fenced
CONCURRENT = ErrorCode.concurrent_transactions


def with_epoch(epoch: int, state: TransactionState = TransactionState.EMPTY) -> TransactionStage:
    """Producer 7 in an epoch."""
    return TransactionStage(marks=True).loaded_with(
        **{ID: StoredTransaction(7, epoch, TIMEOUT_MS, state)}
    )


def test_a_new_transactional_id_gets_a_new_producer_id_and_epoch_0() -> None:
    stage = TransactionStage().loaded()
    assert stage.producer() == (1_000, 0)
    assert stage.producer("another") == (1_001, 0)
    assert stage.producer() == (1_000, 1)
    assert stage.stored().timeout_ms == TIMEOUT_MS


def test_a_new_transactional_id_is_known_only_when_a_producer_id_was_fetched() -> None:
    """The first submission only asks for one, so that an id which is never used needs none."""
    stage = TransactionStage().loaded()
    assert stage.described() is None
    stage.producer()
    assert stage.described() is not None
    assert next(stage.fresh_ids) == 1_001


def test_the_timeout_is_that_of_the_last_producer() -> None:
    stage = TransactionStage().loaded()
    stage.producer(timeout_ms=5)
    stage.producer(timeout_ms=77)
    assert stage.stored().timeout_ms == 77


# -- producers that continue (KIP-360) -------------------------------------------------------------


def test_a_producer_that_continues_gets_the_next_epoch() -> None:
    stage = TransactionStage().loaded()
    stage.producer()
    assert stage.producer_in(stage.init(expected=(1_000, 0))) == (1_000, 1)


def test_a_repeated_request_of_a_producer_that_continues_gets_the_same_epoch() -> None:
    stage = TransactionStage().loaded()
    stage.producer()
    for _ in range(3):
        assert stage.producer_in(stage.init(expected=(1_000, 0))) == (1_000, 1)


def test_a_repeated_request_is_fenced_after_the_coordinator_has_moved() -> None:
    """Records do not contain the epoch before, as in Kafka."""
    stage = TransactionStage().loaded()
    stage.producer()
    stage.init(expected=(1_000, 0))
    stage = stage.reloaded()
    assert stage.error(stage.init(expected=(1_000, 0))) is FENCED


@pytest.mark.parametrize("expected", [(1_000, 0), (1_000, 2), (999, 1)])
def test_a_producer_that_was_replaced_cannot_continue(expected: tuple[int, int]) -> None:
    stage = TransactionStage().loaded()
    stage.producer()
    assert stage.producer() == (1_000, 1)
    assert stage.error(stage.init(expected=expected)) is FENCED
    assert stage.stored().producer_epoch == 1


def test_an_unknown_transactional_id_takes_any_producer_that_continues() -> None:
    """It has expired, and its producer goes on with a new producer id."""
    stage = TransactionStage().loaded()
    assert stage.producer_in(stage.init(expected=(7, 5))) == (1_000, 0)


# -- fences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
def test_a_new_producer_aborts_the_open_transaction_of_the_one_before(version: int) -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, P0, P1, version=version)
    token = stage.init()
    assert stage.error(token) is None
    (message,) = stage.sent
    assert not message.is_commit
    assert (message.producer, message.coordinator_epoch) == ((1_000, 1), 3)
    assert message.partitions == {P0, P1}
    assert stage.error(stage.end(producer, version=V1)) is FENCED
    stage.mark(P0, P1)
    assert stage.producer_in(token) == (1_000, 2)
    assert stage.history() == ["Empty", "Ongoing", "PrepareAbort", "Empty"]


def test_a_producer_that_is_not_the_present_one_does_not_abort_its_transaction() -> None:
    stage = TransactionStage().loaded()
    stage.add(stage.producer())
    assert stage.error(stage.init(expected=(999, 0))) is FENCED
    assert stage.state() is TransactionState.ONGOING


def test_two_producers_at_a_time_both_get_an_epoch_and_the_second_one_is_present() -> None:
    stage = TransactionStage().loaded()
    stage.add(stage.producer())
    tokens = stage.init(), stage.init()
    stage.mark_all()
    assert [stage.producer_in(token) for token in tokens] == [(1_000, 2), (1_000, 3)]
    assert stage.stored().producer_epoch == 3


@pytest.mark.parametrize("error", [ErrorCode.not_enough_replicas, ErrorCode.kafka_storage_error])
def test_a_fence_that_cannot_be_stored_is_answered_with_the_error(error: ErrorCode) -> None:
    stage = TransactionStage(holds_appends=True).loaded()
    token = stage.init()
    stage.settle()
    producer = stage.producer_in(token)
    added = stage.add(producer)
    stage.settle()
    token = stage.init()
    assert len(stage.in_flight) == 1
    stage.settle(error)
    assert stage.error(token) in (
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    )
    assert stage.error(added) is NONE
    assert not stage.in_flight, "tries again only when a client asks"
    for _ in range(3):
        stage.init()
        stage.settle(error)
    # The producer goes on, and the next fence uses the same epoch.
    added = stage.add(producer, P1)
    stage.settle()
    assert stage.error(added) is NONE
    token = stage.init()
    stage.settle()
    (message,) = stage.sent
    assert message.producer == (producer.producer_id, producer.epoch + 1)
    stage.mark_all()
    stage.settle()
    assert stage.producer_in(token) == (producer.producer_id, producer.epoch + 2)
    assert stage.error(stage.end(producer, version=V1)) is FENCED


def test_a_fence_that_takes_long_to_store_is_answered_with_its_outcome() -> None:
    stage = TransactionStage().loaded()
    stage.add(stage.producer())
    stage.holds_appends = True
    token = stage.init()
    stage.pass_time(5_000)
    assert stage.error(token) is None
    stage.settle_one()
    assert stage.error(token) is CONCURRENT, "it has waited long enough"
    assert len(stage.sent) == 1


def test_a_fence_that_is_late_is_answered_once() -> None:
    stage = TransactionStage().loaded()
    stage.add(stage.producer())
    stage.holds_appends = True
    token = stage.init()
    stage.be_late()
    assert stage.error(token) is ErrorCode.coordinator_not_available
    stage.settle()
    assert len(stage.sent) == 1


# -- exhausted epochs ------------------------------------------------------------------------------


def test_a_producer_after_the_last_epoch_gets_a_new_producer_id() -> None:
    stage = with_epoch(LAST_EPOCH)
    assert stage.producer() == (1_000, 0)
    assert stage.stored().previous_producer_id == 7
    assert stage.producer() == (1_000, 1)


def test_the_epoch_before_the_last_is_followed_by_the_last() -> None:
    stage = with_epoch(LAST_EPOCH - 1)
    assert stage.producer() == (7, LAST_EPOCH)


def test_a_producer_that_continues_after_the_last_epoch_may_repeat_its_request() -> None:
    stage = with_epoch(LAST_EPOCH)
    assert stage.producer_in(stage.init(expected=(7, LAST_EPOCH))) == (1_000, 0)
    assert stage.producer_in(stage.init(expected=(7, LAST_EPOCH))) == (1_000, 0)
    assert stage.error(stage.init(expected=(7, LAST_EPOCH - 1))) is FENCED
    assert next(stage.fresh_ids) == 1_001


def test_a_producer_of_an_earlier_epoch_gets_no_new_producer_id() -> None:
    stage = with_epoch(LAST_EPOCH)
    assert stage.error(stage.init(expected=(7, LAST_EPOCH - 1))) is FENCED
    assert stage.stored().producer_id == 7


def test_a_fence_in_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    stage = with_epoch(LAST_EPOCH)
    stage.add((7, LAST_EPOCH))
    stage.marks = False
    token = stage.init()
    assert stage.sent[0].producer == (7, 32_767)
    stage.mark_all()
    assert stage.producer_in(token) == (1_000, 1), "the abort has brought the new producer id"
    assert stage.error(stage.init(expected=(7, LAST_EPOCH))) is FENCED


def test_the_highest_epoch_is_never_exceeded() -> None:
    """Whatever aborts the transaction, and however often it fails."""
    stage = with_epoch(LAST_EPOCH)
    stage.add((7, LAST_EPOCH))
    stage.holds_appends = True
    for _ in range(3):
        stage.init()
        stage.settle(ErrorCode.not_enough_replicas)
    stage.pass_time(TIMEOUT_MS + 20_000)
    stage.settle_one()
    assert stage.stored().producer_epoch == 32_767
    assert stage.stored().producer_id == 7
    stage.write_ends()
    stage.settle()
    stored = stage.stored()
    assert (stored.state, stored.producer_epoch) == (TransactionState.COMPLETE_ABORT, 0)
    assert stored.producer_id >= 1_000
    assert stored.previous_producer_id == 7


def test_a_transaction_does_not_begin_in_the_highest_epoch() -> None:
    stage = with_epoch(32_767, TransactionState.COMPLETE_ABORT)
    assert stage.error(stage.add((7, 32_767))) is FENCED
    assert stage.producer() == (1_000, 0)
