"""DescribeTransactions, ListTransactions and DescribeProducers."""

from typing import Any

import pytest

from cluster.brokers.handlers import describe_producers, sliced_answer
from cluster.log.producer_state import ProducerEntry
from cluster.model.errors import ErrorCode
from cluster.model.topics import TRANSACTION_STATE_TOPIC
from cluster.protocol.api import ApiKey
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.kafka_wire import produce_to, request
from tests.support.transaction_requests import (
    FIRST_ID,
    ID,
    a_transactional_batch,
    add_partitions,
    coordinate,
    end_txn,
    give_producer_ids,
    init_producer_id,
)

NONE = ErrorCode.none


@pytest.fixture
def client(stage: HandlerStage) -> StageConnection:
    """ID has an open transaction with both partitions of `t`, `another` has none."""
    coordinate(stage, "t")
    made = stage.connect()
    for name in (ID, "another"):
        called(stage, made, init_producer_id(name))
    stage.clock.pass_time(1_000)
    called(stage, made, add_partitions((FIRST_ID, 0), {"t": (0, 1)}))
    return made


def called(stage: HandlerStage, client: StageConnection, message: Any) -> Any:
    client.send(message)
    for _ in range(5):
        stage.turn()
        give_producer_ids(stage)
    return client.receive()


def describe(*names: str) -> Any:
    return request(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names)


def listing(version: int = 2, **filters: Any) -> Any:
    asked = {
        "state_filters": (),
        "producer_id_filters": (),
        "duration_filter": -1,
        "transactional_id_pattern": None,
        **filters,
    }
    return request(ApiKey.LIST_TRANSACTIONS, version, **asked)


def names(answer: Any) -> set[str]:
    assert answer.error_code == NONE
    return {each.transactional_id for each in answer.transaction_states}


def move_coordinator(stage: HandlerStage) -> None:
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(TRANSACTION_STATE_TOPIC, moved))


def test_transactions_are_described(stage: HandlerStage, client: StageConnection) -> None:
    answer = client.call(describe(ID, "unknown", ""))
    found, unknown, empty = answer.transaction_states
    assert (found.error_code, found.transactional_id) == (NONE, ID)
    assert found.transaction_state == "Ongoing"
    assert (found.producer_id, found.producer_epoch) == (FIRST_ID, 0)
    assert [(each.topic, tuple(each.partitions)) for each in found.topics] == [("t", (0, 1))]
    assert unknown.error_code == ErrorCode.transactional_id_not_found
    assert empty.error_code == ErrorCode.invalid_request
    move_coordinator(stage)
    (elsewhere,) = client.call(describe(ID)).transaction_states
    assert elsewhere.error_code == ErrorCode.not_coordinator


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    answer = client.call(listing(version))
    assert names(answer) == {ID, "another"}
    states = {each.transactional_id: each.transaction_state for each in answer.transaction_states}
    assert states == {ID: "Ongoing", "another": "Empty"}
    answer = client.call(listing(version, state_filters=("Ongoing", "NoState")))
    assert names(answer) == {ID}
    assert tuple(answer.unknown_state_filters) == ("NoState",)
    answer = client.call(listing(version, state_filters=("NoState",)))
    assert names(answer) == set()
    answer = client.call(listing(version, producer_id_filters=(FIRST_ID, 1)))
    assert names(answer) == {ID}
    move_coordinator(stage)
    assert names(client.call(listing(version))) == set()


@pytest.mark.parametrize("version", [1, 2])
def test_transactions_that_began_long_ago_are_listed(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    asked = listing(version, duration_filter=5_000, state_filters=("Ongoing",))
    assert names(client.call(asked)) == set()
    stage.clock.pass_time(5_001)
    stage.turn()
    assert names(client.call(asked)) == {ID}


def test_many_transactions_are_listed_in_slices(
    stage: HandlerStage, client: StageConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliced_answer, "STEPS_AT_ONCE", 0)
    client.send(listing())
    assert client.receive() is None
    stage.turn()
    assert names(client.receive()) == {ID, "another"}
    client.send(listing())
    client.close()
    stage.turn()
    assert client.is_waiting
    assert stage.slices.is_idle


def test_transactional_ids_are_listed_by_a_pattern(client: StageConnection) -> None:
    assert names(client.call(listing(transactional_id_pattern="pay.*-[0-9]"))) == {ID}
    assert names(client.call(listing(transactional_id_pattern="pay"))) == set()
    answer = client.call(listing(transactional_id_pattern="(a"))
    assert answer.error_code == ErrorCode.invalid_regular_expression


def test_a_transaction_whose_markers_are_missing_is_described(
    stage: HandlerStage, client: StageConnection
) -> None:
    far = a_partition([OTHER, BROKER])
    stage.update(a_topic("far", far))
    called(stage, client, add_partitions((FIRST_ID, 0), {"far": (0,)}))
    assert called(stage, client, end_txn((FIRST_ID, 0), version=4)).error_code == NONE
    (found,) = client.call(describe(ID)).transaction_states
    assert found.transaction_state == "PrepareCommit"
    assert "far" in {each.topic for each in found.topics}


def test_the_producers_of_a_partition_are_described(
    stage: HandlerStage, client: StageConnection
) -> None:
    batch = a_transactional_batch((FIRST_ID, 0), count=3)
    answer = called(stage, client, produce_to(("t", 0, batch), version=11, transactional_id=ID))
    assert answer.responses[0].partition_responses[0].error_code == NONE
    stage.update(a_topic("far", a_partition([OTHER, BROKER])))
    asked = request(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        topics=[
            {"name": "t", "partition_indexes": [0, 1, 7]},
            {"name": "far", "partition_indexes": [0]},
        ],
    )
    mine, far = client.call(asked).topics
    first, second, unknown = mine.partitions
    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (FIRST_ID, 0)
    assert (producer.last_sequence, producer.current_txn_start_offset) == (2, 0)
    assert (second.error_code, second.active_producers) == (NONE, ())
    assert unknown.error_code == ErrorCode.unknown_topic_or_partition
    assert far.partitions[0].error_code == NONE, "a follower knows them, too"
    called(stage, client, end_txn((FIRST_ID, 0), version=4))
    (producer,) = client.call(asked).topics[0].partitions[0].active_producers
    assert producer.current_txn_start_offset == -1
    assert producer.coordinator_epoch == 0


def test_many_producers_are_described_in_slices(
    stage: HandlerStage, client: StageConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliced_answer, "STEPS_AT_ONCE", 1)
    monkeypatch.setattr(describe_producers, "_PRODUCERS_PER_STEP", 1)
    entries = stage.partition("t").log.producers.entries
    for producer_id in (7, 8, 9):
        entries[producer_id] = ProducerEntry()
    topics = [{"name": "t", "partition_indexes": [0, 5]}]
    client.send(request(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics))
    assert client.receive() is None
    del entries[8]
    stage.turn()
    known, unknown = client.receive().topics[0].partitions
    assert [each.producer_id for each in known.active_producers] == [7, 9]
    assert unknown.error_code == ErrorCode.unknown_topic_or_partition
