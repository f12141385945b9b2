"""EndTxn: outcomes, markers, the epoch that grows with each transaction, repeated requests."""

import pytest

from cluster.coordinator.transactions.requests import (
    AbortIfLate,
    PartitionsMarked,
    ProducerIdentity,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    P2,
    TIMEOUT_MS,
    V1,
    V2,
    TransactionStage,
)

FENCED, MAPPING = ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping
INVALID = ErrorCode.invalid_txn_state
CONCURRENT = ErrorCode.concurrent_transactions


def an_open_transaction(*, marks: bool = False) -> tuple[TransactionStage, ProducerIdentity]:
    stage = TransactionStage(marks=marks).loaded()
    producer = stage.producer()
    stage.add(producer, P0, P1)
    return stage, producer


def in_the_last_epoch(*, marks: bool = False) -> TransactionStage:
    """Producer 7, with an open transaction."""
    stage = TransactionStage(marks=marks).loaded_with(
        **{ID: StoredTransaction(7, LAST_EPOCH, TIMEOUT_MS)}
    )
    stage.add((7, LAST_EPOCH), P0)
    return stage


# -- outcomes and markers --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_answered_when_it_is_stored_and_completes_with_the_last_marker(
    version: int, is_commit: bool
) -> None:
    stage, producer = an_open_transaction()
    stage.holds_appends = True
    token = stage.end(producer, is_commit=is_commit, version=version)
    assert (stage.error(token), stage.sent) == (None, [])
    stage.settle()
    epoch = producer.epoch + (1 if version == V2 else 0)
    assert stage.producer_in(token) == (producer.producer_id, epoch)
    (message,) = stage.sent
    assert message.producer == (producer.producer_id, epoch)
    assert (message.coordinator_epoch, message.is_commit) == (3, is_commit)
    assert message.partitions == {P0, P1}
    stage.mark(P1)
    assert stage.in_flight == []
    assert stage.state().is_preparing
    stage.mark(P0)
    assert not stage.state().is_preparing
    stage.write_ends()
    stage.settle()
    outcome = "Commit" if is_commit else "Abort"
    assert stage.history()[-2:] == [f"Prepare{outcome}", f"Complete{outcome}"]
    assert stage.stored().partitions == frozenset()


def test_the_epoch_of_older_clients_stays_the_same_over_transactions() -> None:
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    for _ in range(3):
        stage.add(producer, version=V1)
        assert stage.producer_in(stage.end(producer, version=V1)) == producer


def test_a_client_may_change_its_version_between_transactions() -> None:
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    for epoch, version in enumerate((V1, V2, V2, V1, V2)):
        stage.add(producer, version=version)
        producer = stage.producer_in(stage.end(producer, version=version))
        assert producer.epoch == {0: 0, 1: 1, 2: 2, 3: 2, 4: 3}[epoch]


@pytest.mark.parametrize(
    "event",
    [
        PartitionsMarked(ID, ProducerIdentity(1_000, 0), (P0, P1)),
        PartitionsMarked(ID, ProducerIdentity(999, 1), (P0, P1)),
        PartitionsMarked("unknown", ProducerIdentity(1_000, 1), (P0, P1)),
        PartitionsMarked(ID, ProducerIdentity(1_000, 1), (P2,)),
        PartitionsMarked(ID, ProducerIdentity(1_000, 1), (P0,)),
    ],
)
def test_markers_of_other_transactions_complete_nothing(event: PartitionsMarked) -> None:
    stage, producer = an_open_transaction()
    stage.end(producer)
    assert stage.answers[stage.submit(event)] is None
    assert stage.state() is TransactionState.PREPARE_COMMIT
    stage.mark(P0, P1)
    assert stage.state() is TransactionState.COMPLETE_COMMIT
    stage.submit(event)
    stage.write_ends()
    assert stage.history()[-1] == "CompleteCommit"


def test_a_marker_may_be_reported_twice() -> None:
    stage, producer = an_open_transaction()
    stage.end(producer)
    event = PartitionsMarked(ID, ProducerIdentity(1_000, 1), (P0,))
    for _ in range(3):
        stage.submit(event)
    stage.holds_appends = True
    stage.submit(PartitionsMarked(ID, ProducerIdentity(1_000, 1), (P1,)))
    stage.submit(PartitionsMarked(ID, ProducerIdentity(1_000, 1), (P0, P1)))
    stage.write_ends()
    assert len(stage.in_flight) == 1


# -- who may end it --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize(
    ("producer", "version", "expected"),
    [
        ((1_000, 0), V1, FENCED),
        ((1_000, 2), V1, FENCED),
        ((999, 1), V1, MAPPING),
        ((1_000, 0), V2, FENCED),  # it looks like a repetition of an end that was not
        ((1_000, -1), V2, FENCED),
        ((1_000, 2), V2, FENCED),
        ((999, 1), V2, MAPPING),
        ((-1, LAST_EPOCH), V2, MAPPING),
    ],
)
def test_a_producer_that_is_not_the_present_one_ends_nothing(
    producer: tuple[int, int], version: int, expected: ErrorCode, is_commit: bool
) -> None:
    stage = TransactionStage().loaded()
    stage.producer()
    present = stage.producer()
    stage.add(present)
    assert stage.error(stage.end(producer, is_commit=is_commit, version=version)) is expected
    assert stage.state() is TransactionState.ONGOING


def test_an_unknown_transactional_id_has_nothing_to_end() -> None:
    stage = TransactionStage().loaded()
    for version in (V1, V2):
        assert stage.error(stage.end((7, 0), version=version)) is MAPPING


# -- repeated requests -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_repeated_end_has_the_same_answer(version: int, is_commit: bool) -> None:
    stage, producer = an_open_transaction(marks=True)
    first = stage.end(producer, is_commit=is_commit, version=version)
    again = stage.end(producer, is_commit=is_commit, version=version)
    assert stage.producer_in(again) == stage.producer_in(first)
    other = stage.end(producer, is_commit=not is_commit, version=version)
    assert stage.error(other) is INVALID


@pytest.mark.parametrize("version", [V1, V2])
def test_a_repeated_end_has_the_same_answer_from_the_next_leader(version: int) -> None:
    stage, producer = an_open_transaction()
    first = stage.producer_in(stage.end(producer, version=version))
    stage = stage.reloaded(marks=True)
    assert stage.producer_in(stage.end(producer, version=version)) == first
    assert stage.state() is TransactionState.COMPLETE_COMMIT


def test_a_late_end_of_an_earlier_transaction_does_not_end_the_next_one() -> None:
    """KIP-890, part 2."""
    stage, first = an_open_transaction(marks=True)
    second = stage.producer_in(stage.end(first))
    stage.add(second, P2)
    for is_commit in (True, False):
        assert stage.error(stage.end(first, is_commit=is_commit)) is FENCED
    assert stage.state() is TransactionState.ONGOING


def test_an_abort_in_doubt_gives_a_new_epoch_whatever_has_happened() -> None:
    """A client that does not know whether its transaction exists aborts it."""
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    for expected in range(1, 4):
        producer = stage.producer_in(stage.end(producer, is_commit=False))
        assert producer == (1_000, expected)
    stage.write_ends()
    assert stage.history()[-2:] == ["PrepareAbort", "CompleteAbort"]
    assert stage.error(stage.end(producer)) is INVALID


# -- exhausted epochs ------------------------------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_in_the_last_epoch_brings_a_new_producer_id(is_commit: bool) -> None:
    stage = in_the_last_epoch()
    token = stage.end((7, LAST_EPOCH), is_commit=is_commit)
    assert stage.producer_in(token) == (1_000, 0)
    assert stage.sent[0].producer == (7, 32_767), "the old producer id ends the transaction"
    assert stage.stored().next_producer_id == 1_000
    stage.mark_all()
    stage.write_ends()
    stored = stage.stored()
    assert (stored.producer_id, stored.producer_epoch) == (1_000, 0)
    assert (stored.previous_producer_id, stored.next_producer_id) == (7, -1)


@pytest.mark.parametrize("is_marked", [False, True])
@pytest.mark.parametrize("is_reloaded", [False, True])
def test_the_end_in_the_last_epoch_may_be_repeated(is_marked: bool, is_reloaded: bool) -> None:
    stage = in_the_last_epoch()
    stage.end((7, LAST_EPOCH))
    if is_marked:
        stage.mark_all()
    if is_reloaded:
        stage = stage.reloaded()
    again, other = (stage.end((7, LAST_EPOCH), is_commit=is_commit) for is_commit in (True, False))
    stage.mark_all()
    assert stage.producer_in(again) == (1_000, 0)
    assert stage.error(other) is INVALID
    assert next(stage.fresh_ids) == 1_001, "no further producer id was used"


def test_a_producer_may_go_on_with_its_next_id_before_the_markers_are_written() -> None:
    stage = in_the_last_epoch()
    stage.end((7, LAST_EPOCH))
    added, ended = stage.add((1_000, 0), P1), stage.end((1_000, 0), is_commit=False)
    continued = stage.init(expected=(1_000, 0))
    stage.mark_all()
    assert stage.error(added) is NONE
    assert stage.error(ended) is NONE
    stage.mark_all()
    assert stage.producer_in(continued) == (1_000, 1)


def test_a_late_end_of_the_old_producer_id_does_not_end_the_next_transaction() -> None:
    stage = in_the_last_epoch(marks=True)
    stage.end((7, LAST_EPOCH))
    stage.add((1_000, 0), P1)
    for is_commit in (True, False):
        assert stage.error(stage.end((7, LAST_EPOCH), is_commit=is_commit)) is MAPPING
    assert stage.state() is TransactionState.ONGOING


def test_an_older_client_may_end_transactions_in_the_last_epoch_for_ever() -> None:
    stage = in_the_last_epoch(marks=True)
    for _ in range(3):
        assert stage.producer_in(stage.end((7, LAST_EPOCH), version=V1)) == (7, LAST_EPOCH)
        stage.add((7, LAST_EPOCH), version=V1)


def test_the_timeout_in_the_last_epoch_brings_a_new_producer_id() -> None:
    stage = in_the_last_epoch()
    stage.pass_time(TIMEOUT_MS + 20_000)
    assert stage.sent[0].producer == (7, 32_767)
    stage.mark_all()
    stage.write_ends()
    stored = stage.stored()
    assert (stored.producer_id, stored.producer_epoch) == (1_000, 0)
    assert stage.error(stage.end((7, LAST_EPOCH))) is INVALID
    # Its producer may continue (KIP-360).
    assert stage.producer_in(stage.init(expected=(7, LAST_EPOCH))) == (1_000, 0)


def test_a_producer_id_that_is_not_needed_any_more_is_ignored() -> None:
    """The transaction ended, or the id has expired, while it was fetched."""
    stage = in_the_last_epoch(marks=True)
    stage.end((7, LAST_EPOCH))
    for name in (ID, "unknown"):
        assert stage.answers[stage.submit(AbortIfLate(name, 5_555))] is None
    stage.write_ends()
    assert stage.history()[-1] == "CompleteCommit"
    stage.add((1_000, 0))
    stage.submit(AbortIfLate(ID, 5_555))
    assert stage.state() is TransactionState.ONGOING, "this one is not late"


def test_a_transaction_may_end_many_times() -> None:
    """Through a rotation of the producer id, with every answer repeated."""
    stage = TransactionStage(marks=True).loaded_with(
        **{ID: StoredTransaction(7, LAST_EPOCH - 20, TIMEOUT_MS)}
    )
    producer = ProducerIdentity(7, LAST_EPOCH - 20)
    seen = {producer}
    for number in range(40):
        stage.add(producer, P0)
        token = stage.end(producer, is_commit=number % 3 != 0)
        following = stage.producer_in(token)
        again = stage.end(producer, is_commit=number % 3 != 0)
        assert stage.producer_in(again) == following
        assert following not in seen
        seen.add(following)
        producer = following
    assert producer == (1_000, 19)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_replaced_producer_does_not_get_the_epoch_of_an_older_client(is_commit: bool) -> None:
    """Its request looks like a repetition: the older client's transaction has the next epoch."""
    stage = TransactionStage(marks=True).loaded()
    replaced = stage.producer()
    older = stage.producer()
    stage.add(older, version=V1)
    stage.end(older, is_commit=is_commit, version=V1)
    assert older.epoch == replaced.epoch + 1
    assert stage.error(stage.end(replaced, is_commit=is_commit)) is FENCED
