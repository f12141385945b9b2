"""Replicas on disk: found after a restart, spread over directories, removed when deleted."""

import errno
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.assembly import options
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.config.settings import broker_settings
from cluster.log.checkpoints import PARTITION_METADATA
from cluster.log.log_directory import LogDirectory
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId, Offset, TopicPartition
from tests.support.cluster_states import a_partition
from tests.support.handler_requests import WALL_MS, a_batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = uuid.UUID(int=7)
BROKER = BrokerId(1)


class Disk:
    """Log directories, and one life of a table after the other."""

    def __init__(self, root: Path, count: int = 1) -> None:
        self.paths = [root / f"disk{number}" for number in range(count)]
        self.settings = broker_settings({"milena.log.preallocate.step.bytes": "65536"})
        self.directories: list[LogDirectory] = []

    def open(self) -> PartitionTable:
        self.crash()
        self.directories = [LogDirectory.open(path, "c", BROKER) for path in self.paths]
        table = PartitionTable(
            self.directories,
            BROKER,
            lambda overrides: options.log_options(self.settings, overrides),
        )
        table.load(WallMs(WALL_MS))
        return table

    def crash(self) -> None:
        for directory in self.directories:
            directory.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.crash()


def create(table: PartitionTable, partition: TopicPartition = T0, records: int = 0) -> None:
    made = table.find_or_create(partition, TOPIC_ID, {}, WallMs(WALL_MS))
    made.become(a_partition([BROKER]), MonotonicMs(0))
    for _ in range(records):
        made.append(memoryview(a_batch()), 1, WallMs(WALL_MS), MonotonicMs(0))


@pytest.mark.parametrize("is_clean", [True, False])
def test_replicas_are_found_again(disk: Disk, is_clean: bool) -> None:
    table = disk.open()
    create(table, T0, records=3)
    create(table, T1)
    if is_clean:
        table.close()
    else:
        table.write_checkpoints()

    found = disk.open()

    assert sorted(partition.id for partition in found) == [T0, T1]
    again = found.find(T0)
    assert again is not None
    assert (again.topic_id, again.log.log_end_offset, again.high_watermark) == (TOPIC_ID, 3, 3)
    assert again.leader is None
    assert found.find_or_create(T0, TOPIC_ID, {}, WallMs(WALL_MS)) is again


def test_a_high_watermark_beyond_the_log_is_cut(disk: Disk) -> None:
    table = disk.open()
    create(table, records=2)
    table.close()
    LogDirectory.write_high_watermarks(disk.directories[0], {T0: Offset(99)})

    again = disk.open().find(T0)

    assert again is not None
    assert again.high_watermark == 2


def test_checkpoints_name_what_is_there(disk: Disk) -> None:
    table = disk.open()
    create(table, T0, records=3)
    create(table, T1, records=1)
    kept = table.find(T0)
    assert kept is not None
    kept.log.advance_log_start_offset(Offset(1))
    kept.log.flush()
    table.delete(T1)

    table.write_checkpoints()

    (directory,) = disk.directories
    assert directory.read_high_watermarks() == {T0: 3}
    assert directory.read_recovery_points() == {T0: 3}
    assert directory.read_log_start_offsets() == {T0: 1}


def test_replicas_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    disk = Disk(tmp_path, count=3)
    table = disk.open()

    for number in range(7):
        create(table, TopicPartition("t", number))
    disk.crash()

    assert sorted(len(list(path.glob("t-*"))) for path in disk.paths) == [2, 2, 3]


def test_a_deleted_replica_is_gone_and_leads_no_more(disk: Disk) -> None:
    table = disk.open()
    create(table, records=1)
    deleted = table.delete(T0)

    assert deleted is not None
    assert deleted.leader is None
    assert not deleted.log.directory.exists()
    assert (table.find(T0), len(table), table.of_topics(["t"])) == (None, 0, [])
    assert table.delete(T0) is None


def test_a_replica_of_another_topic_of_the_name_is_told_apart_and_replaced(disk: Disk) -> None:
    table = disk.open()
    create(table, records=3)
    table.close()
    table = disk.open()
    found = table.find(T0)
    assert found is not None
    assert not table.is_of_earlier_topic(found, TOPIC_ID)
    assert table.is_of_earlier_topic(found, uuid.UUID(int=8))
    table.delete(T0)

    made = table.find_or_create(T0, uuid.UUID(int=8), {}, WallMs(WALL_MS))

    assert (made.topic_id, made.log.log_end_offset) == (uuid.UUID(int=8), 0)


@pytest.mark.parametrize("content", [None, b"", b"version: 0\n", b"version: 0\ntopic_id: what?"])
def test_a_replica_that_does_not_say_its_topic_id_keeps_its_records(
    disk: Disk, content: bytes | None
) -> None:
    """Kafka before 2.8 wrote none, and the file is not synced: a power cut may have emptied it."""
    table = disk.open()
    create(table, records=3)
    table.close()
    metadata = disk.paths[0] / "t-0" / PARTITION_METADATA
    if content is None:
        metadata.unlink()
    else:
        metadata.write_bytes(content)

    made = disk.open().find_or_create(T0, TOPIC_ID, {}, WallMs(WALL_MS))
    assert (made.topic_id, made.log.log_end_offset) == (TOPIC_ID, 3)

    again = disk.open().find(T0)
    assert again is not None
    assert again.topic_id == TOPIC_ID


def test_a_disk_that_cannot_take_a_replica_refuses_its_records_until_it_can(disk: Disk) -> None:
    table = disk.open()
    in_the_way = disk.paths[0] / "t-0"
    in_the_way.write_bytes(b"in the way")
    made = table.find_or_create(T0, TOPIC_ID, {}, WallMs(WALL_MS))
    made.become(a_partition([BROKER]), MonotonicMs(0))

    with pytest.raises(StorageFailed, match="t-0"):
        made.append(memoryview(a_batch()), 1, WallMs(WALL_MS), MonotonicMs(0))
    assert made.log.log_end_offset == 0

    in_the_way.unlink()
    made.append(memoryview(a_batch()), 1, WallMs(WALL_MS), MonotonicMs(0))
    assert sorted(path.name for path in in_the_way.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


def test_a_log_that_cannot_be_opened_leaves_the_others(disk: Disk) -> None:
    table = disk.open()
    create(table, T0, records=1)
    create(table, T1, records=1)
    table.close()
    segment = disk.paths[0] / "t-0" / "00000000000000000000.log"
    segment.unlink()
    segment.mkdir()
    (disk.paths[0] / ".kafka_cleanshutdown").unlink()

    again = disk.open()

    assert again.find(T0) is None
    replica = again.offline.find(T0)
    assert replica is not None
    assert "Is a directory" in replica.reason
    assert again.find(T1) is not None
    assert not again.places.has_failed_one
    again.close()
    assert not (disk.paths[0] / ".kafka_cleanshutdown").exists()


def test_a_directory_that_cannot_be_read_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, count=2)
    table = disk.open()
    for number in range(4):
        create(table, TopicPartition("t", number), records=1)
    table.close()
    read = LogDirectory.partition_directories

    def fail(directory: LogDirectory) -> dict[TopicPartition, Path]:
        if directory.path == disk.paths[0]:
            raise OSError(errno.EIO, "Input/output error")
        return read(directory)

    monkeypatch.setattr(LogDirectory, "partition_directories", fail)
    assert len(disk.open()) == 2
    assert [d.failure is None for d in disk.directories] == [False, True]

    monkeypatch.setattr(LogDirectory, "partition_directories", lambda directory: fail(directory))
    disk.paths = disk.paths[:1]
    with pytest.raises(StorageFailed, match="all log directories have failed"):
        disk.open()
    disk.crash()


def test_newer_epoch_and_topic_win_when_a_partition_exists_twice(
    tmp_path: Path,
) -> None:
    """It does when a disk is mounted again after an absence."""
    disk = Disk(tmp_path, count=2)
    table = disk.open()
    create(table, T0, records=5)
    place = table.directory_of(T0)
    assert place is not None
    (other,) = (path for path in disk.paths if path != place.path)
    disk.crash()
    shutil.copytree(place.path / "t-0", tmp_path / "former")

    table = disk.open()
    partition = table.find(T0)
    assert partition is not None
    partition.truncate_to(Offset(2))
    partition.become(a_partition([BROKER], leader_epoch=3), MonotonicMs(0))
    partition.append(memoryview(a_batch()), 1, WallMs(WALL_MS), MonotonicMs(0))
    disk.crash()
    (tmp_path / "former").rename(other / "t-0")
    table = disk.open()
    found = table.find(T0)
    assert found is not None
    assert found.log.log_end_offset == 3

    disk.crash()
    (former,) = other.glob("t-0.*-stray")
    shutil.rmtree(place.path / "t-0")
    table = disk.open()
    made = table.find_or_create(T0, uuid.UUID(int=99), {}, WallMs(WALL_MS))
    made.become(a_partition([BROKER]), MonotonicMs(0))
    made.append(memoryview(a_batch()), 1, WallMs(WALL_MS), MonotonicMs(0))
    place = table.directory_of(T0)
    assert place is not None
    (other,) = (path for path in disk.paths if path != place.path)
    disk.crash()
    former.rename(other / "t-0")
    table = disk.open()
    found = table.find(T0)
    assert found is not None
    assert (found.log.log_end_offset, found.topic_id) == (1, uuid.UUID(int=99))
    disk.crash()


def test_longer_log_wins_when_a_partition_exists_twice(tmp_path: Path) -> None:
    disk = Disk(tmp_path, count=2)
    table = disk.open()
    create(table, T0, records=2)
    place = table.directory_of(T0)
    assert place is not None
    (other,) = (path for path in disk.paths if path != place.path)
    disk.crash()
    shutil.copytree(place.path / "t-0", other / "t-0")
    table = disk.open()
    assert len(table) == 1
    (aside,) = [*disk.paths[0].glob("t-0.*-stray"), *disk.paths[1].glob("t-0.*-stray")]

    create(table, T0, records=1)
    place = table.directory_of(T0)
    assert place is not None
    table.close()
    disk.crash()
    aside.rename(aside.with_name("t-0"))
    table = disk.open()

    assert table.directory_of(T0) in disk.directories
    found = table.find(T0)
    assert found is not None
    assert (found.log.log_end_offset, found.log.directory) == (3, place.path / "t-0")
    disk.crash()
