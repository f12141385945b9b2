"""Opening a directory: indexes, epochs, leftover files, old formats."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.log.batch_walk import base_offset_at
from cluster.log.segment_paths import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset
from cluster.records.reader import Record
from tests.support.old_messages import old_message
from tests.unit.log.log_builder import (
    SMALL,
    a_batch,
    append,
    crashed_copy,
    offset_for_timestamp,
    open_log,
    read_all,
)


def a_closed_log(home: Path, count: int = 100) -> tuple[Path, list[object]]:
    log = open_log(home)
    for step in range(count):
        append(log, a_batch(1, timestamp_ms=1000 + step), epoch=step // 40)
    records: list[object] = list(read_all(log))
    log.close(flush=True)
    return log.directory, records


def index_files(directory: Path) -> dict[str, bytes]:
    paths = [*directory.glob(f"*{INDEX_SUFFIX}"), *directory.glob(f"*{TIME_INDEX_SUFFIX}")]
    return {path.name: path.read_bytes() for path in paths}


@pytest.mark.parametrize("clean", [True, False])
def test_lost_indexes_are_rebuilt_as_they_were(tmp_path: Path, clean: bool) -> None:
    directory, records = a_closed_log(tmp_path)
    before = index_files(directory)
    assert any(before.values())
    for name in before:
        (directory / name).unlink()
    log = open_log(tmp_path, clean=clean)
    assert read_all(log) == records
    log.close(flush=False)
    assert index_files(directory) == before


def test_an_index_of_odd_size_is_rebuilt(tmp_path: Path) -> None:
    directory, records = a_closed_log(tmp_path)
    path = directory / f"{0:020d}.index"
    before = path.read_bytes()
    path.write_bytes(before[:-3])
    log = open_log(tmp_path)
    assert path.read_bytes() == before
    assert log.epochs.entries == [(0, 0), (1, 40), (2, 80)]
    assert read_all(log) == records


def test_a_clean_stop_is_trusted_without_a_scan(tmp_path: Path) -> None:
    directory, _ = a_closed_log(tmp_path)
    first = min(directory.glob("*.log"))
    content = bytearray(first.read_bytes())
    content[70] ^= 1
    first.write_bytes(content)
    assert open_log(tmp_path).log_end_offset == 100
    assert open_log(tmp_path, clean=False).log_end_offset == 0


def test_scans_from_the_recovery_points_segment_only(tmp_path: Path) -> None:
    directory, _ = a_closed_log(tmp_path)
    first, second, *_ = sorted(directory.glob("*.log"))
    for path in (first, second):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    log = open_log(tmp_path, clean=False, recovery_point=int(second.stem))
    assert log.log_end_offset == 2 * int(second.stem) - 1
    assert [one.base_offset for one in log.segments] == [0, int(second.stem)]


def test_recovery_logs_what_it_truncated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory, _ = a_closed_log(tmp_path, 10)
    path = directory / f"{0:020d}.log"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"nonsense" * 20)
    with caplog.at_level(logging.WARNING):
        assert open_log(tmp_path, clean=False).log_end_offset == 10
    assert f"cut from {size + 160} to {size} bytes, log end offset 10" in caplog.text
    assert path.stat().st_size == size


def test_recovery_deletes_a_segment_that_overlaps_its_predecessor(tmp_path: Path) -> None:
    directory, records = a_closed_log(tmp_path, 40)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    (directory / f"{bases[1]:020d}.log").rename(directory / f"{bases[1] - 1:020d}.log")
    log = open_log(tmp_path, clean=False)
    assert read_all(log) == records[: bases[1]]
    assert append(log, a_batch()).base_offset == bases[1]


@pytest.mark.parametrize("content", [b"", b"junk", b"0\n9\n0 0\n", b"0\n1\n0 x\n"])
def test_epochs_are_rebuilt_when_their_file_is_damaged(tmp_path: Path, content: bytes) -> None:
    directory, _ = a_closed_log(tmp_path)
    (directory / "leader-epoch-checkpoint").write_bytes(content)
    assert open_log(tmp_path).epochs.entries == [(0, 0), (1, 40), (2, 80)]
    text = (directory / "leader-epoch-checkpoint").read_text()
    assert text == "0\n3\n0 0\n1 40\n2 80\n"


def test_recovery_deletes_leftovers_of_a_crash(tmp_path: Path) -> None:
    directory, _ = a_closed_log(tmp_path)
    for name in ("00000000000000000000.log.deleted", "00000000000000000005.log.cleaned", "x.tmp"):
        (directory / name).write_bytes(b"x")
    open_log(tmp_path)
    assert {path.suffix for path in directory.iterdir()} == {
        ".log",
        ".index",
        ".timeindex",
        ".snapshot",
        "",
    }


def test_a_log_that_ends_before_its_start_begins_there(tmp_path: Path) -> None:
    """The machine lost the end of the log after all records were deleted by request."""
    a_closed_log(tmp_path, 10)
    log = open_log(tmp_path, clean=False, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (50, 50, 0)
    assert append(log, a_batch()).base_offset == 50


def test_a_log_start_beyond_a_log_that_was_closed_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A closed log has lost nothing, so its checkpoint is invalid."""
    _, records = a_closed_log(tmp_path, 10)
    log = open_log(tmp_path, log_start_offset=10**15)
    assert log.log_start_offset == 0
    assert read_all(log) == records
    assert "ends at offset 10: ignored the log start 1000000000000000 of its" in caplog.text


def test_the_log_start_hides_records(tmp_path: Path) -> None:
    _, records = a_closed_log(tmp_path)
    log = open_log(tmp_path, log_start_offset=30)
    assert read_all(log) == records[30:]
    assert log.durability.recovery_point == 30


def test_an_old_message_after_batches_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    path = directory / f"{0:020d}.log"
    content = bytes(a_batch(1)) + old_message(Record(1, 5, None, b"v"), 1) + bytes(60)
    path.write_bytes(content)
    with pytest.raises(StorageFailed, match="message format v1"):
        open_log(tmp_path, clean=False)
    assert path.read_bytes() == content


def test_recovery_removes_preallocated_space_after_a_kill(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(3))
    home = crashed_copy(log, tmp_path / "crash")
    path = home / "orders-0" / f"{0:020d}.log"
    assert path.stat().st_size == SMALL.preallocate_step_bytes
    again = open_log(home, clean=False)
    assert path.stat().st_size == len(a_batch(3))
    assert append(again, a_batch(1)).base_offset == 3


def test_an_unreadable_directory_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "orders-0").write_bytes(b"a file")
    with pytest.raises(StorageFailed, match="cannot open log"):
        open_log(tmp_path)


def test_reopening_continues_in_the_same_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(2))
    log.close(flush=True)
    log = open_log(tmp_path)
    append(log, a_batch(2))
    assert len(log.segments) == 1
    part = log.read(Offset(0), 1000, upper_offset=Offset(4), at_least_one_batch=True)
    assert part.next_offset == 4


def test_truncation_leaves_the_indexes_a_rebuild_would(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=20_000))
    for step in range(120):
        append(log, a_batch(1, timestamp_ms=1000 + step))
    log.truncate_to(Offset(50))
    for step in range(60):
        append(log, a_batch(2, timestamp_ms=900 + 2 * step))
    segment = log.segments[0]
    assert (segment.max_timestamp_ms, segment.max_timestamp_offset) == (1049, 49)
    assert segment.locate(50) == 50 * len(a_batch(1))
    log.close(flush=False)
    before = index_files(log.directory)
    offsets = before[f"{0:020d}.index"]
    entries = [
        (
            int.from_bytes(offsets[at : at + 4], "big"),
            int.from_bytes(offsets[at + 4 : at + 8], "big"),
        )
        for at in range(0, len(offsets), 8)
    ]
    assert len(entries) > 50
    assert entries == sorted(entries)
    for last_offset, position in entries:
        base_offset = base_offset_at(segment.file.mapping(), position)
        assert base_offset <= last_offset < base_offset + 2
    for found in (log, open_log(tmp_path)):
        for wanted in range(1000, 1050):
            at = offset_for_timestamp(found, wanted, upper_offset=Offset(170))
            assert at == (wanted, wanted - 1000)
        assert offset_for_timestamp(found, 1050, upper_offset=Offset(170)) is None


def test_epochs_that_contradict_the_batches_are_removed_at_an_unclean_start(tmp_path: Path) -> None:
    directory, _ = a_closed_log(tmp_path)
    (directory / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n1 40\n5 70\n9 90\n")
    log = open_log(tmp_path, clean=False)
    assert log.epochs.entries == [(0, 0), (1, 40), (2, 80)]


def test_files_that_a_crash_came_before_are_made_when_an_empty_log_is_opened(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    names = {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    (log.directory / f"{0:020d}.timeindex").unlink(missing_ok=True)
    again = open_log(crashed_copy(log, tmp_path / "copy"), clean=False)
    assert names <= {path.name for path in again.directory.iterdir()}
