"""Produce in transactions: a leader asks the coordinator before the first batch (KIP-890)."""

from pathlib import Path
from typing import Any

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.peer.transactions import CheckTransactions, PartitionErrors
from cluster.records.markers import EndMarker
from tests.support.cluster_states import a_broker, a_partition, a_topic
from tests.support.fake_control_link import Asked
from tests.support.handler_requests import produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.kafka_wire import produce_to
from tests.support.transaction_requests import ID, Producer, a_transactional_batch, coordinate

NONE = ErrorCode.none
P: Producer = (77, 3)
SHORT, INVALID = ErrorCode.not_enough_replicas, ErrorCode.invalid_txn_state
ABORTABLE = ErrorCode.transaction_abortable


@pytest.fixture
def client(stage: HandlerStage) -> StageConnection:
    """A client of the leader of `t`; broker 2 coordinates transactions."""
    coordinate(stage, "t", state_leader=OTHER)
    stage.link.take()
    return stage.connect()


def write(
    *partitions: int, producer: Producer = P, sequence: int = 0, version: int = 11, acks: int = -1
) -> Any:
    batches = [("t", each, a_transactional_batch(producer, sequence)) for each in partitions]
    return produce_to(*batches, version=version, acks=acks, transactional_id=ID)


def asked(stage: HandlerStage) -> Asked:
    stage.turn()
    (found,) = [each for each in stage.link.take() if isinstance(each.request, CheckTransactions)]
    return found


def codes(answer: Any) -> list[int]:
    return [each.error_code for each in produced_in(answer)]


def settle(stage: HandlerStage) -> None:
    for _ in range(4):
        stage.turn()


def end_of(stage: HandlerStage, producer: Producer = P, partition: int = 0) -> None:
    """A marker for the producer's transaction is appended."""
    done: list[Any] = []
    stage.core.replication.internal_topics.appends.append_marker(
        TopicPartition("t", partition), EndMarker(*producer, 0, is_commit=True), done.append
    )
    settle(stage)
    assert done[0].code is NONE


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_the_first_batch_waits_for_the_coordinator(
    stage: HandlerStage, client: StageConnection, version: int, acks: int
) -> None:
    client.send(write(0, version=version, acks=acks))
    check = asked(stage)
    assert check.endpoint == a_broker(OTHER).control_endpoint
    (transaction,) = check.request.transactions
    assert transaction == (ID, *P, version >= 12, (("t", (0,)),))
    assert client.receive() is None
    assert stage.partition("t").log.log_end_offset == 0
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [NONE]
    # The others do not.
    assert codes(client.call(write(0, sequence=1, version=version, acks=acks))) == [NONE]
    assert stage.link.take() == []
    assert stage.partition("t").log.log_end_offset == 2


@pytest.mark.parametrize("version", [9, 12])
def test_batches_of_several_producers_are_refused_together(
    stage: HandlerStage, client: StageConnection, version: int
) -> None:
    """The transactional id has one of them only; as Kafka."""
    mapping = ErrorCode.invalid_producer_id_mapping
    for other in ((78, 3), (77, 4)):
        batches = [
            ("t", 0, a_transactional_batch(P)),
            ("t", 1, a_transactional_batch(other)),
        ]
        asked_for = produce_to(*batches, version=version, transactional_id=ID)
        assert codes(client.call(asked_for)) == [mapping, mapping]
    assert stage.link.take() == []
    assert [stage.partition("t", each).log.log_end_offset for each in (0, 1)] == [0, 0]


def test_each_transaction_is_checked_once(stage: HandlerStage, client: StageConnection) -> None:
    for sequence in range(3):
        client.send(write(0, sequence=sequence))
        asked(stage).on_reply(PartitionErrors([[NONE]]))
        settle(stage)
        assert codes(client.receive()) == [NONE]
        end_of(stage)
    assert stage.partition("t").log.log_end_offset == 6


REFUSALS = [
    # the coordinator's code, and the client's: before version 11, 11, and from 12 on
    (ABORTABLE, INVALID, ABORTABLE, ABORTABLE),
    (ErrorCode.producer_fenced, *[ErrorCode.invalid_producer_epoch] * 3),
    (ErrorCode.invalid_producer_id_mapping, *[ErrorCode.invalid_producer_id_mapping] * 3),
    (ErrorCode.concurrent_transactions, SHORT, SHORT, ErrorCode.concurrent_transactions),
    (ErrorCode.not_coordinator, SHORT, SHORT, SHORT),
    (ErrorCode.coordinator_load_in_progress, SHORT, SHORT, SHORT),
    (ErrorCode.coordinator_not_available, SHORT, SHORT, SHORT),
]


@pytest.mark.parametrize("answer", REFUSALS)
@pytest.mark.parametrize(("version", "column"), [(3, 1), (10, 1), (11, 2), (12, 3)])
def test_a_batch_that_is_not_confirmed_is_refused(
    stage: HandlerStage,
    client: StageConnection,
    answer: tuple[ErrorCode, ...],
    version: int,
    column: int,
) -> None:
    client.send(write(0, 1, version=version))
    asked(stage).on_reply(PartitionErrors([[answer[0], NONE]]))
    settle(stage)
    assert codes(client.receive()) == [answer[column], NONE]
    assert stage.partition("t").log.log_end_offset == 0
    assert stage.partition("t", 1).log.log_end_offset == 1


@pytest.mark.parametrize("code", [NONE, ABORTABLE])
def test_a_client_is_remembered_when_its_transaction_is_confirmed(
    stage: HandlerStage, client: StageConnection, code: ErrorCode
) -> None:
    writers = stage.core.transactions.writers
    client.send(write(0))
    check = asked(stage)
    assert writers.of(P[0]) is None
    check.on_reply(PartitionErrors([[code]]))
    settle(stage)
    client.receive()
    writer = writers.of(P[0])
    assert (None if writer is None else writer.transactional_id) == (ID if code is NONE else None)


@pytest.mark.parametrize("reply", [None, PartitionErrors([]), PartitionErrors([[]])])
def test_a_lost_answer_is_told_so_that_the_client_tries_again(
    stage: HandlerStage, client: StageConnection, reply: Any
) -> None:
    client.send(write(0))
    asked(stage).on_reply(reply)
    settle(stage)
    assert codes(client.receive()) == [SHORT]
    client.send(write(0))
    asked(stage).on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [NONE]


def test_a_transaction_that_ends_during_the_check_takes_no_batch(
    stage: HandlerStage, client: StageConnection
) -> None:
    client.send(write(0))
    check = asked(stage)
    end_of(stage)
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [INVALID]
    assert stage.partition("t").log.producers.first_undecided_offset is None


def test_a_transaction_that_ends_while_another_partition_is_checked_takes_no_batch(
    stage: HandlerStage, client: StageConnection
) -> None:
    """Partition 1 was part of it when the request came."""
    client.send(write(1))
    asked(stage).on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [NONE]
    batches = [("t", 0, a_transactional_batch(P)), ("t", 1, a_transactional_batch(P, 1))]
    client.send(produce_to(*batches, version=11, transactional_id=ID))
    check = asked(stage)
    assert check.request.transactions[0].topics == (("t", (0,)),)
    end_of(stage, partition=1)
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [NONE, INVALID]
    log = stage.partition("t", 1).log
    assert log.producers.first_undecided_offset is None, "no transaction that nobody ends"


def test_batches_at_a_time_are_appended_in_their_order(
    stage: HandlerStage, client: StageConnection
) -> None:
    others = stage.connect()
    client.send(write(0, sequence=0))
    others.send(write(0, sequence=1))
    check = asked(stage)
    assert len(check.request.transactions) == 2, "in one message"
    check.on_reply(PartitionErrors([[NONE], [NONE]]))
    settle(stage)
    assert sorted([codes(client.receive()), codes(others.receive())])[0] == [NONE]
    assert stage.partition("t").log.producers.entries[P[0]].batches[0].base_sequence == 0


def test_a_batch_without_a_producer_is_not_checked(
    stage: HandlerStage, client: StageConnection
) -> None:
    assert client.call(write(0, producer=(-1, -1), sequence=-1)) is not None
    assert stage.link.take() == []


def test_batches_of_a_client_that_disconnects_during_the_check_are_dropped(
    stage: HandlerStage, client: StageConnection
) -> None:
    client.send(write(0, 1))
    check = asked(stage)
    client.close()
    check.on_reply(PartitionErrors([[NONE, NONE]]))
    settle(stage)
    assert [stage.partition("t", each).log.log_end_offset for each in (0, 1)] == [0, 0]
    again = stage.connect()
    again.send(write(0, 1))
    asked(stage).on_reply(PartitionErrors([[NONE, NONE]]))
    settle(stage)
    assert codes(again.receive()) == [NONE, NONE]


def test_the_check_of_older_clients_can_be_disabled(tmp_path: Path) -> None:
    settings = {"transaction.partition.verification.enable": "false"}
    with HandlerStage(tmp_path / "data", settings) as stage:
        coordinate(stage, "t", state_leader=OTHER)
        client = stage.connect()
        stage.link.take()
        assert codes(client.call(write(0, version=11))) == [NONE]
        assert stage.link.take() == []
        client.send(write(1, version=12))
        asked(stage).on_reply(PartitionErrors([[NONE]]))
        settle(stage)
        assert codes(client.receive()) == [NONE], "newer ones add the partition by it"


def test_partition_of_an_internal_topic_is_not_added_to_a_transaction(
    stage: HandlerStage, client: StageConnection
) -> None:
    """Its batch is refused, so the transaction has nothing there to end."""
    stage.update(a_topic(CONSUMER_OFFSETS_TOPIC, a_partition([BROKER])))
    batch = a_transactional_batch(P)
    batches = [("t", 0, batch), (CONSUMER_OFFSETS_TOPIC, 0, batch)]
    client.send(produce_to(*batches, version=12, transactional_id=ID))
    check = asked(stage)
    assert check.request.transactions[0].topics == (("t", (0,)),)
    check.on_reply(PartitionErrors([[NONE]]))
    settle(stage)
    assert codes(client.receive()) == [NONE, ErrorCode.invalid_topic_exception]
