"""What a broker finds at its start on disks that are not what they were."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.brokers.assembly import options
from cluster.brokers.replication.lost_logs import condition_of
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.config.settings import broker_settings
from cluster.log.directories import rename_to_deleted
from cluster.log.directory_mark import read_mark, write_mark
from cluster.log.log_directory import LogDirectory
from cluster.model.clocks import WallMs
from cluster.model.ids import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from cluster.model.log_condition import LogCondition, LogEnd
from tests.unit.brokers.replication.test_partition_table import TOPIC_ID, create

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
BOOT = "boot 1"


def end(offset: int) -> LogEnd:
    return LogEnd(LeaderEpoch(0), Offset(offset), TOPIC_ID)


class Life:
    """Log directories over several starts, and what the registry would know of them."""

    def __init__(self, root: Path, count: int = 1) -> None:
        self.paths = [root / f"disk{number}" for number in range(count)]
        self.settings = broker_settings({"milena.log.preallocate.step.bytes": "65536"})
        self.known: dict[str, int] | None = None
        self.table = self.open()

    def open(self) -> PartitionTable:
        directories = [LogDirectory.open(path, "c", BrokerId(1)) for path in self.paths]
        self.table = PartitionTable(
            directories,
            BrokerId(1),
            lambda overrides: options.log_options(self.settings, overrides),
        )
        self.table.load(WallMs(0))
        return self.table

    def found(self, boot: str = BOOT) -> LogCondition:
        return condition_of(self.table, self.known, boot)

    def use(self, generation: int = 1) -> None:
        """Mark the directories, like a broker whose registration is known."""
        self.known = {}
        for directory in self.table.directories:
            write_mark(directory.path, generation, BOOT)
            self.known[directory.directory_id] = generation

    def stop(self) -> None:
        self.table.close()

    def crash(self) -> None:
        self.table.write_checkpoints()
        for directory in self.table.directories:
            directory.close()


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    made = Life(tmp_path)
    create(made.table, T0, records=3)
    create(made.table, T1, records=2)
    made.use()
    yield made
    for directory in made.table.directories:
        directory.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_killed_process_loses_no_log(life: Life, is_clean: bool) -> None:
    if is_clean:
        life.stop()
    else:
        life.crash()
    life.open()
    assert life.found() == LogCondition(frozenset([T0, T1]))


def test_a_wiped_directory_holds_nothing(life: Life) -> None:
    life.stop()
    shutil.rmtree(life.paths[0])
    life.open()
    found = life.found()
    assert found.is_directory_lost
    assert found.lacks(T0)
    assert found.is_known_to_lack


def test_a_removed_partition_is_missing(life: Life) -> None:
    life.crash()
    shutil.rmtree(life.paths[0] / "t-1")
    life.open()
    found = life.found()
    assert found.missing == {T1}
    assert not found.lacks(T0)


def test_log_deleted_just_before_a_crash_is_not_missing(life: Life) -> None:
    """Its row is still in the checkpoints. The topic may have been created again since."""
    life.table.write_checkpoints()
    rename_to_deleted(life.paths[0] / "t-1")
    for directory in life.table.directories:
        directory.close()
    life.open()
    found = life.found()
    assert found.missing == set()
    assert found.held == {T0}


def test_an_emptied_directory_holds_nothing(life: Life) -> None:
    """Nothing is left but `meta.properties`, or that and what an older copy has."""
    life.stop()
    for path in life.paths[0].iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "meta.properties":
            path.unlink()
    life.open()
    found = life.found()
    assert found.lacks(T0)
    assert found.is_known_to_lack


def test_a_log_that_an_older_copy_lacks_is_lost(life: Life, tmp_path: Path) -> None:
    shutil.copytree(life.paths[0], tmp_path / "copy")
    create(life.table, T2, records=1)
    life.use(generation=2)
    life.crash()
    shutil.rmtree(life.paths[0])
    (tmp_path / "copy").rename(life.paths[0])
    life.open()
    assert life.found().lacks(T2)
    assert life.found().doubtful.keys() == {T0, T1}


def test_a_log_that_never_was_in_a_checkpoint_is_only_unlisted(life: Life) -> None:
    life.crash()
    (life.paths[0] / "replication-offset-checkpoint").unlink()
    (life.paths[0] / "recovery-point-offset-checkpoint").unlink()
    shutil.rmtree(life.paths[0] / "t-1")
    life.open()
    found = life.found()
    assert not found.lacks(T1)
    assert found.doubtful_end(T1, TOPIC_ID) == LogEnd(NO_EPOCH, Offset(0))


def test_an_older_copy_is_doubtful_even_after_a_clean_stop(life: Life, tmp_path: Path) -> None:
    life.stop()
    shutil.copytree(life.paths[0], tmp_path / "copy")
    life.open()
    create(life.table, T0, records=3)
    life.use(generation=2)
    life.stop()
    shutil.rmtree(life.paths[0])
    (tmp_path / "copy").rename(life.paths[0])
    life.open()
    assert life.found().doubtful == {T0: end(3), T1: end(2)}


def test_a_directory_whose_mark_could_not_be_written_is_no_older_one(life: Life) -> None:
    """Its disk was full at the first start."""
    (directory,) = life.table.directories
    (life.paths[0] / "milena.properties").unlink()
    life.known = {directory.directory_id: 0}
    life.crash()
    life.open()
    assert life.found() == LogCondition(frozenset([T0, T1]))


def test_a_copy_of_the_same_run_is_doubtful_after_a_crash(life: Life, tmp_path: Path) -> None:
    life.table.write_checkpoints()
    shutil.copytree(life.paths[0], tmp_path / "copy")
    life.crash()
    shutil.rmtree(life.paths[0])
    (tmp_path / "copy").rename(life.paths[0])
    life.open()
    assert life.found().doubtful.keys() == {T0, T1}


def test_a_crash_of_the_machine_leaves_doubt_and_a_clean_stop_none(life: Life) -> None:
    life.crash()
    life.open()
    assert life.found("boot 2").doubtful.keys() == {T0, T1}
    life.stop()
    life.open()
    assert life.found("boot 2").doubtful == {}


def test_a_log_that_ends_before_its_checkpoint_is_doubtful(life: Life) -> None:
    partition = life.table.find(T0)
    assert partition is not None
    partition.log.flush()
    life.crash()
    (segment,) = (life.paths[0] / "t-0").glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content[: content.index(bytes(100))] if bytes(100) in content else content)
    first_batch = 12 + int.from_bytes(content[8:12], "big")
    segment.write_bytes(content[:first_batch])
    life.open()
    assert life.found().doubtful == {T0: end(1)}


def test_one_of_two_directories_that_is_empty_now_counts_as_lost(tmp_path: Path) -> None:
    life = Life(tmp_path, 2)
    create(life.table, T0, records=3)
    create(life.table, T1, records=2)
    life.use()
    (gone,) = (p for p in life.paths if (p / "t-1").exists())
    life.stop()
    shutil.rmtree(gone)
    life.open()
    found = life.found()
    assert found.lacks(T1)
    assert not found.lacks(T0)
    life.stop()


def test_lost_logs_are_found_at_each_start_until_the_controller_knows(life: Life) -> None:
    life.stop()
    shutil.rmtree(life.paths[0] / "t-1")
    life.open()
    life.table.is_judged = False
    create(life.table, T1)
    life.stop()
    life.open()
    assert life.table.short == {T1}


def test_a_mark_is_told_from_its_copy(tmp_path: Path) -> None:
    write_mark(tmp_path, 7, BOOT)
    mark = read_mark(tmp_path)
    assert mark is not None
    assert (mark.generation, mark.boot_id, mark.is_original) == (7, BOOT, True)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(tmp_path / "milena.properties", copy)
    copied = read_mark(copy)
    assert copied is not None
    assert not copied.is_original
    (copy / "milena.properties").write_text("generation=x")
    assert read_mark(copy) is None


def test_offsets_of_a_doubtful_log_end_where_its_records_do(life: Life) -> None:
    life.crash()
    life.open()
    assert life.found("boot 2").doubtful[T0] == end(3)
