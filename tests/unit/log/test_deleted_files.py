"""Deleted segments: one thread renames them, another unlinks them later, and failures are
retried."""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.log.deleted_files import DELETED_SUFFIX, TRY_AGAIN_MS
from cluster.log.directory_work import DirectoryWork
from cluster.log.files import LogFiles
from cluster.log.partition_log import PartitionLog
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset
from tests.unit.log.log_builder import (
    NOW_MS,
    PARTITION,
    SMALL,
    a_batch,
    append,
    open_log,
    read_all,
)

DELAY_MS = SMALL.file_delete_delay_ms


class Stage:
    """A log of several segments, with threads and timers that the test runs."""

    def __init__(self, root: Path) -> None:
        self.renames: list[Callable[[], None]] = []
        self.removals: list[Callable[[], None]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.work = DirectoryWork(
            self.renames.append,
            self.removals.append,
            lambda delay_ms, call: self.timers.append((delay_ms, call)),
        )
        self.directory = root / str(PARTITION)
        self.log = PartitionLog.open(
            self.directory,
            PARTITION,
            SMALL,
            NOW_MS,
            clean_shutdown=True,
            recovery_point=Offset(0),
            log_start_offset=Offset(0),
            deleted_files=self.work.deleted_files,
        )
        self.fill(4)

    def fill(self, segment_count: int) -> None:
        while len(self.log.segments) < segment_count:
            append(self.log, a_batch(3))

    def rename(self) -> None:
        """Run the calls of the renaming thread."""
        _run(self.renames)

    def let_time_pass(self) -> None:
        """Fire the timers and run the calls of the removing thread."""
        timers, self.timers = self.timers, []
        for _, call in timers:
            call()
        _run(self.removals)

    def names(self, ending: str = "") -> list[str]:
        return sorted(path.name for path in self.directory.iterdir() if path.name.endswith(ending))

    def crashed_log(self, root: Path) -> PartitionLog:
        """The log after a crash, as the next start opens it."""
        return open_log(root, clean=False)


def _run(calls: list[Callable[[], None]]) -> None:
    taken, calls[:] = list(calls), []
    for call in taken:
        call()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_files_are_renamed_and_unlinked_after_the_delay(stage: Stage) -> None:
    first, second = (segment.base_offset for segment in stage.log.segments[:2])
    stage.log.drop_segments(2)
    assert stage.names(".deleted") == [], "nobody waits for the thread"
    stage.rename()
    suffixes = ("index", "log", "timeindex")
    expected = [f"{base:020d}.{suffix}.deleted" for base in (first, second) for suffix in suffixes]
    expected.append(f"{second:020d}.snapshot.deleted")
    assert stage.names(".deleted") == sorted(expected)
    assert stage.log.log_start_offset == stage.log.segments[0].base_offset
    assert [delay_ms for delay_ms, _ in stage.timers] == [DELAY_MS]
    stage.let_time_pass()
    assert stage.names(".deleted") == []
    assert f"{stage.log.segments[0].base_offset:020d}.snapshot" in stage.names()


def test_a_reader_in_flight_is_not_cut_off(stage: Stage) -> None:
    log = stage.log
    part = log.read(Offset(0), 500, upper_offset=log.log_end_offset, at_least_one_batch=True)
    before = bytes(part.view())
    log.drop_segments(2)
    stage.rename()
    stage.let_time_pass()
    assert part.view() == before
    assert os.pread(part.fileno(), part.size_bytes, part.position) == before


def test_a_crash_between_two_renames_leaves_no_hole(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = stage.log.segments[1].base_offset
    rename = os.rename

    def refuse(source: Path, target: str) -> None:
        if source.name.startswith(f"{second:020d}"):
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(LogFiles, "rename", staticmethod(refuse))
    stage.log.drop_segments(3)
    stage.rename()
    monkeypatch.undo()

    again = stage.crashed_log(tmp_path)

    assert again.segments[0].base_offset == again.log_start_offset == second
    assert again.log_end_offset == stage.log.log_end_offset
    assert [record.offset for record in read_all(again)] == list(
        range(second, stage.log.log_end_offset)
    )
    assert stage.names(".deleted") == []


@pytest.mark.parametrize("failing", ["rename", "unlink"])
def test_failed_deletion_is_logged_once_and_tried_again(
    stage: Stage,
    failing: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rename = os.rename

    def refuse(*names: str) -> None:
        if len(names) == 2 and not str(names[1]).endswith(DELETED_SUFFIX):
            rename(*names)
            return
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched, caplog.at_level(logging.INFO):
        patched.setattr(LogFiles, failing, staticmethod(refuse))
        stage.log.drop_segments(1)
        stage.rename()
        stage.let_time_pass()
        assert [delay_ms for delay_ms, _ in stage.timers] == [TRY_AGAIN_MS]
        stage.let_time_pass()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "00000000000000000000." in line
    assert "Read-only file system; it will be retried" in line
    stage.let_time_pass()
    assert stage.timers == []
    assert [name for name in stage.names() if name.startswith(f"{0:020d}")] == []


def test_a_log_that_begins_anew_takes_no_name_that_is_about_to_be_renamed(
    stage: Stage, tmp_path: Path
) -> None:
    stage.log.drop_segments(2)
    stage.log.truncate_fully_and_start_at(Offset(0))
    append(stage.log, a_batch(2))
    stage.rename()
    assert len(read_all(stage.log)) == 2
    assert len(read_all(stage.crashed_log(tmp_path))) == 2


def test_files_of_a_deleted_directory_are_left_to_it(stage: Stage) -> None:
    """A new directory of that name may have files of the same names."""
    stage.log.drop_segments(2)
    stage.work.delete(stage.directory, DELAY_MS)
    stage.work.create(stage.directory, stage.directory.mkdir)()
    of_the_new_topic = stage.directory / f"{0:020d}.log"
    of_the_new_topic.touch()
    stage.rename()
    stage.let_time_pass()
    stage.let_time_pass()
    assert stage.names() == [of_the_new_topic.name]
    assert [path.name for path in stage.directory.parent.iterdir()] == [stage.directory.name]


def test_delete_now_frees_the_names_at_once(stage: Stage) -> None:
    """A compacted segment needs the name of the one that it replaces."""
    first, second = stage.log.segments[:2]
    stage.work.deleted_files.delete_now(
        stage.directory, [first, second], DELAY_MS, kept_snapshots=[second.base_offset]
    )
    assert not first.file.path.exists()
    assert f"{second.base_offset:020d}.snapshot" in stage.names()
    stage.let_time_pass()
    assert stage.names(".deleted") == []
    assert f"{second.base_offset:020d}.snapshot" in stage.names()


def test_delete_now_raises_when_a_file_cannot_be_renamed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(LogFiles, "rename", staticmethod(refuse))
        with pytest.raises(StorageFailed, match=r"cannot rename .*Permission denied"):
            stage.work.deleted_files.delete_now(stage.directory, stage.log.segments[:1], DELAY_MS)
    stage.work.deleted_files.settle(stage.directory)
    assert len(stage.names(".deleted")) == 3
