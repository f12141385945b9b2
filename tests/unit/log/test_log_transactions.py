"""The last stable offset of a log, and its aborted transactions after everything that may happen to
its files."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from cluster.log import log_copy
from cluster.log.closed_rebuild import ClosedRebuild
from cluster.log.deleted_files import DeletedFiles
from cluster.log.files import LogFiles, place_files
from cluster.log.partition_log import PartitionLog
from cluster.log.producer_snapshots import snapshot_offsets, write_snapshot
from cluster.log.producer_state import ProducerState
from cluster.log.repair import LogToRepair, repair
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX, segment_path
from cluster.log.transaction_index import ENTRY_BYTES, AbortedTransaction
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset
from tests.unit.log.log_builder import NOW_MS, PARTITION, SMALL, crashed_copy, open_log
from tests.unit.log.transaction_log import (
    abort,
    aborted,
    commit,
    indexed,
    indexed_in,
    read_committed,
    stable,
    write,
)


def a_log(home: Path, segments: int = 3) -> PartitionLog:
    """Each segment has an aborted transaction, and one that ends in the next."""
    log = open_log(home)
    for number in range(segments):
        write(log, 10 + number)
        write(log, 1)
        abort(log, 1)
        if number:
            abort(log, 9 + number)
        if number < segments - 1:
            log.roll(NOW_MS)
    return log


IN_A_LOG: Final = [(1, 1), (1, 4), (10, 0), (1, 8), (11, 3)]
"""Producer and first offset, in the order of the markers at 2, 5, 6, 9 and 10."""


def index_of(directory: Path, base_offset: int) -> Path:
    return segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX)


# The last stable offset


def test_last_stable_offset_is_below_the_first_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for producer in (1, 2, 3):
        write(log, producer)
    commit(log, 2)
    assert [stable(log, end) for end in (0, 1, 4)] == [0, 0, 0]
    commit(log, 1)
    assert [stable(log, end) for end in (4, 5)] == [0, 2]
    abort(log, 3)
    assert [stable(log, end) for end in (5, 6)] == [2, 6]


def test_transaction_is_undecided_while_its_marker_is_not_committed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    write(log, 2)
    commit(log, 2)
    commit(log, 1)
    assert [stable(log, end) for end in (1, 2, 3, 4)] == [0, 0, 0, 4]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_reopened_log_knows_undecided_transactions_before_its_snapshots(
    tmp_path: Path, is_clean: bool
) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    commit(log, 1)
    first = write(log, 2)
    marker = commit(log, 2)
    log.roll(NOW_MS)
    write(log, 3)
    log.close(flush=True)
    end = log.log_end_offset
    again = open_log(tmp_path, clean=is_clean, recovery_point=end, high_watermark=marker)
    assert [stable(again, each) for each in (marker, marker + 1)] == [first, marker + 1]


def test_deleted_records_of_an_open_transaction_do_not_move_the_stable_offset_back(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    write(log, 1, count=5)
    write(log, 2, count=5)
    log.advance_log_start_offset(Offset(7))
    assert (stable(log), stable(log, 6)) == (7, 6)
    commit(log, 1)
    assert stable(log) == 7
    commit(log, 2)
    assert stable(log) == 12


def test_an_emptied_log_has_no_transactions(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    write(log, 2)
    abort(log, 2)
    log.truncate_fully_and_start_at(Offset(1))
    assert (stable(log), aborted(log), indexed(log)) == (1, [], [])
    assert log.transactions.are_none
    write(log, 3)
    assert stable(log) == 1


def test_decided_transactions_are_forgotten_if_nobody_asks(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(5):
        write(log, 1)
        commit(log, 1)
    assert len(log.transactions.undecided) == 5
    log.transactions.settle(Offset(9))
    assert log.transactions.undecided == [(8, 9)]


# After an unclean stop

DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "the beginning of an entry": lambda path: path.write_bytes(path.read_bytes() + b"\0" * 33),
    "half of the last entry": lambda path: os.truncate(path, path.stat().st_size - 17),
    "without its last entry": lambda path: os.truncate(path, path.stat().st_size - ENTRY_BYTES),
    "zeros at the end": lambda path: path.write_bytes(path.read_bytes() + bytes(2 * ENTRY_BYTES)),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "nonsense": lambda path: path.write_bytes(b"nonsense" * 17),
    "entries twice": lambda path: path.write_bytes(path.read_bytes() * 2),
    "an entry beyond the segment": lambda path: path.write_bytes(
        path.read_bytes() + entry(1, 90, 91)
    ),
    "that of another segment": lambda path: path.write_bytes(
        b"".join(entry(1, at, at + 1) for at in (100, 200))
    ),
}
SEEN_AT_A_CLEAN_START: Final = DAMAGES.keys() - {"missing", "empty", "without its last entry"}


def entry(producer_id: int, first: int, last: int) -> bytes:
    numbers = (producer_id, first, last, last + 1)
    return bytes(2) + b"".join(each.to_bytes(8, "big") for each in numbers)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("base", [0, 3, 7])
def test_unclean_stop_rebuilds_each_index(tmp_path: Path, damage: str, base: int) -> None:
    log = a_log(tmp_path)
    before, committed = indexed(log), read_committed(log)
    home = crashed_copy(log, tmp_path / "crash")
    DAMAGES[damage](index_of(home / log.directory.name, base))
    again = open_log(home, clean=False)
    assert indexed(again) == before
    assert aborted(again) == IN_A_LOG
    assert read_committed(again) == committed
    assert stable(again) == 7


@pytest.mark.parametrize("damage", DAMAGES)
def test_helper_process_rebuilds_each_index(tmp_path: Path, damage: str) -> None:
    log = a_log(tmp_path)
    before = indexed(log)
    home = crashed_copy(log, tmp_path / "crash")
    directory = home / log.directory.name
    for base in (0, 3, 7):
        DAMAGES[damage](index_of(directory, base))
    order = LogToRepair(PARTITION, directory, Offset(0), Offset(0), log.size_bytes)
    repair(order, SMALL, NOW_MS, lambda _: None)
    assert indexed_in(directory) == before


def test_indexes_of_synced_segments_are_not_read_after_an_unclean_stop(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    home = crashed_copy(log, tmp_path / "crash")
    directory = home / log.directory.name
    index_of(directory, 0).unlink()  # it could not be noticed otherwise
    again = open_log(home, clean=False, recovery_point=5, high_watermark=5)
    assert aborted(again) == [each for each in IN_A_LOG if each != (1, 1)]


def test_lost_end_of_a_log_takes_its_aborted_transactions_along(tmp_path: Path) -> None:
    """The index reached the disk, the batches did not."""
    log = open_log(tmp_path)
    write(log, 1)
    size = log.size_bytes
    abort(log, 1)
    write(log, 2)
    abort(log, 2)
    home = crashed_copy(log, tmp_path / "crash")
    os.truncate(home / log.directory.name / log.segments[0].file.path.name, size)
    again = open_log(home, clean=False)
    assert (aborted(again), indexed(again), stable(again)) == ([], [], 0)
    abort(again, 1)
    assert indexed(again) == [AbortedTransaction(1, 0, 1, 2)]


def test_snapshots_beyond_the_recovery_point_are_not_trusted(tmp_path: Path) -> None:
    """They may be of batches that a truncation has removed, if the machine forgot their removal."""
    log = a_log(tmp_path)
    home = crashed_copy(log, tmp_path / "crash")
    directory = home / log.directory.name
    stale = ProducerState(SMALL.producer_id_expiration_ms)
    for offset in (7, 11):
        write_snapshot(directory, offset, stale.entries)
    again = open_log(home, clean=False, recovery_point=5)
    assert again.producers.entries.keys() == {1, 10, 11, 12}
    assert stable(again) == 7
    assert snapshot_offsets(directory) == [3, 7]
    again.truncate_to(Offset(8))  # the one at 7 is written anew, and is true
    assert (stable(again), again.producers.first_undecided_offset) == (3, 3)


# After a clean stop


@pytest.mark.parametrize("damage", sorted(SEEN_AT_A_CLEAN_START))
@pytest.mark.parametrize("base", [0, 3, 7])
def test_clean_start_rebuilds_a_damaged_index(
    tmp_path: Path, damage: str, base: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = a_log(tmp_path)
    before, committed = indexed(log), read_committed(log)
    log.close(flush=False)
    DAMAGES[damage](index_of(log.directory, base))
    with caplog.at_level(logging.WARNING):
        again = open_log(tmp_path)
    assert indexed(again) == before
    assert read_committed(again) == committed
    (line,) = caplog.messages
    assert line.startswith(f"{index_of(log.directory, base)}: ")
    assert line.endswith("; rebuilding it from the batches")


def test_clean_start_reads_only_the_ends_of_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    for _ in range(300):
        write(log, 1)
        abort(log, 1)
    log.close(flush=False)
    read: list[int] = []
    files = LogFiles()

    def read_part(path: Path, position: int, size_bytes: int) -> bytes:
        if path.suffix == TRANSACTION_INDEX_SUFFIX:
            read.append(size_bytes)
        return LogFiles.read_part(files, path, position, size_bytes)

    monkeypatch.setattr(files, "read_part", read_part)
    place_files(tmp_path, files)
    assert len(indexed(log)) == 300
    open_log(tmp_path)
    assert sum(read) <= 3 * ENTRY_BYTES * len(log.segments)


def test_index_without_a_segment_is_deleted(tmp_path: Path) -> None:
    """A crash has interrupted the deletion of its segment. A later one may get the name."""
    log = a_log(tmp_path)
    log.close(flush=False)
    index_of(log.directory, 11).write_bytes(entry(1, 11, 12))
    again = open_log(tmp_path)
    assert not index_of(log.directory, 11).exists()
    assert aborted(again) == IN_A_LOG


def test_index_is_rebuilt_without_the_snapshot_at_the_beginning_of_its_segment(
    tmp_path: Path,
) -> None:
    log = a_log(tmp_path)
    before = indexed(log)
    log.close(flush=False)
    (log.directory / f"{7:020d}.snapshot").write_bytes(b"damaged")
    index_of(log.directory, 7).write_bytes(b"damaged")
    assert indexed(open_log(tmp_path)) == before


# While the log is in use


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "zeros", "nonsense", "without its last entry"]
)
def test_index_damaged_in_use_is_rebuilt_where_it_is_read(tmp_path: Path, damage: str) -> None:
    log = a_log(tmp_path)
    before, committed = indexed(log), read_committed(log)
    DAMAGES[damage](index_of(log.directory, 3))
    assert read_committed(log) == committed
    assert indexed(log) == before
    abort(log, 12)
    assert aborted(log) == [*IN_A_LOG, (12, 7)]


def test_no_records_are_read_if_an_index_and_batches_are_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = a_log(tmp_path)
    log.close(flush=False)
    path = segment_path(log.directory, 3)
    path.write_bytes(b"x" * path.stat().st_size)
    index_of(log.directory, 3).write_bytes(b"damaged")
    with caplog.at_level(logging.ERROR):
        again = open_log(tmp_path)
        assert (stable(again), aborted(again)) == (0, None)
    assert "read_committed get none of its records" in caplog.text


def test_records_wait_until_their_aborted_transaction_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    write(log, 2)

    def refuse(*_: object) -> None:
        raise StorageFailed("no space left")

    with monkeypatch.context() as refusing:
        refusing.setattr("cluster.log.segment_aborts.SegmentAborts._write", refuse)
        with pytest.raises(StorageFailed):
            abort(log, 2)
        with pytest.raises(StorageFailed):
            commit(log, 1)  # it is in the log, too
        assert (stable(log), aborted(log)) == (1, [])
    assert (stable(log), aborted(log)) == (4, [(2, 1)])


def test_entry_that_was_written_in_part_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    abort(log, 1)
    write(log, 1)
    files = LogFiles()
    place_files(tmp_path, files)
    written = 0

    def pwrite(descriptor: int, content: memoryview, position: int) -> int:
        nonlocal written
        written += 1
        if written > 1:
            raise OSError(28, "No space left on device")
        return os.pwrite(descriptor, content[:20], position)

    with monkeypatch.context() as failing:
        failing.setattr(files, "pwrite", pwrite)
        with pytest.raises(StorageFailed, match="No space left"):
            abort(log, 1)
        assert index_of(log.directory, 0).stat().st_size == ENTRY_BYTES + 20
    assert stable(log) == 4
    assert indexed(log) == [AbortedTransaction(1, 0, 1, 2), AbortedTransaction(1, 2, 3, 4)]


# Truncation, deletion, moves


@pytest.mark.parametrize("end", range(12))
def test_truncation_forgets_what_ended_behind_it(tmp_path: Path, end: int) -> None:
    log = a_log(tmp_path)
    markers = (2, 5, 6, 9, 10)
    left = [each for each, last in zip(IN_A_LOG, markers, strict=True) if last < end]
    log.truncate_to(Offset(end))
    assert aborted(log) == left
    assert [(each.producer_id, each.first_offset) for each in indexed(log)] == left
    again = open_log(crashed_copy(log, tmp_path / "crash"), clean=False)
    assert aborted(again) == left
    assert stable(again) == stable(log)


def test_truncated_marker_does_not_decide_a_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    write(log, 1)
    write(log, 2)
    commit(log, 2)
    commit(log, 1)
    log.truncate_to(Offset(3))
    write(log, 3)
    write(log, 3)
    assert stable(log) == 0
    commit(log, 1)
    assert [stable(log, end) for end in (5, 6)] == [0, 3]


def test_segments_that_are_deleted_take_their_entries_along(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.drop_segments(1)
    assert (log.log_start_offset, aborted(log)) == (3, IN_A_LOG[1:])
    assert [each.last_offset for each in indexed(log)] == [5, 6, 9, 10]
    assert read_committed(log) == {}


def test_moved_log_has_the_same_aborted_transactions(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    target = tmp_path / "moving"
    log_copy.make_directory(target, log.directory)
    copy = log_copy.LogCopy(log, target)
    while (piece := copy.next_piece(1 << 20)) is not None:
        log_copy.copy_piece(piece)
        copy.on_copied(piece)
    copy.settled_at = log.segments[-1].base_offset
    log_copy.settle(log.directory, target, copy.settled_at)
    with index_of(target, 7).open("ab") as torn:
        torn.write(b"\0" * 5)  # copied while the next entry was written
    abort(log, 12)
    before = indexed(log)
    moved = log_copy.relocate(copy, tmp_path / "moved", NOW_MS, DeletedFiles())
    assert indexed(moved) == before
    assert aborted(moved) == [*IN_A_LOG, (12, 7)]
    assert [stable(moved, end) for end in (11, 12)] == [7, 12]


def test_segments_rebuilt_from_another_replica_have_its_aborted_transactions(
    tmp_path: Path,
) -> None:
    log, other = a_log(tmp_path / "damaged"), a_log(tmp_path / "good")
    committed = read_committed(other)
    rebuild = ClosedRebuild(log)
    for segment in other.segments[:-1]:
        rebuild.add(bytes(segment.file.view(0, segment.file.size_bytes)))
    rebuild.finish()
    rebuild.swap()
    assert [segment.base_offset for segment in log.segments] == [0, 7]
    assert aborted(log) == IN_A_LOG
    assert read_committed(log) == committed
    assert indexed(log) == indexed(other)
