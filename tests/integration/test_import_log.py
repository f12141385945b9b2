"""`import-log` into a running cluster: what comes out of the topic, also when its leader dies."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from cluster.records.batch import Compression
from cluster.records.builder import batch_at_offsets
from cluster.records.reader import Record
from tests.support.old_messages import old_compressed, old_message
from tests.support.running_cluster import Cluster
from tests.support.stored_batches import with_header
from tests.support.topics import create_topic, leader
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

ROOT = Path(__file__).parents[2]
STAMP = 1_700_000_000_000


def start_import(cluster: Cluster, *words: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "cluster", "import-log"),
            *("--bootstrap-server", cluster.bootstrap),
            *map(str, words),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_import(cluster: Cluster, *words: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    with start_import(cluster, *words) as process:
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def consumed(cluster: Cluster, topic: str, count: int) -> list[Record]:
    """So many records of partition 0, from its beginning."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Record] = []
    try:
        while len(found) < count:
            for message in consumer.consume(count - len(found), 60.0):
                assert message.error() is None, message.error()
                headers: Any = tuple(message.headers() or ())
                found.append(
                    Record(
                        message.offset() or 0,
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        headers,
                    )
                )
    finally:
        consumer.close()
    return found


def a_partition(home: Path, *contents: bytes | bytearray) -> Path:
    directory = home / "orders-0"
    directory.mkdir()
    (directory / f"{100:020d}.log").write_bytes(b"".join(contents))
    return directory


def records_from(first: int, count: int, *, with_headers: bool = False) -> list[Record]:
    headers = (("h", b"x"),) if with_headers else ()
    return [
        Record(n, STAMP + n, b"k%d" % n, b"v%d" % n, headers)
        for n in range(first, first + 2 * count, 2)  # with gaps, as after a compaction
    ]


def test_old_and_new_formats_are_imported(new_cluster: NewCluster, tmp_path: Path) -> None:
    cluster = new_cluster(brokers=2).start()
    topic = create_topic(cluster, "orders", replication_factor=2, configs={"retention.ms": "-1"})
    single, packed, new = (
        records_from(100, 3),
        records_from(110, 3),
        records_from(120, 3, with_headers=True),
    )
    directory = a_partition(
        tmp_path,
        *(old_message(record, 1) for record in single),
        old_compressed(packed, 1, Compression.LZ4),
        batch_at_offsets(new, codec=Compression.ZSTD),
    )
    status, out, err = run_import(cluster, directory, "--topic", topic, "--json")
    assert (status, err) == (0, "")
    summary = json.loads(out)
    assert (summary["records"], summary["batches"], summary["converted_records"]) == (9, 3, 6)
    assert (summary["first_offset"], summary["end_offset"]) == (0, 9)
    expected = [*single, *packed, *new]
    assert consumed(cluster, topic, 9) == [
        record._replace(offset=n) for n, record in enumerate(expected)
    ]

    status, _, err = run_import(cluster, directory, "--topic", topic)
    assert (status, err) == (1, "error: orders-0 has 9 records already; --append adds to them\n")
    resumed = run_import(cluster, directory, "--topic", topic, "--append", "--from-offset", 122)
    assert resumed[0] == 0
    assert "Imported 2 records in 1 batches" in resumed[1]
    assert [record.value for record in consumed(cluster, topic, 11)[9:]] == [b"v122", b"v124"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--topic", "absent"], "there is no topic absent; create it first"),
        (["--topic", "small", "--partition", "7"], "topic small has 1 partitions, none numbered 7"),
        (["--topic", "small"], "small-0 refuses a batch of 181 bytes: MESSAGE_TOO_LARGE"),
        (["--topic", "small", "--strict"], "checksum does not match; nothing was imported"),
    ],
)
def test_import_log_reports_each_mistake_in_one_line(
    module_cluster: Cluster, tmp_path: Path, words: list[str], problem: str
) -> None:
    damaged = bytearray(old_message(Record(300, 1, None, b"v"), 1))
    damaged[-1] ^= 1
    directory = a_partition(tmp_path, batch_at_offsets(records_from(100, 8)), damaged)
    status, out, err = run_import(module_cluster, directory, *words)
    assert (status, out) == (1, "")
    assert err.startswith("error: ")
    assert problem in err
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def module_cluster(tmp_path_factory: pytest.TempPathFactory) -> object:
    cluster = Cluster(tmp_path_factory.mktemp("import"), brokers=1)
    try:
        cluster.start()
        create_topic(
            cluster,
            "small",
            replication_factor=1,
            configs={"max.message.bytes": "100", "retention.ms": "-1"},
        )
        yield cluster
    finally:
        cluster.close()


def test_unreadable_records_are_not_imported(new_cluster: NewCluster, tmp_path: Path) -> None:
    """An old broker has stored what a producer claimed: two records, where there is one."""
    cluster = new_cluster().start()
    topic = create_topic(cluster)
    sound = [batch_at_offsets([Record(offset, STAMP, b"k", b"v")]) for offset in (100, 103)]
    lying = with_header(
        batch_at_offsets([Record(101, STAMP, b"k", b"v")]), record_count=2, last_offset_delta=1
    )
    directory = a_partition(tmp_path, sound[0], bytes(lying), sound[1])
    status, _, err = run_import(cluster, directory, "--topic", topic)
    assert status == 1
    line = err.splitlines()[-1]
    assert "the batch ends before record 1" in line
    assert "offset 101" in line
    assert [record.offset for record in consumed(cluster, topic, 1)] == [0]


def test_records_that_the_topic_would_delete_are_warned_of(
    module_cluster: Cluster, tmp_path: Path
) -> None:
    topic = create_topic(module_cluster, "short", replication_factor=1)
    directory = a_partition(tmp_path, batch_at_offsets(records_from(100, 1)))
    status, out, err = run_import(module_cluster, directory, "--topic", topic)
    assert status == 0
    assert out.startswith("Imported 1 records")
    assert err == (
        "warning: the newest record is of 2023-11-14T22:13:20Z and topic short keeps records for"
        " 604800000 ms: it will delete them; set its retention.ms to -1 first\n"
    )


@pytest.mark.slow
def test_import_writes_each_record_once_when_the_leader_dies(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    cluster = new_cluster(brokers=3).start()
    topic = create_topic(
        cluster,
        "orders",
        replication_factor=3,
        configs={"min.insync.replicas": "2", "retention.ms": "-1"},
    )
    batches = 3_000
    directory = a_partition(
        tmp_path,
        *(
            batch_at_offsets(
                [Record(10 * n + step, STAMP, b"%d" % n, bytes(100)) for step in range(10)]
            )
            for n in range(batches)
        ),
    )
    with start_import(cluster, directory, "--topic", topic, "--json") as process:
        first = leader(cluster, topic)
        log = cluster.log_dir(first) / f"{topic}-0" / f"{0:020d}.log"
        wait_until(  # the file is made in the background
            lambda: process.poll() is not None or (log.exists() and log.stat().st_size > 0),
            "the first records",
        )
        cluster.kill(first, "KILL")
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["records"] == 10 * batches
    found = consumed(cluster, topic, 10 * batches)
    assert [record.key for record in found] == [b"%d" % (n // 10) for n in range(10 * batches)]
