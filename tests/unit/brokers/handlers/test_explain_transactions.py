"""ExplainTransaction and ExplainLastStableOffsets through a whole broker."""

import struct
from pathlib import Path

import pytest

from cluster.brokers.handlers import access, sliced_answer
from cluster.coordinator.transactions import explanation, held_back, hidden_producers
from cluster.coordinator.transactions.explanation import ExplainTransactionAnswer
from cluster.coordinator.transactions.held_back import (
    OPEN_MAX,
    ExplainPartitionsAnswer,
    HeldPartition,
    OpenTransaction,
    PartitionQuestion,
    UncommittedMarker,
    UnknownPartition,
    Writer,
)
from cluster.coordinator.transactions.requests import ClientName, ProducerIdentity
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.model.errors import ErrorCode, PeerError
from cluster.protocol.api import OwnApiKey
from cluster.records.builder import NewRecord, build_batch
from cluster.records.builder import ProducerIdentity as BatchProducer
from tests.support.cluster_states import a_partition, a_topic
from tests.support.guarded_broker import SETTINGS, Guarded
from tests.support.handler_requests import WALL_MS, a_batch, produced_in
from tests.support.handler_stage import BROKER, OTHER, HandlerStage, StageConnection
from tests.support.kafka_wire import produce_to
from tests.support.transaction_requests import (
    FIRST_ID,
    coordinate,
    give_producer_ids,
    init_producer_id,
)
from tests.support.transactional_batches import ABORT, COMMIT, data, marker

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
TRANSACTIONAL = bytes(
    build_batch(
        [NewRecord(b"v", None, WALL_MS)], producer=BatchProducer(5, 0, 0), is_transactional=True
    )
)


def ask(stage: HandlerStage, *questions: tuple[str, int]) -> ExplainPartitionsAnswer:
    body = held_back.QUESTION.pack(tuple(PartitionQuestion(*each) for each in questions))
    answer = exchange(stage, OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS, body)
    return held_back.ANSWER.read(answer)


def explain(stage: HandlerStage, transactional_id: str) -> ExplainTransactionAnswer:
    body = explanation.QUESTION.pack(transactional_id)
    return explanation.ANSWER.read(exchange(stage, OwnApiKey.EXPLAIN_TRANSACTION, body))


def exchange(stage: HandlerStage, key: OwnApiKey, body: bytes) -> bytes:
    answer = stage.connect().exchange(struct.pack(">hhih", key, 0, 7, 4) + b"tool" + body)
    assert answer is not None
    assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 7)
    return answer[8:]


def lead(stage: HandlerStage, name: str, *batches: bytes, isr: int = 1) -> None:
    """Lead a partition whose log the former leader wrote."""
    stage.update(a_topic(name, a_partition([BROKER, OTHER], leader=OTHER)))
    for batch in batches:
        stage.partition(name).log.append_as_follower(memoryview(batch), WALL_MS)
    replicas = [BROKER, OTHER][:isr]
    stage.update(a_topic(name, a_partition(replicas, leader_epoch=1, partition_epoch=1)))


def only(answer: ExplainPartitionsAnswer) -> HeldPartition:
    (held,) = answer.held
    return held


def test_an_open_transaction_holds_the_last_stable_offset_back(stage: HandlerStage) -> None:
    plain = data(2, 9, is_transactional=False)
    later = (data(3, 2), data(4, 9, is_transactional=False), data(5, 3))
    lead(stage, "t", data(0, 1), marker(1, 1, COMMIT), plain, *later)

    answer = ask(stage, ("t", 0))

    held = only(answer)
    assert (answer.broker, answer.examined, answer.open_transactions) == (BROKER, 1, 2)
    assert (held.last_stable_offset, held.high_watermark, held.log_end_offset) == (3, 6, 6)
    assert held.waiting_records == 3
    assert held.waiting_bytes == sum(map(len, later))
    assert held.open == (
        OpenTransaction(ProducerIdentity(2, 0), -1, 3, WALL_MS + 3, WALL_MS + 3, None),
        OpenTransaction(ProducerIdentity(3, 0), -1, 5, WALL_MS + 5, WALL_MS + 5, None),
    )
    assert (held.uncommitted, held.is_index_damaged) == (None, False)


def test_partitions_that_are_not_held_back_are_counted(stage: HandlerStage) -> None:
    lead(stage, "t", data(0, 1), marker(1, 1, ABORT))
    for asked in ([("t", 0)], [("t", -1)], []):
        answer = ask(stage, *asked)
        assert (answer.examined, answer.held, answer.unknown) == (1, (), ())


def test_a_topic_or_everything_is_explained_at_once(stage: HandlerStage) -> None:
    lead(stage, "t", data(0, 1))
    lead(stage, "other", data(0, 1), data(1, 2))
    assert [each.topic for each in ask(stage).held] == ["other", "t"]
    assert [each.topic for each in ask(stage, ("other", -1)).held] == ["other"]
    assert ask(stage).open_transactions == 3


def test_partition_that_a_question_repeats_is_explained_once(stage: HandlerStage) -> None:
    lead(stage, "t", data(0, 1))
    assert ask(stage, *[("t", 0)] * 1_000).examined == 1


def test_partitions_that_the_broker_does_not_lead_are_named(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER], leader=OTHER)))
    assert ask(stage, ("t", 0), ("none", 3)).unknown == (
        UnknownPartition("t", 0, ErrorCode.not_leader_or_follower),
        UnknownPartition("none", 3, ErrorCode.unknown_topic_or_partition),
    )
    assert ask(stage).examined == 0


def test_a_marker_that_is_not_replicated_is_named(stage: HandlerStage) -> None:
    lead(stage, "t", data(0, 1), data(1, 9, is_transactional=False), isr=2)
    partition = stage.partition("t")
    partition.log.append_as_follower(memoryview(marker(2, 1, ABORT)), WALL_MS)
    assert partition.leader is not None
    partition.leader.high_watermark = type(partition.high_watermark)(2)

    held = only(ask(stage, ("t", 0)))

    assert (held.last_stable_offset, held.high_watermark, held.open) == (0, 2, ())
    assert held.uncommitted == UncommittedMarker(0, 2)


def test_a_damaged_index_of_aborted_transactions_is_named(stage: HandlerStage) -> None:
    lead(stage, "t", data(0, 1), marker(1, 1, ABORT), data(2, 9, is_transactional=False))
    log = stage.partition("t").log
    index = segment_path(log.directory, 0, TRANSACTION_INDEX_SUFFIX)
    index.unlink()
    index.mkdir()  # it can neither be read nor be rebuilt
    log.transactions.aborted_in(0, 3)
    held = only(ask(stage, ("t", 0)))
    assert held.is_index_damaged
    assert held.last_stable_offset == 0


def test_many_open_transactions_are_shown_in_part(stage: HandlerStage) -> None:
    lead(stage, "t", *(data(offset, offset + 1) for offset in range(OPEN_MAX + 5)))
    held = only(ask(stage, ("t", 0)))
    assert [each.first_offset for each in held.open] == list(range(OPEN_MAX))
    assert held.open_left_off == 5


def test_the_client_that_wrote_is_named(tmp_path: Path) -> None:
    with HandlerStage(tmp_path / "data", UNVERIFIED) as stage:
        _write_and_explain(stage)


def _write_and_explain(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER])))
    stage.connect().call(produce_to(("t", 0, TRANSACTIONAL), transactional_id="payments"))
    (found,) = only(ask(stage, ("t", 0))).open
    assert found.writer == Writer("payments", ClientName("wire", "127.0.0.1"))
    stage.connect().call(produce_to(("t", 0, a_batch(b"x")), acks=1))
    assert only(ask(stage, ("t", 0))).waiting_records == 2


def test_the_client_of_a_refused_batch_is_not_named(tmp_path: Path) -> None:
    """It has written nothing there, and would make the broker forget others."""
    later = build_batch(
        [NewRecord(b"v", None, WALL_MS)], producer=BatchProducer(5, 1, 3), is_transactional=True
    )
    with HandlerStage(tmp_path / "data", UNVERIFIED) as stage:
        stage.update(a_topic("t", a_partition([BROKER])))
        client = stage.connect()
        client.call(produce_to(("t", 0, TRANSACTIONAL), transactional_id="payments"))
        answer = client.call(produce_to(("t", 0, bytes(later)), transactional_id="another"))
        (refused,) = produced_in(answer)
        assert refused.error_code == ErrorCode.out_of_order_sequence_number
        (found,) = only(ask(stage, ("t", 0))).open
        assert found.writer is not None
        assert found.writer.transactional_id == "payments"


def test_the_client_that_wrote_is_named_only_to_users_that_may_describe_its_id(
    tmp_path: Path,
) -> None:
    question = held_back.QUESTION.pack((PartitionQuestion("t", 0),))
    head = struct.pack(">hhih", OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS, 0, 7, 4) + b"tool"
    with HandlerStage(tmp_path / "data", {**SETTINGS, **UNVERIFIED}) as stage:
        guarded = Guarded(stage)
        stage.update(a_topic("t", a_partition([BROKER])))
        guarded.client("admin").call(produce_to(("t", 0, TRANSACTIONAL), transactional_id="pay"))
        guarded.grant((access.READ_TOPIC, "t"))

        def found() -> OpenTransaction:
            answer = guarded.client().exchange(head + question)
            assert answer is not None
            (transaction,) = only(held_back.ANSWER.read(answer[8:])).open
            return transaction

        assert (found().writer, found().is_writer_hidden) == (None, True)
        guarded.grant((access.DESCRIBE_TRANSACTIONAL_ID, "pay"))
        assert found().writer == Writer("pay", ClientName("wire", "10.0.0.1"))


def hidden_from(client: StageConnection, *producer_ids: int) -> tuple[int, ...]:
    head = struct.pack(">hhih", OwnApiKey.LIST_HIDDEN_PRODUCERS, 0, 7, 4) + b"tool"
    answer = client.exchange(head + hidden_producers.QUESTION.pack(producer_ids))
    assert answer is not None
    found = hidden_producers.ANSWER.read(answer[8:])
    assert found.code is ErrorCode.none
    return found.producer_ids


@pytest.mark.parametrize("at_once", [0, 8])
def test_producers_are_listed_whose_ids_the_user_may_not_describe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """A tool must not take their transactions for ones that no coordinator knows."""
    monkeypatch.setattr(sliced_answer, "STEPS_AT_ONCE", at_once)
    with HandlerStage(tmp_path / "data", SETTINGS) as stage:
        guarded = Guarded(stage)
        coordinate(stage, "t")
        admin, user = guarded.client("admin"), guarded.client()
        for name in ("pay", "ship"):
            admin.send(init_producer_id(name))
            for _ in range(5):
                stage.turn()
                give_producer_ids(stage)
            assert admin.receive().error_code == ErrorCode.none
        pay, ship, unknown = FIRST_ID, FIRST_ID + 1, FIRST_ID + 99
        assert hidden_from(admin, pay, ship, unknown) == ()
        assert hidden_from(user, ship, pay, unknown) == (pay, ship)
        guarded.grant((access.DESCRIBE_TRANSACTIONAL_ID, "pay"))
        assert hidden_from(user, pay, ship) == (ship,)
        assert hidden_from(user, pay) == ()
        assert hidden_from(user) == ()


def test_an_id_is_not_found_where_no_coordinator_is(stage: HandlerStage) -> None:
    answer = explain(stage, "payments")
    assert (answer.code, answer.transaction) == (ErrorCode.transactional_id_not_found, None)


@pytest.mark.parametrize(
    "key",
    [
        OwnApiKey.EXPLAIN_TRANSACTION,
        OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS,
        OwnApiKey.LIST_HIDDEN_PRODUCERS,
    ],
)
def test_a_malformed_question_closes_the_connection(stage: HandlerStage, key: OwnApiKey) -> None:
    connection = stage.connect()
    assert connection.exchange(struct.pack(">hhih", key, 0, 7, 4) + b"tool" + b"\xc1") is None
    assert not connection.is_open


@pytest.mark.parametrize("body", [b"\xc1", b"\x96\x01\x02\x03\x04\x05\x06"])
def test_a_malformed_answer_is_refused(body: bytes) -> None:
    with pytest.raises(PeerError, match=r"malformed|not msgpack"):
        held_back.ANSWER.read(body)
