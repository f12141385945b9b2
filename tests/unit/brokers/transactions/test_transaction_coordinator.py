"""The coordinator of transactions on a broker: leadership, markers, producer ids."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.shards.partitioner import partition_of
from cluster.coordinator.transactions.records import transaction_key, transaction_value
from cluster.coordinator.transactions.requests import DescribeTransaction
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import LAST_EPOCH, StoredTransaction
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.model.topics import TRANSACTION_STATE_TOPIC
from cluster.protocol.peer.transactions import PartitionErrors, WriteMarkers
from cluster.records.builder import NewRecord, build_batch
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage
from tests.support.transaction_requests import ID

NONE = ErrorCode.none
STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
FAR = TopicPartition("far", 0)
REPLICAS = (BROKER, OTHER)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[HandlerStage]:
    with HandlerStage(tmp_path / "data") as made:
        made.update(a_topic("far", a_partition([OTHER])))
        yield made


def lead(stage: HandlerStage, epoch: int, leader: int = BROKER, partitions: int = 1) -> None:
    """Another leader epoch of every partition, with broker 2 as a follower or leader."""
    state = a_partition(REPLICAS, leader=leader, leader_epoch=epoch, partition_epoch=epoch)
    stage.update(a_topic(TRANSACTION_STATE_TOPIC, *[state] * partitions))
    settle(stage)


def settle(stage: HandlerStage) -> None:
    for _ in range(6):
        stage.turn()


def replicate(stage: HandlerStage) -> None:
    partition = stage.partition(TRANSACTION_STATE_TOPIC)
    stage.follower_fetches(OTHER, partition, partition.log.log_end_offset)
    settle(stage)


def store(stage: HandlerStage, stored: StoredTransaction, name: str = ID) -> None:
    """A record that the leader before has left."""
    log = stage.partition(TRANSACTION_STATE_TOPIC).log
    record = NewRecord(transaction_value(stored), transaction_key(name), WallMs(1))
    batch = build_batch([record], base_offset=log.log_end_offset, leader_epoch=0)
    log.append_as_follower(memoryview(batch), stage.clock.wall_ms())


def a_transaction(state: TransactionState, epoch: int = 3, start_ms: int = 1) -> StoredTransaction:
    return StoredTransaction(
        7, epoch, 60_000, state, frozenset({FAR}), WallMs(start_ms), WallMs(start_ms)
    )


def markers(stage: HandlerStage) -> list[Any]:
    return [each for each in stage.link.take() if isinstance(each.request, WriteMarkers)]


def state_of(stage: HandlerStage, name: str = ID) -> TransactionState:
    found = stage.core.transactions.coordinator.find(name).ask(DescribeTransaction(name))
    assert found is not None
    return found.state


def test_no_marker_is_sent_before_the_stored_outcome_is_replicated(stage: HandlerStage) -> None:
    """If this leader failed now, the next one might not know of the commit."""
    lead(stage, 0, leader=OTHER)
    store(stage, a_transaction(TransactionState.PREPARE_COMMIT))
    lead(stage, 1)
    stage.pass_time(500)
    settle(stage)
    assert markers(stage) == []
    with pytest.raises(Refused) as refused:
        stage.core.transactions.coordinator.find(ID)
    assert refused.value.code is ErrorCode.coordinator_load_in_progress
    replicate(stage)
    (asked,) = markers(stage)
    assert asked.request.markers[0][:4] == (7, 3, 1, True)
    asked.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    replicate(stage)
    assert state_of(stage) is TransactionState.COMPLETE_COMMIT


def test_markers_on_their_way_are_sent_again_in_the_next_epoch(stage: HandlerStage) -> None:
    lead(stage, 0, leader=OTHER)
    store(stage, a_transaction(TransactionState.PREPARE_ABORT))
    lead(stage, 1)
    replicate(stage)
    (first,) = markers(stage)
    lead(stage, 3)
    (second,) = markers(stage)
    assert second.request.markers[0][:4] == (7, 3, 3, False)
    first.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert state_of(stage) is TransactionState.PREPARE_ABORT, "an answer to the former leader"
    lead(stage, 4, leader=OTHER)
    second.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert stage.core.transactions.sender.unmarked_count == 0
    assert markers(stage) == []


def test_a_transaction_ends_after_partitions_were_added_to_the_topic(stage: HandlerStage) -> None:
    """Its id is mapped to another partition now, but this one still has its record."""
    lead(stage, 0, leader=OTHER)
    store(stage, a_transaction(TransactionState.PREPARE_COMMIT))
    coordinator = stage.core.transactions.coordinator
    partitions = next(count for count in range(2, 50) if partition_of(ID, count) != STATE.partition)
    lead(stage, 1, partitions=partitions)
    replicate(stage)
    (asked,) = markers(stage)
    asked.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    replicate(stage)
    led = coordinator.led(STATE)
    assert led is not None
    found = led.ask(DescribeTransaction(ID))
    assert found is not None
    assert found.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("producer_id", [5_000, None])
@pytest.mark.parametrize("is_moved", [False, True])
def test_the_timeout_in_the_last_epoch_fetches_a_producer_id(
    stage: HandlerStage,
    monkeypatch: pytest.MonkeyPatch,
    is_moved: bool,
    producer_id: int | None,
) -> None:
    waiting: list[Callable[[int | None], None]] = []
    monkeypatch.setattr(stage.core.transactions.producer_ids, "next_id", waiting.append)
    lead(stage, 0, leader=OTHER)
    began_ms = stage.clock.wall_ms()
    store(stage, a_transaction(TransactionState.ONGOING, LAST_EPOCH, began_ms))
    lead(stage, 1)
    replicate(stage)
    stage.pass_time(80_000)
    settle(stage)
    (on_done,) = waiting
    if is_moved:
        lead(stage, 2, leader=OTHER)
    on_done(producer_id)
    settle(stage)
    if is_moved:
        assert markers(stage) == []
        return
    replicate(stage)
    if producer_id is None:  # the registry cannot be reached: ask again later
        assert markers(stage) == []
        stage.pass_time(20_000)
        settle(stage)
        waiting[1](5_001)
        settle(stage)
        replicate(stage)
    (asked,) = markers(stage)
    assert asked.request.markers[0][:2] == (7, 32_767)
