"""AddPartitionsToTxn, and the question whether partitions are part of a transaction (KIP-890)."""

import pytest

from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.model.clocks import WallMs
from cluster.model.error_codes import ErrorCode
from tests.support.transaction_stage import (
    ID,
    NONE,
    P0,
    P1,
    P2,
    TIMEOUT_MS,
    V1,
    WALL_MS,
    TransactionStage,
)

FENCED, MAPPING = ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping
ABSENT, CONCURRENT = ErrorCode.transaction_abortable, ErrorCode.concurrent_transactions


def test_a_transaction_begins_with_its_first_partitions() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.pass_time(50)
    assert stage.error(stage.add(producer, P0, P1)) is NONE
    found = stage.described()
    assert found is not None
    assert found.state is TransactionState.ONGOING
    assert found.partitions == {P0, P1}
    assert found.start_ms == stage.now.wall_ms
    stage.pass_time(50)
    assert stage.error(stage.add(producer, P2)) is NONE
    later = stage.described()
    assert later is not None
    assert later.partitions == {P0, P1, P2}
    assert later.start_ms == found.start_ms
    assert later.last_update_ms == stage.now.wall_ms


def test_partitions_that_are_there_need_no_record() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, P0, P1)
    assert stage.error(stage.add(producer, P1)) is NONE
    assert stage.history() == ["Empty", "Ongoing"]


def test_partitions_of_the_last_transaction_are_not_part_of_the_next() -> None:
    stage = TransactionStage(marks=True).loaded()
    producer = stage.producer()
    stage.add(producer, P0, version=V1)
    stage.end(producer, version=V1)
    assert stage.verify(producer, P0) == [ABSENT]
    stage.add(producer, P1, version=V1)
    assert stage.verify(producer, P0, P1) == [ABSENT, NONE]


def test_partitions_in_a_completed_record_are_not_part_of_the_next_transaction() -> None:
    """Earlier releases of Kafka write them."""
    stored = StoredTransaction(
        7, 0, TIMEOUT_MS, TransactionState.COMPLETE_COMMIT, frozenset({P0}), WallMs(1), WallMs(1)
    )
    stage = TransactionStage().loaded_with(**{ID: stored})
    stage.add((7, 0), P1)
    assert stage.verify((7, 0), P0, P1) == [ABSENT, NONE]


@pytest.mark.parametrize(
    ("producer", "expected"),
    [((1_000, 0), FENCED), ((1_000, 2), FENCED), ((999, 1), MAPPING), ((-1, -1), MAPPING)],
)
def test_a_producer_that_is_not_the_present_one_is_refused(
    producer: tuple[int, int], expected: ErrorCode
) -> None:
    stage = TransactionStage().loaded()
    stage.producer()
    assert stage.producer() == (1_000, 1)
    assert stage.error(stage.add(producer)) is expected
    assert stage.verify(producer, P0, P1) == [expected, expected]


def test_an_unknown_transactional_id_is_refused() -> None:
    stage = TransactionStage().loaded()
    assert stage.error(stage.add((7, 0))) is MAPPING
    assert stage.verify((7, 0)) == [MAPPING]


def test_a_partition_is_part_of_the_transaction_when_it_is_stored() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    token = stage.add(producer, P0)
    assert stage.error(token) is None
    assert stage.verify(producer, P0) == [ABSENT]
    stage.settle()
    assert stage.error(token) is NONE
    assert stage.verify(producer, P0) == [NONE]


def test_a_partition_that_cannot_be_stored_is_not_part_of_the_transaction() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    token = stage.add(producer, P0)
    stage.settle(ErrorCode.not_enough_replicas)
    assert stage.error(token) is ErrorCode.coordinator_not_available
    assert stage.verify(producer, P0) == [ABSENT]
    assert stage.state() is TransactionState.EMPTY


@pytest.mark.parametrize("is_commit", [True, False])
def test_no_partition_is_confirmed_while_the_transaction_ends(is_commit: bool) -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, P0, version=V1)
    stage.end(producer, is_commit=is_commit, version=V1)
    assert stage.verify(producer, P0) == [CONCURRENT]
    stage.mark_all()
    assert stage.verify(producer, P0) == [ABSENT]


def test_additions_at_a_time_are_stored_one_after_the_other() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    tokens = [stage.add(producer, each) for each in (P0, P1, P2, P1)]
    for number in range(3):
        assert len(stage.in_flight) == 1
        stage.settle_one()
        assert stage.error(tokens[number]) is NONE
    assert stage.error(tokens[3]) is NONE, "it is there already"
    assert stage.stored().partitions == {P0, P1, P2}


def test_the_version_of_the_client_is_stored() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer)
    assert stage.stored().client_version == 2
    stage.add(producer, P1, version=V1)
    assert stage.stored().client_version == V1


def test_a_transaction_without_partitions_ends_at_once() -> None:
    """Kafka's AddPartitionsToTxn may be empty, and begins one."""
    stage = TransactionStage().loaded_with(
        **{
            ID: StoredTransaction(
                7, 0, TIMEOUT_MS, TransactionState.ONGOING, start_ms=WallMs(WALL_MS)
            )
        }
    )
    assert stage.error(stage.end((7, 0))) is NONE
    stage.write_ends()
    assert stage.history() == ["Ongoing", "PrepareCommit", "CompleteCommit"]
