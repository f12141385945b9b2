"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and FindCoordinator of transactional
ids, in all versions.
"""

from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from cluster.protocol.peer.transactions import PartitionErrors, WriteMarkers
from tests.support.cluster_states import a_partition, a_topic
from tests.support.group_requests import find_coordinator
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.transaction_requests import (
    FIRST_ID,
    ID,
    Producer,
    add_offsets,
    add_partitions,
    added_in,
    coordinate,
    end_txn,
    give_producer_ids,
    init_producer_id,
    write_txn_markers,
)

NONE = ErrorCode.none
FENCED, OLD_FENCED = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch
MAPPING = ErrorCode.invalid_producer_id_mapping
P = (FIRST_ID, 0)


@pytest.fixture
def client(stage: HandlerStage) -> StageConnection:
    """A client of the coordinator of ID, which has two partitions of the topic `t`."""
    coordinate(stage, "t")
    return stage.connect()


def called(stage: HandlerStage, client: StageConnection, message: Any) -> Any:
    """The answer to a request that may need a producer id, and some turns."""
    client.send(message)
    for _ in range(5):
        stage.turn()
        give_producer_ids(stage)
    return client.receive()


def producer(stage: HandlerStage, client: StageConnection, version: int = 5) -> Producer:
    answer = called(stage, client, init_producer_id(version=version))
    assert answer.error_code == NONE
    return answer.producer_id, answer.producer_epoch


# -- InitProducerId --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_producer_gets_an_id_and_then_further_epochs(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    assert [producer(stage, client, version) for _ in range(3)] == [
        (FIRST_ID, 0),
        (FIRST_ID, 1),
        (FIRST_ID, 2),
    ]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_continues_with_its_epoch(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    first = producer(stage, client)
    answer = called(stage, client, init_producer_id(version=version, producer=first))
    assert (answer.error_code, answer.producer_epoch) == (NONE, 1)
    producer(stage, client)
    answer = called(stage, client, init_producer_id(version=version, producer=first))
    assert answer.error_code == (OLD_FENCED if version == 3 else FENCED)
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (init_producer_id(""), ErrorCode.invalid_request),
        (init_producer_id(timeout_ms=0), ErrorCode.invalid_transaction_timeout),
        (init_producer_id(timeout_ms=-1), ErrorCode.invalid_transaction_timeout),
        (init_producer_id(timeout_ms=900_001), ErrorCode.invalid_transaction_timeout),
        (init_producer_id(producer=(5, -1)), ErrorCode.invalid_request),
        (init_producer_id(producer=(-1, 5)), ErrorCode.invalid_request),
        (init_producer_id("i" * 32_768), ErrorCode.invalid_request),
    ],
)
def test_an_invalid_init_is_refused(
    stage: HandlerStage, client: StageConnection, message: Any, code: ErrorCode
) -> None:
    assert called(stage, client, message).error_code == code


def test_an_init_is_refused_if_no_producer_id_can_be_fetched(
    stage: HandlerStage, client: StageConnection
) -> None:
    client.send(init_producer_id())
    stage.turn()
    ((_, on_failed),) = stage.producer_id_blocks
    on_failed(OSError("no registry"))
    stage.turn()
    assert client.receive().error_code == ErrorCode.coordinator_not_available


@pytest.mark.parametrize("is_elected_again", [False, True])
def test_an_init_is_answered_if_the_coordinator_moves_while_a_producer_id_is_fetched(
    stage: HandlerStage, client: StageConnection, is_elected_again: bool
) -> None:
    client.send(init_producer_id())
    stage.turn()
    leader = BROKER if is_elected_again else OTHER
    moved = a_partition([BROKER, OTHER], [leader], leader, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(TRANSACTION_STATE_TOPIC, moved))
    for _ in range(3):
        stage.turn()
    give_producer_ids(stage)
    stage.turn()
    answer = client.receive()
    if is_elected_again:
        assert (answer.error_code, answer.producer_id) == (NONE, FIRST_ID)
    else:
        assert answer.error_code == ErrorCode.not_coordinator


# -- partitions and ends ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("end_version", range(5))
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_older_client_makes_transactions(
    stage: HandlerStage,
    client: StageConnection,
    version: int,
    end_version: int,
    is_commit: bool,
) -> None:
    p = producer(stage, client)
    for _ in range(2):
        answer = called(stage, client, add_partitions(p, {"t": (0, 1)}, version))
        assert added_in(answer) == {("t", 0): NONE, ("t", 1): NONE}
        ended = called(stage, client, end_txn(p, is_commit=is_commit, version=end_version))
        assert ended.error_code == NONE
    for number in range(2):
        log = stage.partition("t", number).log
        assert log.log_end_offset == 2, "a marker for each transaction"


def test_a_newer_client_gets_an_epoch_with_each_end(
    stage: HandlerStage, client: StageConnection
) -> None:
    p = producer(stage, client)
    for epoch in range(1, 4):
        answer = called(stage, client, add_partitions(p, {"t": (1,)}, 5))
        assert added_in(answer) == {("t", 1): NONE}
        ended = called(stage, client, end_txn(p, version=5))
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (
            NONE,
            FIRST_ID,
            epoch,
        )
        p = (ended.producer_id, ended.producer_epoch)
    entry = stage.partition("t", 1).log.producers.entries[FIRST_ID]
    assert entry.epoch == 3


@pytest.mark.parametrize("version", range(4))
def test_all_partitions_of_a_client_are_added_or_none(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    p = producer(stage, client)
    answer = called(
        stage,
        client,
        add_partitions(p, {"t": (0, 7), "no": (0,), CONSUMER_OFFSETS_TOPIC: (0,)}, version),
    )
    assert added_in(answer) == {
        ("t", 0): ErrorCode.operation_not_attempted,
        ("t", 7): ErrorCode.unknown_topic_or_partition,
        ("no", 0): ErrorCode.unknown_topic_or_partition,
        (CONSUMER_OFFSETS_TOPIC, 0): ErrorCode.topic_authorization_failed,
    }
    ended = called(stage, client, end_txn(p, version=4))
    assert ended.error_code == ErrorCode.invalid_txn_state


@pytest.mark.parametrize("version", [4, 5])
def test_a_broker_verifies_partitions(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    p = producer(stage, client)
    called(stage, client, add_partitions(p, {"t": (0,)}, version))
    asked = add_partitions(p, {"t": (0, 1)}, version, verify_only=True)
    assert added_in(called(stage, client, asked)) == {
        ("t", 0): NONE,
        ("t", 1): ErrorCode.transaction_abortable,
    }


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (end_txn(P, transactional_id=""), ErrorCode.invalid_request),
        (end_txn(P, transactional_id="unknown"), MAPPING),
        (end_txn((P[0], 9), version=1), OLD_FENCED),
        (end_txn((P[0], 9), version=2), FENCED),
        (end_txn((P[0], 9)), FENCED),
        (end_txn(P), ErrorCode.invalid_txn_state),
        (add_offsets(P, transactional_id=""), ErrorCode.invalid_request),
        (add_offsets(P, transactional_id="unknown"), MAPPING),
        (add_offsets((P[0], 9), version=1), OLD_FENCED),
        (add_offsets((P[0], 9), version=2), FENCED),
    ],
)
def test_a_request_of_no_present_producer_is_refused(
    stage: HandlerStage, client: StageConnection, message: Any, code: ErrorCode
) -> None:
    assert producer(stage, client) == P
    assert called(stage, client, message).error_code == code


@pytest.mark.parametrize(("version", "code"), [(0, OLD_FENCED), (1, OLD_FENCED), (2, FENCED)])
def test_a_fenced_producer_adds_nothing(
    stage: HandlerStage, client: StageConnection, version: int, code: ErrorCode
) -> None:
    p = producer(stage, client)
    producer(stage, client)
    answer = called(stage, client, add_partitions(p, {"t": (0,)}, version))
    assert added_in(answer) == {("t", 0): code}
    answer = called(stage, client, add_partitions(p, {"t": (0,)}, transactional_id=""))
    assert added_in(answer) == {("t", 0): ErrorCode.invalid_request}


@pytest.mark.parametrize("version", range(5))
def test_the_offsets_of_a_group_become_part_of_a_transaction(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    p = producer(stage, client)
    assert called(stage, client, add_offsets(p, version=version)).error_code == NONE
    verified = add_partitions(p, {CONSUMER_OFFSETS_TOPIC: (0,)}, 5, verify_only=True)
    assert added_in(called(stage, client, verified)) == {(CONSUMER_OFFSETS_TOPIC, 0): NONE}
    called(stage, client, end_txn(p, version=4))
    assert stage.partition(CONSUMER_OFFSETS_TOPIC).log.log_end_offset == 1, "its marker"


# -- coordinators elsewhere ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", [init_producer_id(), end_txn(P), add_offsets(P), end_txn(P, version=0)]
)
def test_a_broker_that_does_not_coordinate_the_id_says_so(
    stage: HandlerStage, message: Any
) -> None:
    coordinate(stage, "t", state_leader=OTHER)
    answer = called(stage, stage.connect(), message)
    assert answer.error_code == ErrorCode.not_coordinator


def test_requests_are_answered_when_the_coordinator_moves(
    stage: HandlerStage, client: StageConnection
) -> None:
    """The append of a commit waits for a follower when the leadership is lost."""
    p = producer(stage, client)
    called(stage, client, add_partitions(p, {"t": (0,)}))
    followed = a_partition([BROKER, OTHER], leader_epoch=0, partition_epoch=1)
    stage.update(a_topic(TRANSACTION_STATE_TOPIC, followed))
    client.send(end_txn(p, version=4))
    for _ in range(3):
        stage.turn()
    assert client.receive() is None
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=2)
    stage.update(a_topic(TRANSACTION_STATE_TOPIC, moved))
    stage.turn()
    assert client.receive().error_code == ErrorCode.not_coordinator
    assert stage.partition("t").log.log_end_offset == 0, "no marker was written"


def test_markers_of_partitions_elsewhere_are_sent_to_their_leaders(
    stage: HandlerStage, client: StageConnection
) -> None:
    stage.update(a_topic("far", a_partition([OTHER])))
    p = producer(stage, client)
    called(stage, client, add_partitions(p, {"far": (0,)}))
    assert called(stage, client, end_txn(p, version=4)).error_code == NONE
    asked = [each for each in stage.link.take() if isinstance(each.request, WriteMarkers)]
    assert len(asked) == 1
    assert asked[0].request.markers[0][:4] == (*p, 0, True)
    client.send(add_partitions(p, {"t": (0,)}))
    for _ in range(3):
        stage.turn()
    assert client.receive() is None, "it waits for the marker"
    asked[0].on_reply(PartitionErrors([[NONE]]))
    for _ in range(4):
        stage.turn()
    assert added_in(client.receive()) == {("t", 0): NONE}


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_transactional_id_is_found(stage: HandlerStage, version: int) -> None:
    client = stage.connect()
    asked = find_coordinator(ID, version=max(version, 1), key_type=1)

    def found() -> tuple[int, int]:
        answer = called(stage, client, asked)
        one = answer.coordinators[0] if version >= 4 else answer
        return one.error_code, one.node_id

    assert found() == (ErrorCode.coordinator_not_available, -1)
    coordinate(stage)
    assert found() == (NONE, BROKER)
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(TRANSACTION_STATE_TOPIC, moved))
    assert found() == (NONE, OTHER)


# -- markers of administrators ---------------------------------------------------------------------


def test_an_administrator_ends_a_hanging_transaction(
    stage: HandlerStage, client: StageConnection
) -> None:
    answer = called(stage, client, write_txn_markers((77, 3), {"t": (0, 1), "no": (0,)}))
    (marker,) = answer.markers
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in marker.topics
        for each in topic.partitions
    }
    assert codes.pop(("no", 0)) != NONE
    assert codes == {("t", 0): NONE, ("t", 1): NONE}
    assert stage.partition("t").log.producers.entries[77].epoch == 3
    again = called(stage, client, write_txn_markers((77, 2), {"t": (0,)}))
    assert again.markers[0].topics[0].partitions[0].error_code == OLD_FENCED
