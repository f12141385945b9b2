"""TxnOffsetCommit: offsets become visible with the marker, and only in a known transaction."""

from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.peer.transactions import (
    CheckTransactions,
    MarkersOfProducer,
    PartitionErrors,
    WriteMarkers,
)
from tests.support.cluster_states import a_partition, a_topic
from tests.support.fake_control_link import Asked
from tests.support.group_requests import fetch_offsets, fetched_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.transaction_requests import ID, Producer, coordinate, txn_offset_commit

NONE = ErrorCode.none
P: Producer = (77, 3)
OFFSETS = TopicPartition(CONSUMER_OFFSETS_TOPIC, 0)
LEADER_EPOCH = 0
INVALID, ABORTABLE = ErrorCode.invalid_txn_state, ErrorCode.transaction_abortable


@pytest.fixture
def client(stage: HandlerStage) -> StageConnection:
    """A client of the group coordinator; broker 2 coordinates transactions."""
    coordinate(stage, "t", state_leader=OTHER)
    stage.link.take()
    return stage.connect()


def settle(stage: HandlerStage) -> None:
    for _ in range(5):
        stage.turn()


def asked(stage: HandlerStage) -> Asked:
    stage.turn()
    (found,) = [each for each in stage.link.take() if isinstance(each.request, CheckTransactions)]
    return found


def codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def commit(
    stage: HandlerStage,
    client: StageConnection,
    offset: int,
    version: int = 5,
    code: ErrorCode = NONE,
    **options: Any,
) -> list[int]:
    """The codes of a commit, whose question to the coordinator gets this code."""
    client.send(txn_offset_commit(P, {("t", 0): offset}, version, **options))
    stage.turn()
    for each in stage.link.take():
        each.on_reply(PartitionErrors([[code]]))
    settle(stage)
    return codes(client.receive())


def end(stage: HandlerStage, producer: Producer = P, *, is_commit: bool = True) -> Any:
    """The coordinator's marker; its outcome."""
    replies: list[Any] = []
    topics = (((CONSUMER_OFFSETS_TOPIC), (0,)),)
    marker = MarkersOfProducer(*producer, 1, is_commit, topics, (LEADER_EPOCH,))  # type: ignore[arg-type]
    stage.core.transactions.sender.on_request(WriteMarkers((marker,)), replies.append)
    settle(stage)
    (reply,) = replies
    return reply.codes


def committed(stage: HandlerStage, client: StageConnection) -> int:
    asked_for = fetch_offsets("g", [("t", 0)], version=8)
    _, found = fetched_in(client.call(asked_for))
    ((offset, _),) = found.values()
    return offset


def test_a_client_is_remembered_when_its_transaction_is_confirmed(
    stage: HandlerStage, client: StageConnection
) -> None:
    writers = stage.core.transactions.writers
    assert commit(stage, client, 5, code=ABORTABLE) != [NONE]
    assert writers.of(P[0]) is None
    assert commit(stage, client, 5) == [NONE]
    writer = writers.of(P[0])
    assert writer is not None
    assert writer.transactional_id == ID


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_are_visible_after_the_commit_of_their_transaction(
    stage: HandlerStage, client: StageConnection, version: int, is_commit: bool
) -> None:
    client.send(txn_offset_commit(P, {("t", 0): 5}, version))
    check = asked(stage)
    (transaction,) = check.request.transactions
    assert transaction == (ID, *P, version >= 5, ((CONSUMER_OFFSETS_TOPIC, (0,)),))
    assert client.receive() is None
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [NONE]
    # The next commit of the transaction needs no question.
    client.send(txn_offset_commit(P, {("t", 0): 6}, version))
    settle(stage)
    assert codes(client.receive()) == [NONE]
    assert stage.link.take() == []
    assert committed(stage, client) == -1
    assert end(stage, is_commit=is_commit) == [[NONE]]
    assert committed(stage, client) == (6 if is_commit else -1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ABORTABLE, (INVALID, ABORTABLE, ABORTABLE)),
        (ErrorCode.producer_fenced, (ErrorCode.invalid_producer_epoch,) * 3),
        (ErrorCode.network_exception, (ErrorCode.coordinator_load_in_progress,) * 3),
        (ErrorCode.concurrent_transactions, (ErrorCode.concurrent_transactions,) * 3),
    ],
)
@pytest.mark.parametrize(("version", "column"), [(0, 0), (3, 0), (4, 1), (5, 2)])
def test_offsets_of_no_known_transaction_are_refused(
    stage: HandlerStage,
    client: StageConnection,
    code: ErrorCode,
    expected: tuple[ErrorCode, ...],
    version: int,
    column: int,
) -> None:
    assert commit(stage, client, 5, version, code) == [expected[column]]
    assert stage.partition(CONSUMER_OFFSETS_TOPIC).log.log_end_offset == 0


def test_commits_that_are_checked_at_the_same_time_are_all_accepted(
    stage: HandlerStage, client: StageConnection
) -> None:
    another = stage.connect()
    client.send(txn_offset_commit(P, {("t", 0): 5}, 5))
    first = asked(stage)
    another.send(txn_offset_commit(P, {("t", 0): 6}, 5))
    second = asked(stage)
    for check, sender in ((first, client), (second, another)):
        check.on_reply(PartitionErrors([[NONE]]))
        settle(stage)
        assert codes(sender.receive()) == [NONE]


@pytest.mark.parametrize(("version", "marker_epoch"), [(3, 3), (5, 4)])
def test_a_transaction_that_ends_during_the_question_takes_no_offsets(
    stage: HandlerStage, client: StageConnection, version: int, marker_epoch: int
) -> None:
    client.send(txn_offset_commit(P, {("t", 0): 5}, version))
    check = asked(stage)
    end(stage, (P[0], marker_epoch))
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive())[0] in (INVALID, ABORTABLE)
    log = stage.partition(CONSUMER_OFFSETS_TOPIC).log
    assert log.producers.first_undecided_offset is None


def test_offsets_that_come_after_the_marker_in_one_turn_begin_no_transaction(
    stage: HandlerStage, client: StageConnection
) -> None:
    """The marker is in the log before the end of the turn."""
    assert commit(stage, client, 5, 3) == [NONE]
    replies: list[Any] = []
    topics = ((CONSUMER_OFFSETS_TOPIC, (0,)),)
    marker = MarkersOfProducer(*P, 1, True, topics, (LEADER_EPOCH,))  # type: ignore[arg-type]
    stage.core.transactions.sender.on_request(WriteMarkers((marker,)), replies.append)
    client.send(txn_offset_commit(P, {("t", 0): 6}, 3))
    asked(stage).on_reply(PartitionErrors([[ABORTABLE]]))
    settle(stage)
    assert codes(client.receive()) == [INVALID]
    log = stage.partition(CONSUMER_OFFSETS_TOPIC).log
    assert log.producers.first_undecided_offset is None
    assert committed(stage, client) == 5


@pytest.mark.parametrize("is_elected_again", [False, True])
def test_a_commit_is_answered_if_the_group_moves_during_the_question(
    stage: HandlerStage, client: StageConnection, is_elected_again: bool
) -> None:
    client.send(txn_offset_commit(P, {("t", 0): 5}))
    check = asked(stage)
    leader = BROKER if is_elected_again else OTHER
    moved = a_partition([BROKER, OTHER], [leader], leader, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, moved))
    settle(stage)
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    expected = NONE if is_elected_again else ErrorCode.not_coordinator
    assert codes(client.receive()) == [expected]


def test_a_marker_for_a_group_that_is_elsewhere_is_refused(
    stage: HandlerStage, client: StageConnection
) -> None:
    assert commit(stage, client, 5) == [NONE]
    moved = a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1)
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, moved))
    assert end(stage) == [[ErrorCode.not_leader_or_follower]]


def test_a_commit_of_unknown_partitions_names_them(
    stage: HandlerStage, client: StageConnection
) -> None:
    client.send(txn_offset_commit(P, {("t", 0): 5, ("t", 9): 1, ("no", 0): 1}))
    asked(stage).on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    unknown = ErrorCode.unknown_topic_or_partition
    assert codes(client.receive()) == [NONE, unknown, unknown]
    client.send(txn_offset_commit(P, {("no", 0): 5}))
    settle(stage)
    assert codes(client.receive()) == [unknown]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group": ""}, ErrorCode.invalid_group_id),
        ({"generation": 4, "member": "m"}, ErrorCode.unknown_member_id),
    ],
)
def test_an_invalid_commit_is_refused(
    stage: HandlerStage, client: StageConnection, options: dict[str, Any], code: ErrorCode
) -> None:
    assert commit(stage, client, 5, **options) == [code]
