"""Kafka's brokers on logs that ours have compacted, ours on Kafka's; both clean a log alike."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cluster.log.checkpoints import DamagedCheckpoint, read_offsets
from cluster.log.cleaner.cleaning_process import work
from cluster.log.cleaner.log_work import CleanerLimits, find_work, order_of, swap_in
from cluster.log.cleaner.order import CLEANED, DONE
from cluster.log.options import CleaningPolicy, LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset, TopicPartition
from cluster.records.batch import BatchHeader, batches_of
from cluster.records.reader import Record, read_records
from tests.compat.confluent_records import TIMEOUT_S
from tests.compat.kafka_process import KafkaProcess, require_kafka, run_tool
from tests.compat.test_kafka_log_directories import (
    DUMP,
    joined,
    lists_offsets,
    no_faults,
    wait_for_leaders,
)
from tests.support.keyed_records import KeyedWriter, newest_of, read_partition
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

NewCluster = Callable[..., Cluster]

OFTEN = {"log.cleaner.backoff.ms": "200"}
SEGMENT_BYTES = 6_000
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "index.interval.bytes": "300",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "100",
}
CODECS = ["none", "gzip", "snappy", "zstd"]
KAFKAS = {"zookeeper.session.timeout.ms": "6000", "log.cleaner.dedupe.buffer.size": "4000000"}


def write(bootstrap: str, topic: str) -> dict[bytes, bytes | None]:
    """Repeated keys, tombstones, codecs, idempotent producers; returns what is the newest."""
    newest: dict[bytes, bytes | None] = {}
    for number, codec in enumerate(CODECS):
        writer = KeyedWriter(bootstrap, topic, compression_type=codec)
        writer.write(120, keys=9 + number)
        for key in (b"key-2", b"gone-%d" % number):
            writer.put(key, None)
        writer.put(b"only-%s" % codec.encode(), b"value" * 20)
        writer.flush()
        newest |= writer.newest
    return newest


def cleaned_to(directory: Path, topic: str) -> int:
    """How far the checkpoint says that a partition is clean."""
    try:
        offsets = read_offsets(directory / "cleaner-offset-checkpoint")
    except DamagedCheckpoint:
        return 0  # Kafka makes an empty file first
    return offsets.get(TopicPartition(topic, 0), 0)


def last_segment(directory: Path, topic: str) -> int:
    return max(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log"))


def wait_until_clean(directory: Path, topic: str) -> None:
    """Until all closed segments were cleaned, by whichever broker runs on the directory."""
    wait_until(
        lambda: cleaned_to(directory, topic) == last_segment(directory, topic) > 0,
        "a whole cleaning",
    )


def agree(ours: list[tuple[int, int]], kafkas: list[tuple[int, int]]) -> bool:
    """Whether both find the same offsets by timestamp.

    Kafka looks into the first segment that may have one, and no further: where compaction has left
    that one without records, it finds nothing.
    """
    return all(kafka in {(-1, -1), own} for own, kafka in zip(ours, kafkas, strict=True))


def test_kafka_opens_a_log_that_ours_have_compacted(new_cluster: NewCluster) -> None:
    require_kafka()
    cluster = new_cluster(
        brokers=1, overrides=OFTEN | {"replica.high.watermark.checkpoint.interval.ms": "500"}
    ).start()
    address, directory = cluster.addresses[0], cluster.log_dir(0)
    topic = create_topic(cluster, "ledger", replication_factor=1, configs=COMPACTED)
    newest = write(cluster.bootstrap, topic)
    wait_until_clean(directory, topic)
    ours = read_partition(cluster.bootstrap, topic)
    offsets = lists_offsets(address, topic)
    assert newest_of(ours) == newest
    assert len(ours) < 300
    cluster.kill(0, "TERM", stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")

    paths = sorted((directory / f"{topic}-0").iterdir())
    logs = [path for path in paths if path.suffix == ".log"]
    indexes = [path for path in paths if path.suffix in {".index", ".timeindex"}]
    assert no_faults(run_tool(DUMP, "--deep-iteration", "--files", joined([*logs, *indexes])))
    assert no_faults(run_tool(DUMP, "--index-sanity-check", "--files", joined(indexes)))

    with KafkaProcess(
        directory,
        broker_id=0,
        address=address,
        registry=cluster.state()["registry"],
        overrides=KAFKAS | {"log.cleaner.enable": "false"},
    ) as kafka:
        wait_for_leaders(address, topic)
        assert read_partition(kafka.bootstrap, topic) == ours
        assert agree(offsets, lists_offsets(address, topic))
        kafka.stop()
        assert " ERROR " not in kafka.log()


def transact(bootstrap: str, topic: str) -> None:
    """Transactions with keys of their own and with others', every second one aborted."""
    for number in range(6):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"keeper-{number % 2}"}
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for key in (b"key-1", b"in-%d" % number, b"in-both"):
            producer.produce(topic, b"%d" % number * 40, key, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)


def open_log(directory: Path, topic: str) -> PartitionLog:
    """A partition that was closed in order, with the topic's options."""
    return PartitionLog.open(
        directory / f"{topic}-0",
        TopicPartition(topic, 0),
        LogOptions(
            segment_bytes=SEGMENT_BYTES,
            index_interval_bytes=300,
            is_compacted=True,
            cleaning=CleaningPolicy(min_dirty_ratio=0.01),
        ),
        WallMs(0),  # no producer is too old to be known
        clean_shutdown=True,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
    )


def clean(log: PartitionLog) -> None:
    """One whole cleaning by our code, in this process."""
    wall_ms = WallMs(1_700_000_000_000)
    cleanable = find_work(log, log.log_end_offset, wall_ms)
    assert cleanable is not None
    limits = CleanerLimits(1 << 20, 0.9, 4096, float("inf"))
    messages: list[Any] = []
    work(order_of(log, cleanable, limits, wall_ms).to_message(), messages.append)
    assert messages[-1]["kind"] == DONE, messages[-1]
    for message in messages[:-1]:
        assert message["kind"] == CLEANED
        assert swap_in(log, message["sources"])


def batches(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch: its header without what a codec's or a clock's choice decides, its records."""
    found = []
    for segment in log.segments:
        for header, batch in batches_of(segment.file.view(0, segment.file.size_bytes)):
            same = header._replace(batch_length=0, crc=0, base_timestamp=0)
            found.append((same, list(read_records(batch, with_control=True))))
    return found


def test_ours_open_a_log_that_kafka_has_compacted_and_would_clean_it_alike(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    require_kafka()
    cluster = new_cluster(brokers=1, overrides={"log.cleaner.enable": "false"}).start()
    address, directory = cluster.addresses[0], cluster.log_dir(0)
    topic = create_topic(cluster, "ledger", replication_factor=1, configs=COMPACTED)
    write(cluster.bootstrap, topic)
    cluster.kill(0, "TERM", stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")

    def kafka(**overrides: str) -> KafkaProcess:
        return KafkaProcess(
            directory,
            broker_id=0,
            address=address,
            registry=cluster.state()["registry"],
            overrides=KAFKAS | {key.replace("_", "."): one for key, one in overrides.items()},
        )

    with kafka(log_cleaner_enable="false") as writing:
        wait_for_leaders(address, topic)
        write(writing.bootstrap, topic)
        transact(writing.bootstrap, topic)
        newest = write(writing.bootstrap, topic)
        writing.stop()
    shutil.copytree(directory / f"{topic}-0", tmp_path / "dirty" / f"{topic}-0")
    with kafka(log_cleaner_backoff_ms="200") as cleaning:
        wait_for_leaders(address, topic)
        wait_until_clean(directory, topic)
        kafkas = read_partition(cleaning.bootstrap, topic)
        offsets = lists_offsets(address, topic)
        cleaning.stop()

    ours = open_log(tmp_path / "dirty", topic)
    dirty = batches(ours)
    clean(ours)
    shutil.copytree(directory / f"{topic}-0", tmp_path / "kafkas" / f"{topic}-0")
    theirs = open_log(tmp_path / "kafkas", topic)
    assert batches(ours) == batches(theirs)
    assert len(batches(ours)) < len(dirty) / 2
    assert [one.base_offset for one in ours.segments] == [
        one.base_offset for one in theirs.segments
    ]

    cluster.restart(0)
    wait_for_leaders(address, topic)
    assert read_partition(cluster.bootstrap, topic) == kafkas
    assert agree(lists_offsets(address, topic), offsets)
    assert newest.items() <= newest_of(kafkas).items()
    assert cluster.log_lines(0, "WARNING") == []
