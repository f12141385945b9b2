"""Few segments of a log are open at a time; a reader keeps its segment open."""

import os
import weakref
from pathlib import Path

import pytest

from cluster.log.open_segments import OPEN_SEGMENTS, OpenSegments
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import Offset
from tests.unit.log.log_builder import a_batch, append, open_log, read_all


class Closable:
    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_segment_opened_first_is_released_when_too_many_are_open() -> None:
    few = OpenSegments(most=3)
    segments = [Closable() for _ in range(5)]
    for segment in segments:
        few.on_opened(weakref.ref(segment))
        few.on_opened(weakref.ref(segment))
    assert [segment.released for segment in segments] == [1, 1, 0, 0, 0]
    few.forget(weakref.ref(segments[2]))
    few.on_opened(weakref.ref(segments[0]))
    assert [segment.released for segment in segments] == [1, 1, 0, 0, 0]
    assert len(few) == 3


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPEN_SEGMENTS, "most", 4)


def descriptors(directory: Path) -> int:
    """The number of descriptors of this process on files of a directory."""
    paths = [path.resolve() for path in Path("/proc/self/fd").iterdir()]
    return sum(path.is_relative_to(directory) for path in paths)


def mappings(directory: Path) -> int:
    """The number of mappings of this process of files of a directory."""
    return Path("/proc/self/maps").read_text().count(f" {directory}/")


def many_segments(home: Path, *, clean: bool = True) -> PartitionLog:
    log = open_log(home, clean=clean)
    while len(log.segments) < 40:
        append(log, a_batch(5))
    return log


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="says which files are open")
def test_deleted_segments_release_their_files(tmp_path: Path) -> None:
    log = many_segments(tmp_path)
    assert read_all(log)
    log.drop_segments(len(log.segments) - 1)
    names = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    mine = [name for name in names if name.startswith(str(tmp_path))]
    assert [name for name in mine if name.endswith(" (deleted)")] == []


def test_reading_all_of_a_log_opens_few_segments_at_a_time(tmp_path: Path, few: None) -> None:
    log = many_segments(tmp_path)
    records = read_all(log)
    assert len(records) == log.log_end_offset
    # Four closed ones and the active one: file, and a descriptor for each mapping.
    assert descriptors(log.directory) <= 3 * 5
    assert mappings(log.directory) <= 2 * 5
    assert read_all(log) == records


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_was_opened_holds_nothing_open(tmp_path: Path, few: None, clean: bool) -> None:
    log = many_segments(tmp_path)
    records = read_all(log)
    log.close(flush=False)
    del log
    again = open_log(tmp_path, clean=clean)
    assert (descriptors(again.directory), mappings(again.directory)) == (0, 0)
    assert read_all(again) == records
    assert append(again, a_batch()).base_offset == len(records)


def test_slices_outlive_the_release_and_the_end_of_their_segment(tmp_path: Path, few: None) -> None:
    log = many_segments(tmp_path)
    part = log.read(Offset(0), 500, upper_offset=log.log_end_offset, at_least_one_batch=True)
    content = bytes(part.view())
    number = part.fileno()
    read_all(log)
    log.segments[0].release()
    assert part.fileno() == number
    log.drop_segments(5)
    assert bytes(part.view()) == content
    assert os.pread(part.fileno(), part.size_bytes, part.position) == content
    del part
    assert descriptors(log.directory) <= 3 * 5


def test_a_sync_continues_when_its_segments_are_released(tmp_path: Path, few: None) -> None:
    log = many_segments(tmp_path)
    target = log.flush_target()
    read_all(log)
    for segment in log.segments[:-1]:
        segment.release()
    target.sync()
    log.durability.on_synced(target)
    assert log.durability.recovery_point == log.log_end_offset


def test_a_closed_segment_that_is_cut_is_written_again(tmp_path: Path, few: None) -> None:
    log = many_segments(tmp_path)
    middle = log.segments[20].base_offset + 3
    read_all(log)
    log.truncate_to(Offset(middle))
    kept = read_all(log)
    for _ in range(30):
        append(log, a_batch(5))
        read_all(log)
    assert read_all(log)[: len(kept)] == kept
