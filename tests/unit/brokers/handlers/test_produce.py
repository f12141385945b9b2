"""Produce to real logs: the appended records, and the time and code of the answer."""

import errno
import shutil
import uuid
from typing import Any

import pytest

from cluster.config.broker import METRICS_TOPIC_CLIENT_PRODUCE
from cluster.config.dynamic import CLUSTER_WIDE, applied
from cluster.log.files import LogFiles
from cluster.model.errors import ErrorCode
from cluster.model.topics import METRICS_TOPIC
from cluster.records.batch import Compression
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import read_records
from tests.support.cluster_states import a_partition, a_topic
from tests.support.handler_requests import WALL_MS, a_batch, codes_of, produced_in
from tests.support.handler_stage import BROKER, OTHER, THIRD, HandlerStage
from tests.support.kafka_wire import produce_to

ALONE = a_partition([BROKER])
BOTH = a_partition([BROKER, OTHER])


def values_in(stage: HandlerStage, number: int = 0) -> list[bytes]:
    """The values of a partition's records, committed or not."""
    log = stage.partition("t", number).log
    end = log.log_end_offset
    part = log.read(log.log_start_offset, 1 << 20, upper_offset=end, at_least_one_batch=True)
    return [record.value or b"" for record in read_records(part.view())]


def codes(answer: Any) -> list[int]:
    return codes_of(produced_in(answer))


# -- answered at once ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_is_answered_with_the_offset(stage: HandlerStage, version: int) -> None:
    topic = a_topic("t", ALONE)
    stage.update(topic)
    name: Any = topic.topic_id if version >= 13 else "t"
    client = stage.connect()

    answers = [
        client.call(produce_to((name, 0, a_batch(b"a", b"b")), acks=acks, version=version))
        for acks in (1, -1)
    ]

    assert [(p.error_code, p.base_offset) for a in answers for p in produced_in(a)] == [
        (0, 0),
        (0, 2),
    ]
    assert values_in(stage) == [b"a", b"b", b"a", b"b"]


def test_acks_1_is_answered_without_the_followers(stage: HandlerStage) -> None:
    stage.update(a_topic("t", BOTH, configs={"min.insync.replicas": "2"}))
    stage.update(a_topic("t", a_partition([BROKER, OTHER], isr=[BROKER], partition_epoch=1)))

    assert codes(stage.connect().call(produce_to(("t", 0, a_batch()), acks=1))) == [0]


def test_every_partition_of_a_request_has_its_own_outcome(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, a_partition([OTHER]), ALONE))

    answer = stage.connect().call(
        produce_to(
            ("t", 0, a_batch(b"a")),
            ("t", 1, a_batch()),
            ("t", 7, a_batch()),
            ("none", 0, a_batch()),
            ("t", 2, a_batch(b"b")),
        )
    )

    moved, unknown = ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition
    assert codes(answer) == [0, moved, unknown, unknown, 0]
    assert (values_in(stage, 0), values_in(stage, 2)) == ([b"a"], [b"b"])


def test_repeated_partition_gets_both_batches(stage: HandlerStage) -> None:
    stage.update(a_topic("t", BOTH))
    client = stage.connect()

    assert client.call(produce_to(("t", 0, a_batch(b"a")), ("t", 0, a_batch(b"b")))) is None
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    assert client.receive() is None
    stage.follower_fetches(OTHER, stage.partition("t"), 2)

    assert [(p.error_code, p.base_offset) for p in produced_in(client.receive())] == [
        (0, 0),
        (0, 1),
    ]
    assert stage.commit_waits.size == 0


def test_produce_finds_topics_by_id(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))

    answer = stage.connect().call(produce_to((uuid.uuid4(), 0, a_batch()), version=13))

    assert codes(answer) == [ErrorCode.unknown_topic_id]


# -- batches that are refused ----------------------------------------------------------------------


def _transactional() -> bytes:
    identity = ProducerIdentity(5, 0, 0)
    return bytes(build_batch([NewRecord(b"v")], producer=identity, is_transactional=True))


def _corrupt() -> bytes:
    return a_batch()[:-1] + b"\xff"


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.invalid_record),
        (b"", ErrorCode.invalid_record),
        (a_batch()[:30], ErrorCode.corrupt_message),
        (_corrupt(), ErrorCode.corrupt_message),
        (a_batch() + a_batch(), ErrorCode.invalid_record),
        (a_batch(b"x" * 2_000), ErrorCode.message_too_large),
        (_transactional(), ErrorCode.transactional_id_authorization_failed),
    ],
)
def test_refused_batch_does_not_affect_the_others(
    stage: HandlerStage, records: bytes | None, code: ErrorCode
) -> None:
    stage.update(a_topic("t", ALONE, ALONE, configs={"max.message.bytes": "1000"}))

    answer = stage.connect().call(produce_to(("t", 0, records), ("t", 1, a_batch(b"good"))))

    assert codes(answer) == [code, 0]
    assert stage.partition("t").log.log_end_offset == 0
    assert values_in(stage, 1) == [b"good"]


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_invalid_acks_are_refused(stage: HandlerStage, acks: int) -> None:
    stage.update(a_topic("t", ALONE))

    answer = stage.connect().call(produce_to(("t", 0, a_batch()), acks=acks))

    assert codes(answer) == [ErrorCode.invalid_required_acks]
    assert stage.partition("t").log.log_end_offset == 0


def test_zstd_is_refused_before_version_7(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    batch = bytes(build_batch([NewRecord(b"v")], codec=Compression.ZSTD))
    client = stage.connect()

    answers = [client.call(produce_to(("t", 0, batch), version=version)) for version in (6, 7)]

    assert [codes(a) for a in answers] == [[ErrorCode.unsupported_compression_type], [0]]


def test_failed_disk_does_not_affect_other_partitions(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, ALONE, configs={"segment.bytes": "100"}))
    client = stage.connect()
    both = produce_to(("t", 0, a_batch()), ("t", 1, a_batch()))
    assert codes(client.call(both)) == [0, 0]

    shutil.rmtree(stage.partition("t").log.directory)  # so the next segment cannot be begun

    assert codes(client.call(both)) == [ErrorCode.kafka_storage_error, 0]
    assert client.closed_because is None
    assert stage.table.offline.partitions() == [("t", 0)]  # until the next start copies it again


def test_records_are_synced_after_flush_messages(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE, configs={"flush.messages": "3"}))
    client = stage.connect()
    synced = []
    for _ in range(7):
        assert codes(client.call(produce_to(("t", 0, a_batch())))) == [0]
        synced.append(stage.partition("t").log.durability.recovery_point)
    assert synced == [0, 0, 3, 3, 3, 6, 6]


def test_records_that_cannot_be_synced_are_not_acknowledged(
    stage: HandlerStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.update(a_topic("t", ALONE, configs={"flush.messages": "2"}))
    client = stage.connect()
    assert codes(client.call(produce_to(("t", 0, a_batch())))) == [0]

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(LogFiles, "sync_data", staticmethod(refuse))
        answer = client.call(produce_to(("t", 0, a_batch())))
    assert codes(answer) == [ErrorCode.kafka_storage_error]
    assert stage.partition("t").log.durability.recovery_point == 0
    assert codes(client.call(produce_to(("t", 0, a_batch())))) == [0]
    assert stage.partition("t").log.durability.recovery_point == 3


# -- acks=0 ----------------------------------------------------------------------------------------


def test_acks_0_is_not_answered(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()

    assert client.call(produce_to(("t", 0, a_batch(b"v")), acks=0)) is None
    assert not client.is_waiting
    assert client.is_open
    assert values_in(stage) == [b"v"]


def test_acks_0_with_an_error_closes_the_connection(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()

    client.send(produce_to(("t", 0, a_batch(b"v")), ("t", 9, a_batch()), acks=0))

    assert client.closed_because is not None
    assert "t-9 failed: unknown_topic_or_partition" in client.closed_because
    assert values_in(stage) == [b"v"]


# -- acks=all --------------------------------------------------------------------------------------


def test_acks_all_waits_for_every_in_sync_replica(stage: HandlerStage) -> None:
    stage.update(a_topic("t", a_partition([BROKER, OTHER, THIRD])))
    partition = stage.partition("t")
    client = stage.connect()

    assert client.call(produce_to(("t", 0, a_batch()))) is None
    stage.follower_fetches(OTHER, partition, 1)
    assert client.receive() is None
    stage.follower_fetches(THIRD, partition, 1)

    (produced,) = produced_in(client.receive())
    assert (produced.error_code, produced.base_offset) == (0, 0)
    assert stage.commit_waits.size == 0


def test_timeout_is_reported_for_the_uncommitted_partitions_only(stage: HandlerStage) -> None:
    stage.update(a_topic("t", BOTH, BOTH, ALONE))
    client = stage.connect()

    client.call(
        produce_to(*(("t", number, a_batch()) for number in (0, 1, 2, 3)), timeout_ms=1_000)
    )
    stage.follower_fetches(OTHER, stage.partition("t", 1), 1)
    stage.pass_time(999)
    assert client.receive() is None
    stage.pass_time(1)

    late, unknown = ErrorCode.request_timed_out, ErrorCode.unknown_topic_or_partition
    assert codes(client.receive()) == [late, 0, 0, unknown]
    assert stage.partition("t", 0).log.log_end_offset == 1  # it may be committed later
    assert stage.commit_waits.size == 0


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_request_without_wait_time_times_out(stage: HandlerStage, timeout_ms: int) -> None:
    stage.update(a_topic("t", BOTH))

    answer = stage.connect().call(produce_to(("t", 0, a_batch()), timeout_ms=timeout_ms))

    assert codes(answer) == [ErrorCode.request_timed_out]


def test_batch_is_refused_when_there_are_too_few_in_sync_replicas_before_the_append(
    stage: HandlerStage,
) -> None:
    stage.update(
        a_topic(
            "t", a_partition([BROKER, OTHER], isr=[BROKER]), configs={"min.insync.replicas": "2"}
        )
    )

    answer = stage.connect().call(produce_to(("t", 0, a_batch())))

    assert codes(answer) == [ErrorCode.not_enough_replicas]
    assert stage.partition("t").log.log_end_offset == 0


def test_batch_is_reported_when_there_are_too_few_in_sync_replicas_after_the_append(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", BOTH, configs={"min.insync.replicas": "2"}))
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch())))

    stage.update(
        a_topic(
            "t",
            a_partition([BROKER, OTHER], isr=[BROKER], partition_epoch=1),
            configs={"min.insync.replicas": "2"},
        )
    )

    assert codes(client.receive()) == [ErrorCode.not_enough_replicas_after_append]


def test_waiting_batch_is_refused_when_the_leader_is_replaced(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", BOTH))
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch())))

    stage.update(
        a_topic("t", a_partition([BROKER, OTHER], leader=OTHER, leader_epoch=1, partition_epoch=1))
    )

    assert codes(client.receive()) == [ErrorCode.not_leader_or_follower]


def test_waiting_batch_is_refused_when_the_topic_is_deleted(stage: HandlerStage) -> None:
    stage.update(a_topic("t", BOTH))
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch())))

    stage.update(deleted=("t",))

    assert codes(client.receive()) == [ErrorCode.not_leader_or_follower]


def test_parked_produce_is_dropped_but_its_batch_is_kept_when_the_client_disconnects(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", BOTH))
    client = stage.connect()
    client.call(produce_to(("t", 0, a_batch(b"v"))))

    client.close()

    assert stage.commit_waits.size == 0
    stage.follower_fetches(OTHER, stage.partition("t"), 1)
    stage.pass_time(1_000)
    assert values_in(stage) == [b"v"]


@pytest.mark.parametrize("waits", [False, True])
def test_produce_to_the_wrong_broker_returns_the_leader(stage: HandlerStage, waits: bool) -> None:
    """Also if another partition of the request has to wait (KIP-951)."""
    stage.update(a_topic("t", a_partition([OTHER]), BOTH if waits else ALONE))
    client = stage.connect()

    answer = client.call(produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), acks=-1, version=10))
    if waits:
        stage.follower_fetches(OTHER, stage.partition("t", 1), 1)
        answer = client.receive()

    moved, appended = produced_in(answer)
    assert (moved.error_code, appended.error_code) == (ErrorCode.not_leader_or_follower, 0)
    assert moved.current_leader.leader_id == OTHER
    assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(OTHER, "host2", 9094)]


def test_a_waiting_produce_returns_the_new_leader_when_leadership_moves(
    stage: HandlerStage,
) -> None:
    stage.update(a_topic("t", BOTH, BOTH))
    client = stage.connect()
    client.send(produce_to(("t", 0, a_batch()), ("t", 1, a_batch()), acks=-1, version=10))
    assert client.receive() is None

    moved = a_partition([OTHER, BROKER], leader_epoch=1)
    stage.update(a_topic("t", moved, moved))

    answer = client.receive()
    for result in produced_in(answer):
        assert result.error_code == ErrorCode.not_leader_or_follower
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (OTHER, 1)
    assert [(e.node_id, e.host, e.port) for e in answer.node_endpoints] == [(OTHER, "host2", 9094)]


# -- idempotent producers --------------------------------------------------------------------------


def from_producer(sequence: int, epoch: int = 0) -> bytes:
    return a_batch(producer=ProducerIdentity(77, epoch, sequence))


def test_duplicate_batch_gets_the_first_answer_and_is_appended_once(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()

    answers = [
        client.call(produce_to(("t", 0, from_producer(sequence)))) for sequence in (0, 1, 0, 1, 2)
    ]

    assert [(p.error_code, p.base_offset) for a in answers for p in produced_in(a)] == [
        (0, 0),
        (0, 1),
        (0, 0),
        (0, 1),
        (0, 2),
    ]
    assert stage.partition("t").log.log_end_offset == 3


def test_duplicate_batch_waits_for_its_first_copy(stage: HandlerStage) -> None:
    stage.update(a_topic("t", BOTH))
    lost, again = stage.connect(), stage.connect()
    lost.call(produce_to(("t", 0, from_producer(0))))
    lost.close()

    assert again.call(produce_to(("t", 0, from_producer(0)))) is None
    stage.follower_fetches(OTHER, stage.partition("t"), 1)

    assert [(p.error_code, p.base_offset) for p in produced_in(again.receive())] == [(0, 0)]


def test_duplicate_batch_within_a_request_is_appended_once(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))

    answer = stage.connect().call(
        produce_to(("t", 0, from_producer(0)), ("t", 0, from_producer(0)))
    )

    assert [(p.error_code, p.base_offset) for p in produced_in(answer)] == [(0, 0), (0, 0)]
    assert stage.partition("t").log.log_end_offset == 1


def test_sequences_and_epochs_out_of_order_are_refused(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()
    batches = [from_producer(0), from_producer(2), from_producer(0, 1), from_producer(1, 0)]

    answers = [codes(client.call(produce_to(("t", 0, batch)))) for batch in batches]

    out, old = ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_producer_epoch
    assert answers == [[0], [out], [0], [old]]


def test_a_plain_batch_of_a_transactional_client_is_appended(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))

    answer = stage.connect().call(produce_to(("t", 0, a_batch()), transactional_id="tx"))

    assert codes(answer) == [0]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("client_id", ["any", "__admin_client"])
def test_client_produce_to_the_metrics_topic_is_refused(
    stage: HandlerStage, version: int, client_id: str
) -> None:
    topic = a_topic(METRICS_TOPIC, ALONE)
    stage.update(topic, a_topic("t", ALONE))
    name: Any = topic.topic_id if version >= 13 else METRICS_TOPIC
    client = stage.connect()
    client.client_id = client_id

    (refused,) = produced_in(client.call(produce_to((name, 0, a_batch()), version=version)))

    assert refused.error_code == ErrorCode.invalid_topic_exception
    if version >= 8:
        assert refused.error_message == (
            "Only brokers append to __cluster_metrics, unless"
            " milena.metrics.topic.client.produce=true"
        )
    assert stage.partition(METRICS_TOPIC).log.log_end_offset == 0


def test_client_produce_to_the_metrics_topic_is_allowed_by_a_setting(stage: HandlerStage) -> None:
    stage.update(a_topic(METRICS_TOPIC, ALONE))
    client = stage.connect()
    asked = produce_to((METRICS_TOPIC, 0, a_batch()))
    assert codes(client.call(asked)) == [ErrorCode.invalid_topic_exception]

    live = stage.core.foundation.live
    values = {METRICS_TOPIC_CLIENT_PRODUCE.name: "true"}
    live.replace(applied(live.started, {CLUSTER_WIDE: values}).settings)

    assert codes(client.call(asked)) == [0]


# -- records that are refused ----------------------------------------------------------------------

KEYLESS = "Compacted topic cannot accept message without key in topic partition t-0"


@pytest.mark.parametrize("policy", ["compact", "delete,compact"])
@pytest.mark.parametrize("version", range(3, 14))
def test_compacted_topic_refuses_records_without_a_key(
    stage: HandlerStage, version: int, policy: str
) -> None:
    topic = a_topic("t", ALONE, configs={"cleanup.policy": policy})
    stage.update(topic)
    name: Any = topic.topic_id if version >= 13 else "t"
    client = stage.connect()
    batch = bytes(build_batch([NewRecord(b"a", b"k", 1), NewRecord(b"b", None, 1)]))

    (refused,) = produced_in(client.call(produce_to((name, 0, batch), version=version)))

    assert (refused.error_code, refused.base_offset) == (ErrorCode.invalid_record, -1)
    assert values_in(stage) == []
    if version >= 8:
        (error,) = refused.record_errors
        assert (error.batch_index, error.batch_index_error_message) == (1, KEYLESS)
        assert refused.error_message.startswith("One or more records have been rejected due to 1")


def test_topic_accepts_records_without_a_key_until_it_is_compacted(stage: HandlerStage) -> None:
    stage.update(a_topic("t", ALONE))
    client = stage.connect()
    assert codes(client.call(produce_to(("t", 0, a_batch(b"a"))))) == [0]

    stage.update(a_topic("t", ALONE, configs={"cleanup.policy": "compact"}))

    assert codes(client.call(produce_to(("t", 0, a_batch(b"b"))))) == [ErrorCode.invalid_record]
    keyed = bytes(build_batch([NewRecord(b"c", b"k", 1)]))
    assert codes(client.call(produce_to(("t", 0, keyed)))) == [0]
    assert values_in(stage) == [b"a", b"c"]


@pytest.mark.parametrize(("ahead_ms", "code"), [(3_600_000, 0), (3_600_001, 32)])
def test_record_timestamp_may_be_an_hour_ahead_of_the_broker(
    stage: HandlerStage, ahead_ms: int, code: int
) -> None:
    stage.update(a_topic("t", ALONE))
    batch = a_batch(timestamp_ms=WALL_MS + ahead_ms)

    (produced,) = produced_in(stage.connect().call(produce_to(("t", 0, batch))))

    assert produced.error_code == code
    assert [error.batch_index for error in produced.record_errors] == ([0] if code else [])
