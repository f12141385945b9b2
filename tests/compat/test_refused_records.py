"""Records that a topic refuses: the errors that clients get, which are the same as Kafka's."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer, errors

from cluster.model.errors import ErrorCode
from cluster.records.batch import LOG_APPEND_TIME_BIT, Compression
from cluster.records.builder import NewRecord, build_batch
from cluster.records.compression import compress
from cluster.records.varint import write_varint
from tests.compat.kafka_process import KafkaProcess, require_kafka, run_tool
from tests.compat.zookeeper_server import HOST, free_port
from tests.integration.registry_process import RegistryProcess
from tests.support.handler_requests import list_offsets_of, offsets_in
from tests.support.kafka_wire import WireClient, produce_request
from tests.support.running_cluster import Address, Cluster
from tests.support.stored_batches import with_header
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat]

KEYLESS = "Compacted topic cannot accept message without key in topic partition {}-0"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def compacted(cluster: Cluster) -> str:
    return create_topic(cluster, configs={"cleanup.policy": "compact"})


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_librdkafka_is_told_of_a_missing_key(cluster: Cluster, compacted: str, codec: str) -> None:
    told: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 50}
    )
    for key in (b"k", None):
        producer.produce(
            compacted, b"v" * 100, key, on_delivery=lambda error, _: told.append(error)
        )
        assert producer.flush(60) == 0
    accepted, refused = told
    assert accepted is None
    assert refused is not None
    assert refused.code() == KafkaError.INVALID_RECORD


def test_kafka_python_is_told_of_a_missing_key(cluster: Cluster, compacted: str) -> None:
    # An idempotent one of this client takes nothing more after a refusal.
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=False)
    try:
        with pytest.raises(errors.InvalidRecordError):
            producer.send(compacted, b"v").get(60)
        assert producer.send(compacted, b"v", b"k").get(60).offset >= 0
    finally:
        producer.close()


def test_a_timestamp_of_the_far_future_is_refused(cluster: Cluster) -> None:
    topic = create_topic(cluster)
    told: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    now_ms = time.time_ns() // 1_000_000
    for ahead_ms in (HOUR_MS - 60_000, HOUR_MS + 60_000):
        producer.produce(
            topic,
            b"v",
            timestamp=now_ms + ahead_ms,
            on_delivery=lambda error, _: told.append(error),
        )
        assert producer.flush(60) == 0
    assert [error and error.code() for error in told] == [None, KafkaError.INVALID_TIMESTAMP]


@pytest.mark.beyond_pypi
@pytest.mark.slow
def test_the_java_producer_is_told_which_record(cluster: Cluster, compacted: str) -> None:
    require_kafka()
    text = run_tool(
        "kafka.tools.ConsoleProducer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", compacted),
        stdin="no key\n",
    )
    assert "InvalidRecordException" in text
    assert KEYLESS.format(compacted) in text


# -- the same requests to Kafka --------------------------------------------------------------------


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A Kafka broker with the topic `compacted`, and with the timestamps' bound of Kafka 4."""
    require_kafka()
    path: Path = tmp_path_factory.mktemp("kafka")
    with (
        RegistryProcess(path / "registry", tick_time_ms=2_000) as registry,
        KafkaProcess(
            path / "logs",
            broker_id=7,
            address=(HOST, free_port()),
            registry=f"{HOST}:{registry.port}",
            overrides={
                "log.message.timestamp.after.max.ms": str(HOUR_MS),
                "log.message.timestamp.before.max.ms": str(HOUR_MS),
            },
        ) as process,
    ):
        admin = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0})
        topic = NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic], request_timeout=90)["compacted"].result(90)
        yield process.address


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> Address:
    configs = {
        "cleanup.policy": "compact",
        "message.timestamp.before.max.ms": str(HOUR_MS),
    }
    create_topic(cluster, "compacted", assignments=[[0, 1, 2]], configs=configs)
    return cluster.addresses[0]


def outcome(address: Address, batch: bytes, version: int) -> Any:
    """The broker's answer to a batch, without the present time that its error text contains."""
    with WireClient(address) as client:
        answer = client.call(produce_request("compacted", batch, version=version))
    ((told,),) = (one.partition_responses for one in answer.responses)
    if version < 8:
        return told.error_code
    errors_told = [
        (
            error.batch_index,
            re.sub(r"within \[\d+, \d+\]", "within", error.batch_index_error_message),
        )
        for error in told.record_errors
    ]
    return told.error_code, told.error_message, errors_told


@pytest.mark.beyond_pypi
@pytest.mark.slow
@pytest.mark.parametrize("version", [3, 7, 8, 9, 11])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize(
    ("keys", "ahead_ms"),
    [
        ([b"k"], [0]),
        ([None], [0]),
        ([b"k", None, b"", None, None, None], [0] * 6),
        ([b"k", b"k"], [0, 2 * HOUR_MS]),
        ([b"k", b"k"], [-2 * HOUR_MS, 0]),
        ([None, b"k"], [0, 2 * HOUR_MS]),
        ([None], [2 * HOUR_MS]),
    ],
)
def test_kafka_answers_refused_records_with_the_same_errors(
    ours: Address,
    kafka: Address,
    keys: list[bytes | None],
    ahead_ms: list[int],
    codec: Compression,
    version: int,
) -> None:
    now_ms = time.time_ns() // 1_000_000
    records = [
        NewRecord(b"value", key, now_ms + ahead) for key, ahead in zip(keys, ahead_ms, strict=True)
    ]
    batch = bytes(build_batch(records, codec=codec))
    told = outcome(ours, batch, version)
    assert told == outcome(kafka, batch, version)
    assert ErrorCode.corrupt_message not in (told if isinstance(told, tuple) else (told,))


def a_record(
    timestamp: int = 0,
    offset: int = 0,
    key: tuple[int, bytes] = (1, b"k"),
    value: tuple[int, bytes] = (1, b"v"),
    headers: bytes = b"\0",
) -> bytes:
    """One record; keys and values with the length that they claim."""
    body = bytearray(1)
    write_varint(body, timestamp)
    write_varint(body, offset)
    for claimed, content in (key, value):
        write_varint(body, claimed)
        body += content
    framed = bytearray()
    write_varint(framed, len(body) + len(headers))
    return bytes(framed + body + headers)


ONE, TWO = a_record(), a_record(offset=1)
BODIES = {
    "fewer records than the header says": (ONE, 3),
    "more records than the header says": (ONE + TWO, 1),
    "no record": (b"", 1),
    "bytes of ones": (b"\xff" * 40, 1),
    "bytes after the last record": (ONE + b"\0\0", 1),
    "record of 0 bytes": (b"\0", 1),
    "record of -1 bytes": (b"\1", 1),
    "header without a key": (a_record(headers=b"\x02\x01\x02x"), 1),
    "-1 headers": (a_record(headers=b"\1"), 1),
    "1,000 headers": (a_record(headers=b"\xd0\x0f"), 1),
    "value beyond its record": (a_record(value=(50, b"v")), 1),
    "value that is short of its record": (a_record(value=(2, b"vvvv")), 1),
    "size in six bytes": (b"\x8e\x80\x80\x80\x80\0" + ONE[1:], 1),
    # What Kafka accepts and its own consumer reads.
    "key of -2 bytes": (a_record(key=(-2, b"")), 1),
    "value of -2 bytes": (a_record(value=(-2, b"")), 1),
    "header with a value of -2 bytes": (a_record(headers=b"\x02\x02h\x03"), 1),
    "offsets 0, 0": (ONE + ONE, 2),
    "offsets 0, 5": (ONE + a_record(offset=5), 2),
}
STRICTER = {name for name in BODIES if "-2 bytes" in name or name.startswith("offsets")}


@pytest.mark.beyond_pypi
@pytest.mark.slow
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
@pytest.mark.parametrize("name", BODIES)
def test_kafka_refuses_the_same_bodies(
    ours: Address, kafka: Address, name: str, codec: Compression
) -> None:
    body, count = BODIES[name]
    now_ms = time.time_ns() // 1_000_000
    sound = build_batch([NewRecord(b"v", b"k", now_ms)] * count, codec=Compression.NONE)
    payload = compress(codec, body)
    batch = with_header(sound[:61] + payload, batch_length=49 + len(payload), attributes=int(codec))
    codes = [outcome(address, bytes(batch), 7) for address in (ours, kafka)]
    assert codes[0] == ErrorCode.invalid_record
    # Kafka has no code of its own for what its decoders throw.
    expected = [ErrorCode.invalid_record, ErrorCode.unknown_server_error]
    assert codes[1] in (expected if name not in STRICTER else [*expected, ErrorCode.none])


def leader_of(admin: AdminClient, topic: str) -> Address | None:
    """The broker that leads partition 0, once there is one."""
    metadata = admin.list_topics(topic, timeout=10)
    led_by = [one.leader for one in metadata.topics[topic].partitions.values()]
    brokers = [metadata.brokers[each] for each in led_by if each in metadata.brokers]
    return (brokers[0].host, brokers[0].port) if brokers else None


@pytest.mark.beyond_pypi
@pytest.mark.slow
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
@pytest.mark.parametrize("claimed", [-1, 0, 48 * HOUR_MS])
def test_kafka_finds_the_same_offsets_by_time(
    ours: Address, kafka: Address, codec: Compression, claimed: int
) -> None:
    """The header claims this much more than the first record, or nothing."""
    now_ms = time.time_ns() // 1_000_000
    stamps = [now_ms - 10_000, now_ms - 5_000, now_ms - 9_000]
    batch = with_header(
        build_batch([NewRecord(b"v", b"k", stamp) for stamp in stamps], codec=codec),
        max_timestamp=-1 if claimed < 0 else stamps[0] + claimed,
    )
    found = []
    name = f"timed-{codec.name}-{claimed}"
    for address in (ours, kafka):
        admin = AdminClient({"bootstrap.servers": "{}:{}".format(*address), "log_level": 0})
        admin.create_topics([NewTopic(name, 1, 1)], request_timeout=90)[name].result(90)
        leader = wait_until(lambda: leader_of(admin, name), f"a leader of {name}")  # noqa: B023
        with WireClient(leader) as client:
            answer = client.call(produce_request(name, bytes(batch), version=9))
            ((told,),) = (one.partition_responses for one in answer.responses)
            assert told.error_code == 0
            asked = [
                offsets_in(client.call(list_offsets_of(name, (0, stamp), version=7)))[0]
                for stamp in (*stamps, -3)
            ]
        found.append([(one.offset - told.base_offset, one.timestamp) for one in asked])
    assert found[0] == found[1]
    assert found[0][-1][0] == 1


@pytest.mark.beyond_pypi
@pytest.mark.slow
def test_kafka_drops_the_claim_of_the_brokers_time(ours: Address, kafka: Address) -> None:
    now_ms = time.time_ns() // 1_000_000
    batch = with_header(
        build_batch([NewRecord(b"v", b"k", now_ms)]), attributes=LOG_APPEND_TIME_BIT
    )
    assert [outcome(address, bytes(batch), 3) for address in (ours, kafka)] == [0, 0]
