"""DescribeTransactions and ListTransactions: what is told of which transactional ids."""

import pytest

from cluster.coordinator.transactions.records import transaction_key
from cluster.coordinator.transactions.requests import (
    CountOpen,
    DescribedTransaction,
    ListTransactions,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import StoredTransaction
from cluster.coordinator.transactions.views import IDS_PER_PIECE
from cluster.model.clocks import WallMs
from cluster.model.ids import TopicPartition
from tests.support.transaction_stage import ID, P0, P1, TIMEOUT_MS, WALL_MS, TransactionStage

OLD_MS, RECENT_MS = WallMs(WALL_MS - 50_000), WallMs(WALL_MS + 400)
"""The stage's time is 1 s after WALL_MS."""


def stored(
    producer_id: int, state: TransactionState, start_ms: WallMs, *partitions: TopicPartition
) -> StoredTransaction:
    return StoredTransaction(
        producer_id, 3, TIMEOUT_MS, state, frozenset(partitions), WallMs(WALL_MS), start_ms
    )


@pytest.fixture
def stage() -> TransactionStage:
    return TransactionStage().loaded_with(
        empty=stored(1, TransactionState.EMPTY, WallMs(-1)),
        open_long=stored(2, TransactionState.ONGOING, OLD_MS, P0, P1),
        open_now=stored(3, TransactionState.ONGOING, RECENT_MS, P0),
        ending=stored(4, TransactionState.PREPARE_COMMIT, OLD_MS, P1),
        ended=stored(5, TransactionState.COMPLETE_ABORT, OLD_MS),
    )


def listed(stage: TransactionStage, query: ListTransactions) -> list[DescribedTransaction]:
    return [each for piece in stage.ask(query) for each in piece]


EVERY = {"empty", "open_long", "open_now", "ending", "ended"}
ONGOING, PREPARE = TransactionState.ONGOING, TransactionState.PREPARE_COMMIT


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (ListTransactions(), EVERY),
        (ListTransactions(frozenset({ONGOING})), {"open_long", "open_now"}),
        (ListTransactions(frozenset({ONGOING, PREPARE})), {"open_long", "open_now", "ending"}),
        (ListTransactions(frozenset({TransactionState.DEAD})), set()),
        (ListTransactions(producer_ids=frozenset({1, 4, 99})), {"empty", "ending"}),
        (ListTransactions(frozenset({ONGOING}), frozenset({2, 4})), {"open_long"}),
        # Kafka lists by the time since the beginning, whatever happened since.
        (ListTransactions(longer_than_ms=10_000), {"empty", "open_long", "ending", "ended"}),
        (ListTransactions(frozenset({ONGOING}), longer_than_ms=599), {"open_long", "open_now"}),
        (ListTransactions(frozenset({ONGOING}), longer_than_ms=600), {"open_long"}),
        (ListTransactions(longer_than_ms=0), EVERY),
        (ListTransactions(matches=lambda name: name.startswith("en")), {"ending", "ended"}),
        (
            ListTransactions(frozenset({PREPARE}), matches=lambda name: name.startswith("en")),
            {"ending"},
        ),
    ],
)
def test_the_ids_that_fulfil_every_condition_are_listed(
    stage: TransactionStage, query: ListTransactions, expected: set[str]
) -> None:
    found = listed(stage, query)
    assert {each.transactional_id for each in found} == expected
    assert len(found) == len(expected)


def test_open_transactions_are_counted_with_the_age_of_the_oldest(
    stage: TransactionStage,
) -> None:
    assert stage.ask(CountOpen()) == (2, OLD_MS)
    stage.end((2, 3), transactional_id="open_long", version=0)
    assert stage.ask(CountOpen()) == (1, RECENT_MS)
    stage.end((3, 3), transactional_id="open_now", version=0)
    assert stage.ask(CountOpen()) == (0, None)


def test_a_transaction_is_described(stage: TransactionStage) -> None:
    found = stage.described("open_long")
    assert found is not None
    assert found.transactional_id == "open_long"
    assert (found.state, found.producer, found.timeout_ms) == (ONGOING, (2, 3), TIMEOUT_MS)
    assert (found.start_ms, found.last_update_ms) == (OLD_MS, WALL_MS)
    assert found.partitions == {P0, P1}
    assert stage.described("unknown") is None


def test_partitions_without_the_marker_are_described_while_a_transaction_ends() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.add(producer, P0, P1)
    stage.end(producer)
    for marked, left in ((P0, {P1}), (P1, set[TopicPartition]())):
        stage.mark(marked)
        found = stage.described()
        assert found is not None
        assert found.partitions == left


def test_a_transition_is_described_when_it_is_stored() -> None:
    stage = TransactionStage().loaded()
    producer = stage.producer()
    stage.holds_appends = True
    stage.add(producer)
    assert stage.state() is TransactionState.EMPTY
    stage.settle()
    assert stage.state() is ONGOING
    stage.end(producer)
    assert stage.state() is ONGOING
    stage.settle()
    assert stage.state() is PREPARE


def test_open_transactions_are_listed_without_looking_at_the_others() -> None:
    stage = TransactionStage().loaded_with(
        **{
            f"{ID}-{number}": stored(number, TransactionState.EMPTY, WallMs(-1))
            for number in range(2_000)
        }
    )
    stage.add((7, 3), transactional_id=f"{ID}-7")
    asked: list[str] = []
    query = ListTransactions(frozenset({ONGOING}), matches=lambda name: not asked.append(name))
    assert len(listed(stage, query)) == len(asked) == 1


def test_ids_that_change_between_two_pieces_are_listed_once_at_most() -> None:
    stage = TransactionStage().loaded_with(
        **{
            f"{ID}-{number:03}": stored(number, TransactionState.EMPTY, WallMs(-1))
            for number in range(3 * IDS_PER_PIECE)
        }
    )
    pieces = stage.ask(ListTransactions())
    found = next(pieces)
    assert len(found) == IDS_PER_PIECE
    removed, changed, seen = (f"{ID}-{IDS_PER_PIECE + number:03}" for number in (0, 1, -1))
    stage.add((IDS_PER_PIECE + 1, 3), transactional_id=changed)
    stage.add((IDS_PER_PIECE - 1, 3), transactional_id=seen)
    stage.shard.replay(transaction_key(removed), None)
    stage.producer("later")
    for piece in pieces:
        assert len(piece) <= IDS_PER_PIECE
        found += piece
    names = [each.transactional_id for each in found]
    assert len(names) == len(set(names)) == 3 * IDS_PER_PIECE - 1
    assert removed not in names
    states = {each.transactional_id: each.state for each in found}
    assert (states[changed], states[seen]) == (ONGOING, TransactionState.EMPTY)


def test_a_shard_that_is_unloaded_between_two_pieces_lists_no_more() -> None:
    stage = TransactionStage().loaded_with(
        **{
            f"{ID}-{number}": stored(number, TransactionState.EMPTY, WallMs(-1))
            for number in range(2 * IDS_PER_PIECE)
        }
    )
    pieces = stage.ask(ListTransactions())
    assert len(next(pieces)) == IDS_PER_PIECE
    stage.unload()
    assert [*pieces] == [[]]


def test_an_unloaded_shard_lists_nothing(stage: TransactionStage) -> None:
    stage.unload()
    assert listed(stage, ListTransactions()) == []
    assert listed(stage, ListTransactions(frozenset({ONGOING}))) == []
    assert stage.described("empty") is None
