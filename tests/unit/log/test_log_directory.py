"""A log directory: its owner, lock, clean-shutdown marker and checkpoints."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.log.checkpoints import (
    DamagedCheckpoint,
    read_offsets,
    read_properties,
    read_topic_id,
    replace_file,
    write_properties,
    write_topic_id,
)
from cluster.log.directories import (
    deleted_name,
    future_name,
    parse_directory_name,
    parse_future_name,
)
from cluster.log.log_directory import LogDirectory, open_all
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import Offset, TopicPartition

ORDERS = TopicPartition("orders", 0)
DASHED = TopicPartition("a-b.c_d", 12)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def opened(path: Path, cluster_id: str = "abc", broker_id: int = 1) -> LogDirectory:
    return LogDirectory.open(path / "broker-1", cluster_id, broker_id)


def test_claims_a_new_directory(tmp_path: Path) -> None:
    opened(tmp_path).close()
    properties = read_properties(tmp_path / "broker-1" / "meta.properties")
    assert properties is not None
    directory_id = properties["directory.id"]
    assert properties == {
        "version": "0",
        "broker.id": "1",
        "cluster.id": "abc",
        "directory.id": directory_id,
    }
    again = opened(tmp_path)
    assert again.directory_id == directory_id
    again.close()
    (tmp_path / "broker-1" / "meta.properties").unlink()
    other = opened(tmp_path)
    assert other.directory_id != directory_id
    other.close()


@pytest.mark.parametrize(("cluster_id", "broker_id"), [("xyz", 1), ("abc", 2), ("xyz", 2)])
def test_open_refuses_a_directory_of_another_owner(
    tmp_path: Path, cluster_id: str, broker_id: int
) -> None:
    opened(tmp_path).close()
    with pytest.raises(StorageFailed) as raised:
        opened(tmp_path, cluster_id, broker_id)
    message = str(raised.value)
    assert "belongs to broker 1 of cluster abc" in message
    assert f"not to broker {broker_id} of cluster {cluster_id}" in message
    opened(tmp_path).close()


def test_one_opener_at_a_time(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(StorageFailed, match="in use by another process"):
        opened(tmp_path)
    first.close()
    first.close()
    opened(tmp_path).close()


# Java's file locks, and so Kafka's, are those of POSIX: they do not see the locks of flock(2).
TAKE_KAFKAS_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("taken", flush=True)
    sys.stdin.read()
"""


@contextmanager
def a_kafka_on(directory: Path) -> Iterator[str]:
    """A process that takes and holds the lock as Kafka does; yields `taken` or `refused`."""
    command = [sys.executable, "-c", TAKE_KAFKAS_LOCK, str(directory / ".lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def test_directory_lock_excludes_kafka_and_is_excluded_by_it(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with a_kafka_on(tmp_path / "broker-1") as answer:
        assert answer == "taken"
        with pytest.raises(StorageFailed, match="in use by another process"):
            opened(tmp_path)
    directory = opened(tmp_path)
    with a_kafka_on(tmp_path / "broker-1") as answer:
        assert answer == "refused"
    directory.close()
    with a_kafka_on(tmp_path / "broker-1") as answer:
        assert answer == "taken"


def test_the_clean_shutdown_marker_counts_once(tmp_path: Path) -> None:
    first = opened(tmp_path)
    assert not first.was_clean_shutdown
    first.mark_clean_shutdown()
    first.close()
    second = opened(tmp_path)
    assert second.was_clean_shutdown
    second.close()
    third = opened(tmp_path)
    assert not third.was_clean_shutdown
    third.close()


def test_partitions_are_listed_and_leftovers_named(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for partition in (ORDERS, DASHED):
        directory.create_partition(partition, TOPIC_ID)
    doomed = directory.path / deleted_name("gone-3")
    doomed.mkdir()
    (doomed / "file").write_bytes(b"x")
    (directory.path / "not a partition").mkdir()
    directory.close()
    again = opened(tmp_path)
    assert again.partition_directories() == {
        partition: again.path / str(partition) for partition in (ORDERS, DASHED)
    }
    assert again.leftovers == [doomed]
    assert read_topic_id(again.partition_path(DASHED)) == TOPIC_ID
    again.close()


def test_checkpoints_are_kafkas(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    offsets = {ORDERS: Offset(5), DASHED: Offset(2**40)}
    for read, write, name in (
        (directory.read_high_watermarks, directory.write_high_watermarks, "replication"),
        (directory.read_recovery_points, directory.write_recovery_points, "recovery-point"),
        (directory.read_log_start_offsets, directory.write_log_start_offsets, "log-start"),
    ):
        assert read() == {}
        write(offsets)
        assert read() == offsets
        text = (directory.path / f"{name}-offset-checkpoint").read_text()
        assert text == f"0\n2\norders 0 5\na-b.c_d 12 {2**40}\n"
    directory.close()


@pytest.mark.parametrize(
    "content", [b"", b"1\n0\n", b"0\n2\norders 0 5\n", b"0\n1\norders 0\n", b"0\nx\n", b"\xff"]
)
def test_damaged_checkpoints_count_as_absent(tmp_path: Path, content: bytes) -> None:
    directory = opened(tmp_path)
    path = directory.path / "replication-offset-checkpoint"
    path.write_bytes(content)
    with pytest.raises(DamagedCheckpoint):
        read_offsets(path)
    assert directory.read_high_watermarks() == {}
    directory.close()


def test_partition_metadata_is_kafkas(tmp_path: Path) -> None:
    write_topic_id(tmp_path, TOPIC_ID)
    assert (tmp_path / "partition.metadata").read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert read_topic_id(tmp_path / "absent") is None


def test_properties_with_comments_and_spaces(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("#\n#Mon Jan 01 00:00:00 UTC 2024\ncluster.id = x=y\nversion=0\n\n")
    assert read_properties(path) == {"cluster.id": "x=y", "version": "0"}


def test_properties_that_java_would_escape_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    write_properties(path, {"cluster.id": "a=b:c\\ #é"})
    assert read_properties(path) == {"cluster.id": "a=b:c\\ #é"}
    assert path.read_text() == "#\ncluster.id=a\\=b\\:c\\\\ \\#\\u00e9\n"


def test_properties_with_a_broken_escape_are_a_storage_failure_with_the_line(
    tmp_path: Path,
) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("version=0\ncluster.id=\\u12\n")
    with pytest.raises(StorageFailed, match=r"meta\.properties, line 2"):
        read_properties(path)


def test_a_file_that_cannot_be_written_is_a_storage_failure(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="cannot write"):
        replace_file(tmp_path / "absent" / "file", b"", sync=True)


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", ORDERS),
        ("a-b.c_d-12", DASHED),
        ("orders", None),
        ("-0", None),
        ("orders-", None),
        ("orders-x", None),
        ("orders--1", TopicPartition("orders-", 1)),
        ("orders-0.0123abcd-delete", None),
    ],
)
def test_directory_names(name: str, partition: TopicPartition | None) -> None:
    assert parse_directory_name(name) == partition


def test_names_of_deleted_directories_fit_the_file_system() -> None:
    name = deleted_name("t" * 249 + "-12345")
    assert len(name) == 255
    assert name.endswith("-delete")


# -- several -----------------------------------------------------------------------------------


def test_a_directory_that_cannot_be_opened_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"in the way")
    good, bad = open_all([tmp_path / "good", tmp_path / "bad"], "abc", 1)
    assert good.failure is None
    assert bad.failure is not None
    assert bad.failure.startswith("cannot open log directory ")
    good.close()
    bad.close()


def test_open_all_raises_a_one_line_error_when_every_directory_fails(tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        path.write_bytes(b"in the way")
    with pytest.raises(StorageFailed, match="all log directories have failed: cannot open") as all_:
        open_all(paths, "abc", 1)
    assert "\n" not in str(all_.value)


def test_open_all_refuses_a_directory_of_another_broker(tmp_path: Path) -> None:
    open_all([tmp_path / "two"], "xyz", 1)[0].close()
    paths = [tmp_path / "one", tmp_path / "two"]
    for _ in range(2):  # the first one is unlocked again
        with pytest.raises(StorageFailed, match="belongs to broker 1 of cluster xyz"):
            open_all(paths, "abc", 1)


def test_future_copies_are_recognized_by_name(tmp_path: Path) -> None:
    name = future_name(DASHED)
    assert parse_future_name(name) == DASHED
    assert parse_directory_name(name) is None
    for other in ("a-1", "a-1-future", "a.b-future", deleted_name("a-1"), "-future", ".-future"):
        assert parse_future_name(other) is None
    (directory,) = open_all([tmp_path], "abc", 1)
    (tmp_path / name).mkdir()
    (tmp_path / "a-1").mkdir()
    assert directory.future_directories() == [(DASHED, tmp_path / name)]
    directory.close()


def test_a_name_too_long_for_a_copy_is_refused() -> None:
    assert len(future_name(TopicPartition("t" * 213, 0))) == 255
    with pytest.raises(Refused) as refused:
        future_name(TopicPartition("t" * 214, 0))
    assert refused.value.code is ErrorCode.invalid_topic_exception
