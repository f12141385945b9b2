"""Directories are created and removed in the background, in order for each path."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.log.checkpoints import read_topic_id
from cluster.log.directory_work import DirectoryWork
from cluster.log.log_directory import LogDirectory
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition

T0 = TopicPartition("t", 0)
DELAY_MS = 60_000


class Stage:
    """A log directory whose threads the test runs."""

    def __init__(self, path: Path) -> None:
        self.directory = LogDirectory.open(path, "c", 1)
        self.path = self.directory.partition_path(T0)
        self.posted: list[Callable[[], None]] = []
        self.removals: list[Callable[[], None]] = []
        self.delays: list[int] = []
        self.work = DirectoryWork(self.posted.append, self.removals.append, self._later)

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.delays.append(delay_ms)
        call()

    def create(self, topic_id: str) -> Callable[[], None]:
        return self.work.create(self.path, lambda: self.directory.create_partition(T0, topic_id))

    def run(self) -> None:
        for calls in (self.posted, self.removals):
            for call in calls:
                call()
            calls.clear()

    def names(self) -> list[str]:
        return sorted(p.name for p in self.directory.path.iterdir() if p.is_dir())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "disk")


def test_a_directory_is_made_in_the_background(stage: Stage) -> None:
    stage.create("first")
    assert not stage.path.exists()
    stage.run()
    assert sorted(p.name for p in stage.path.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "partition.metadata",
    ]


def test_directory_is_made_at_once_when_it_is_needed_earlier(stage: Stage) -> None:
    make = stage.create("first")
    make()
    (stage.path / "00000000000000000000.log").write_bytes(b"records")
    stage.run()
    assert (stage.path / "00000000000000000000.log").read_bytes() == b"records"


def test_directory_deleted_before_it_was_made_is_never_made(stage: Stage) -> None:
    stage.create("first")
    stage.work.delete(stage.path, DELAY_MS)
    stage.run()
    assert stage.names() == []


def test_a_deleted_directory_is_renamed_and_then_removed(stage: Stage) -> None:
    stage.create("first")
    stage.run()
    stage.work.delete(stage.path, DELAY_MS)
    stage.posted.pop()()
    (name,) = stage.names()
    assert name.startswith("t-0.")
    assert name.endswith("-delete")
    assert stage.delays == [DELAY_MS]
    stage.run()
    assert stage.names() == []


def test_a_new_topic_of_the_name_waits_for_the_old_ones_directory(stage: Stage) -> None:
    stage.create("first")
    stage.run()
    (stage.path / "of the first").touch()
    stage.work.delete(stage.path, DELAY_MS)
    make = stage.create("second")

    make()  # before any thread has started it
    (stage.path / "of the second").touch()
    stage.run()

    assert read_topic_id(stage.path) == "second"
    assert not (stage.path / "of the first").exists()
    assert (stage.path / "of the second").exists()
    assert stage.names() == ["t-0"]


def test_created_deleted_and_created_again_before_any_thread_came(stage: Stage) -> None:
    stage.create("first")
    stage.work.delete(stage.path, DELAY_MS)
    stage.create("second")
    stage.work.delete(stage.path, DELAY_MS)
    stage.create("third")()
    stage.run()
    assert read_topic_id(stage.path) == "third"
    assert stage.names() == ["t-0"]


def test_a_directory_that_cannot_be_made_is_tried_again(stage: Stage) -> None:
    stage.path.write_bytes(b"in the way")
    make = stage.create("first")
    stage.run()
    with pytest.raises(StorageFailed, match="t-0"):
        make()
    stage.path.unlink()
    make()
    assert read_topic_id(stage.path) == "first"


def test_a_half_made_directory_is_finished(stage: Stage) -> None:
    stage.path.mkdir()
    stage.create("first")
    stage.run()
    assert read_topic_id(stage.path) == "first"
    assert (stage.path / "00000000000000000000.log").exists()
