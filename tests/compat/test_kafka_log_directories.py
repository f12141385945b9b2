"""Kafka's dump tool, and Kafka brokers themselves, on our log directories; and ours on Kafka's."""

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.compat.confluent_records import TIMEOUT_S, assigning_consumer, produce, read_all
from tests.compat.kafka_process import KafkaProcess, require_kafka, run_tool
from tests.compat.samples import COMPRESSIONS, NOW_MS, PARTITIONS, SAMPLES, Sample, by_partition
from tests.support.broker_probes import list_offsets_request, produced
from tests.support.kafka_wire import WireClient
from tests.support.keyed_records import read_partition
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import create_topic, describe
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

NewCluster = Callable[..., Cluster]

DUMP = "kafka.tools.DumpLogSegments"
# Many segments, each with many index entries.
CONFIGS = {"segment.bytes": "4000", "index.interval.bytes": "300"}
SMALL = [
    *(sample for sample in SAMPLES if len(sample.value or b"") < 1_000),
    *(Sample(2, b"k", b"compressible " * 8, (), NOW_MS + n) for n in range(20)),
]
ONE_WRITING = {
    partition: samples * len(COMPRESSIONS) for partition, samples in by_partition(SMALL).items()
}
TIMESTAMPS = [-1, -2, -3, 0, NOW_MS - 1, NOW_MS, *range(NOW_MS + 1, NOW_MS + 202, 25)]


def write(bootstrap: str, topic: str) -> None:
    """The small samples once with each codec, in many batches; adds ONE_WRITING to the topic."""
    for codec in COMPRESSIONS:
        delivered = produce(
            bootstrap,
            topic,
            SMALL,
            compression_type=codec,
            enable_idempotence=codec == "none",  # for each: half a second until it has its id
            batch_size=500,
        )
        assert [error for error, _ in delivered if error] == []


def read(bootstrap: str, topic: str) -> dict[int, list[Sample]]:
    with assigning_consumer(bootstrap) as consumer:
        return read_all(consumer, topic)


def times(count: int) -> dict[int, list[Sample]]:
    """What is there after so many writings."""
    return {partition: samples * count for partition, samples in ONE_WRITING.items()}


# -- the dump tool ----------------------------------------------------------------------------


class Dumped(NamedTuple):
    offset: int
    timestamp_ms: int
    header_keys: tuple[str, ...]
    key: str | None
    value: str | None


_RECORD = re.compile(
    r"\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+)"
    r"(?: sequence: -?\d+)? headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?"
)


def dumped_records(text: str) -> Iterable[Dumped]:
    """The records that `--print-data-log` shows, of one log after the other."""
    for line in text.splitlines():
        if line.startswith("| offset"):
            matched = _RECORD.fullmatch(line)
            assert matched, line
            offset, timestamp, key_size, value_size, headers, key, value = matched.groups()
            yield Dumped(
                int(offset),
                int(timestamp),
                tuple(headers.split(",")) if headers else (),
                None if key_size == "-1" else key,
                None if value_size == "-1" else value,
            )


def test_dump_log_finds_every_record_and_no_fault(new_cluster: NewCluster) -> None:
    require_kafka()
    cluster = new_cluster(brokers=1).start()
    topic = create_topic(
        cluster, "orders", partitions=PARTITIONS, replication_factor=1, configs=CONFIGS
    )
    write(cluster.bootstrap, topic)
    cluster.stop()

    directory = cluster.log_dir(0)
    logs = sorted(directory.glob(f"{topic}-2/*.log"))
    suffixes = ("index", "timeindex", "snapshot")
    others = [p for s in suffixes for p in directory.glob(f"{topic}-*/*.{s}")]
    assert len(logs) > 3
    text = run_tool(
        DUMP, "--deep-iteration", "--print-data-log", "--files", joined([*logs, *others])
    )
    assert no_faults(text)
    assert text.count("isvalid: true") == text.count("baseOffset: ") > 20
    assert set(re.findall(r"compresscodec: (\w+)", text)) == set(COMPRESSIONS)
    assert "producerId: " in text.partition(".snapshot")[2]
    expected = [
        Dumped(
            offset,
            sample.timestamp_ms,
            tuple(name for name, _ in sample.headers),
            (sample.key or b"").decode(),
            (sample.value or b"").decode(),
        )
        for offset, sample in enumerate(ONE_WRITING[2])
    ]
    assert list(dumped_records(text)) == expected

    indexes = joined([path for path in others if path.suffix != ".snapshot"])
    text = run_tool(DUMP, "--index-sanity-check", "--files", indexes)
    assert no_faults(text)
    assert text.count("passed sanity check") == indexes.count(",") + 1


def joined(paths: list[Path]) -> str:
    """The paths as one argument of the tool."""
    return ",".join(map(str, paths))


def no_faults(text: str) -> bool:
    """No line of a dump complains."""
    words = ("mismatch", "error", "exception", "invalid", "corrupt", "out of order", "not found")
    assert [line for line in text.splitlines() if any(word in line.lower() for word in words)] == []
    return True


# -- brokers take turns -----------------------------------------------------------------------


def lists_offsets(address: Address, topic: str) -> list[tuple[int, int]]:
    """Timestamp and offset that a broker finds for each of TIMESTAMPS, in partition 0."""
    found = []
    with WireClient(address) as client:
        for timestamp in TIMESTAMPS:
            answer = client.call(list_offsets_request(topic, timestamp))
            (partition,) = answer.topics[0].partitions
            assert partition.error_code == 0, partition
            found.append((partition.timestamp, partition.offset))
    return found


def send(address: Address, topic: str, sequence: int) -> tuple[int, int]:
    """Send two records as an idempotent client would, also as its repetition.

    Returns the answer's error code and base offset.
    """
    now_ms = int(time.time() * 1_000)  # a producer whose last record is old is forgotten
    batch = build_batch(
        [NewRecord(b"a", timestamp_ms=now_ms), NewRecord(b"b", timestamp_ms=now_ms)],
        producer=ProducerIdentity(7_000, 0, sequence),
    )
    with WireClient(address) as client:
        answer: Any = produced(client, topic, bytes(batch))
    return answer.error_code, answer.base_offset


def wait_for_leaders(address: Address, *topics: str) -> None:
    """Until a broker says that it leads every partition of these topics."""

    def leads() -> bool:
        view = describe(address, *topics)
        return view is not None and all(
            partition.leader_id == 0 for topic in view.topics for partition in topic.partitions
        )

    wait_until(leads, f"leaders of {topics}", 60)


@pytest.mark.parametrize("end", ["TERM", "KILL"])
def test_kafka_and_milena_open_each_others_logs(new_cluster: NewCluster, end: str) -> None:
    """One log directory, one registry: our broker, then Kafka's with the same id, ours again.

    Each ends in order (TERM) or is killed and leaves recovery to the next (KILL).
    """
    require_kafka()
    cluster = new_cluster(brokers=1).start()
    address = cluster.addresses[0]
    orders = create_topic(
        cluster, "orders", partitions=PARTITIONS, replication_factor=1, configs=CONFIGS
    )
    numbered = create_topic(cluster, "numbered", replication_factor=1)
    ledger = create_topic(cluster, "ledger", replication_factor=1)
    write(cluster.bootstrap, orders)
    assert [send(address, numbered, sequence) for sequence in (0, 2)] == [(0, 0), (0, 2)]
    ours = lists_offsets(address, orders)
    cluster.kill(0, end, stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")

    with KafkaProcess(
        cluster.log_dir(0),
        broker_id=0,
        address=address,
        registry=cluster.state()["registry"],
        overrides={"zookeeper.session.timeout.ms": "6000"},
    ) as kafka:
        wait_for_leaders(address, orders, numbered, ledger)
        assert read(kafka.bootstrap, orders) == times(1)
        assert lists_offsets(address, orders) == ours
        assert send(address, numbered, 2) == (0, 2)  # known from our snapshot, or from the log
        assert send(address, numbered, 4) == (0, 4)
        write(kafka.bootstrap, orders)
        transact(kafka.bootstrap, ledger)
        kafkas = lists_offsets(address, orders)
        if end == "TERM":
            kafka.stop()
        else:
            kafka.kill()
        assert " ERROR " not in kafka.log()

    # What Kafka's broker has written has no damage for us, and it runs no more.
    assert cluster.command("verify").stdout.endswith(": no damage\n")
    cluster.restart(0)
    wait_for_leaders(address, orders, numbered, ledger)
    assert read(cluster.bootstrap, orders) == times(2)
    assert lists_offsets(address, orders) == kafkas
    assert send(address, numbered, 4) == (0, 4)
    assert send(address, numbered, 6) == (0, 6)
    # 2 and 5 end transactions, of which the second was aborted.
    assert offsets_of(cluster.bootstrap, ledger, "read_uncommitted") == [0, 1, 3, 4]
    assert offsets_of(cluster.bootstrap, ledger, "read_committed") == [0, 1]
    write(cluster.bootstrap, orders)
    assert read(cluster.bootstrap, orders) == times(3)
    assert cluster.log_lines(0, "WARNING") == []


def test_kafka_and_milena_open_logs_from_which_the_other_has_deleted(
    new_cluster: NewCluster,
) -> None:
    """Old segments, and records by request: whoever comes next begins where the log begins."""
    require_kafka()
    looks_often = {"log.retention.check.interval.ms": "200"}
    cluster = new_cluster(brokers=1, overrides=looks_often).start()
    address = cluster.addresses[0]
    small = {"segment.bytes": "4000", "file.delete.delay.ms": "100"}
    aged, cut = (
        create_topic(cluster, name, partitions=PARTITIONS, replication_factor=1, configs=configs)
        for name, configs in (("aged", small | {"retention.bytes": "8000"}), ("cut", small))
    )
    for topic in (aged, cut):
        write(cluster.bootstrap, topic)
    wait_until(lambda: begins_at(cluster.bootstrap, aged) > 0, "old segments to go")
    delete_before(cluster.bootstrap, cut, 501)
    ours = [read_partition(cluster.bootstrap, topic, 2) for topic in (aged, cut)]
    assert ours[1][0][0] == 501
    cluster.kill(0, "TERM", stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")

    with KafkaProcess(
        cluster.log_dir(0),
        broker_id=0,
        address=address,
        registry=cluster.state()["registry"],
        overrides={"zookeeper.session.timeout.ms": "6000"},
    ) as kafka:
        wait_for_leaders(address, aged, cut)
        assert [read_partition(kafka.bootstrap, topic, 2) for topic in (aged, cut)] == ours
        delete_before(kafka.bootstrap, cut, 702)
        kafkas = [read_partition(kafka.bootstrap, topic, 2) for topic in (aged, cut)]
        kafka.stop()
        assert " ERROR " not in kafka.log()

    cluster.restart(0)
    wait_for_leaders(address, aged, cut)
    assert [read_partition(cluster.bootstrap, topic, 2) for topic in (aged, cut)] == kafkas
    assert kafkas[1][0][0] == 702


def begins_at(bootstrap: str, topic: str) -> int:
    """The first offset of partition 2."""
    with assigning_consumer(bootstrap) as consumer:
        low: int = consumer.get_watermark_offsets(TopicPartition(topic, 2), TIMEOUT_S)[0]
        return low


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """Delete records of partition 2."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = client.delete_records([TopicPartition(topic, 2, offset)]).values()
    assert future.result(TIMEOUT_S).low_watermark == offset


def transact(bootstrap: str, topic: str) -> None:
    """Two transactions of two records, the first committed, the second aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bookkeeper"})
    producer.init_transactions(TIMEOUT_S)
    for finish in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for value in ("debit", "credit"):
            producer.produce(topic, value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        finish(TIMEOUT_S)


def offsets_of(bootstrap: str, topic: str, isolation_level: str) -> list[int]:
    """The offsets of the records of partition 0 that a consumer is given."""
    offsets: list[int] = []
    with assigning_consumer(bootstrap, isolation_level=isolation_level) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message: Any = consumer.poll(TIMEOUT_S)
            assert message is not None, offsets
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                return offsets
            offsets.append(message.offset())
