"""Producer snapshots inside a segment: when they are written, used and deleted."""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.log import segment as segment_module
from cluster.log.inner_snapshots import KEPT, is_worthwhile
from cluster.log.partition_log import PartitionLog
from cluster.log.producer_snapshots import read_snapshot, snapshot_offsets, snapshot_path
from cluster.log.repair import LogToRepair, repair
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset
from cluster.records.builder import ProducerIdentity
from tests.unit.log.log_builder import (
    NOW_MS,
    PARTITION,
    SMALL,
    a_batch,
    append,
    crashed_copy,
    open_log,
)
from tests.unit.log.transaction_log import abort, indexed, stable, write

OPTIONS = replace(SMALL, segment_bytes=100_000, producer_snapshot_bytes=1000)
"""A snapshot for every 14 batches or so."""
PRODUCERS = 3


def produce(log: PartitionLog, producer_id: int, *, again: int = 0) -> tuple[int, bool]:
    """Append one record of an idempotent producer, or one of its last ones again.

    Returns its offset and whether the log had it.
    """
    sequence = log.producers.next_sequence(producer_id, 0) - again
    producer = ProducerIdentity(producer_id, 0, sequence)
    appended = append(log, a_batch(producer=producer))
    return appended.base_offset, appended.is_duplicate


def fill(log: PartitionLog, end: int) -> None:
    """The producers take turns up to a log end."""
    while log.log_end_offset < end:
        produce(log, log.log_end_offset % PRODUCERS)


def sequences(log: PartitionLog) -> list[int]:
    """How many records of each producer the log has, as far as it knows."""
    return [log.producers.next_sequence(producer_id, 0) for producer_id in range(PRODUCERS)]


def written_below(end: int) -> list[int]:
    """How many records of each producer `fill` has written."""
    return [len(range(producer_id, end, PRODUCERS)) for producer_id in range(PRODUCERS)]


def snapshots(log: PartitionLog) -> list[int]:
    return snapshot_offsets(log.directory)


def break_first_batch(log: PartitionLog) -> None:
    """Make a replay of the whole segment impossible: it says where the first batch ends."""
    path = log.segments[0].file.path
    with path.open("r+b") as file:
        file.seek(8)
        file.write(bytes(4))


def test_a_long_segment_gets_snapshots_of_which_the_newest_stay(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    seen = set()
    for end in range(1, 201):
        fill(log, end)
        seen.update(snapshots(log))
        assert snapshots(log) == sorted(seen)[-KEPT:]
    gaps = [later - earlier for earlier, later in itertools.pairwise([0, *sorted(seen)])]
    batch_bytes = log.size_bytes // 200
    assert len(gaps) > 10
    assert all(1000 <= gap * batch_bytes < 1000 + 2 * batch_bytes for gap in gaps)
    for offset in snapshots(log):
        entries = read_snapshot(log.directory, offset)
        counts = [entries[each].last_sequence + 1 for each in range(PRODUCERS)]
        assert counts == written_below(offset)


def test_a_followers_long_segment_gets_the_same_snapshots(tmp_path: Path) -> None:
    log = open_log(tmp_path / "leader", OPTIONS)
    follower = open_log(tmp_path / "follower", OPTIONS)
    for end in range(1, 101):
        fill(log, end)
        part = log.read(
            Offset(end - 1), 1, upper_offset=log.log_end_offset, at_least_one_batch=True
        )
        follower.append_as_follower(part.view(), NOW_MS)
    assert snapshots(follower) == snapshots(log) != []


def test_truncation_does_not_read_a_long_segment_from_its_beginning(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 200)
    break_first_batch(log)
    for end in (199, 195, 180):
        log.truncate_to(Offset(end))
        assert sequences(log) == written_below(end)
    assert produce(log, 0) == (180, False)


def test_truncation_right_after_a_roll_reads_only_the_end_of_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 200)
    log.roll(NOW_MS)
    fill(log, 203)
    break_first_batch(log)
    log.truncate_to(Offset(198))
    assert sequences(log) == written_below(198)


@pytest.mark.parametrize("is_repaired", [False, True])
def test_truncation_after_an_unclean_stop_reads_only_the_end_of_the_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_repaired: bool
) -> None:
    """The broker or a helper has read all of the segment, and has written snapshots."""
    monkeypatch.setattr(segment_module, "WALKED_BATCHES", 10)
    log = open_log(tmp_path, OPTIONS)
    fill(log, 200)
    home = crashed_copy(log, tmp_path / "crash")
    if is_repaired:
        directory = home / log.directory.name
        order = LogToRepair(PARTITION, directory, Offset(0), Offset(0), 0)
        repair(order, OPTIONS, NOW_MS, lambda _: None)
        assert len(snapshot_offsets(directory)) == KEPT + 1
    again = open_log(home, OPTIONS, clean=is_repaired)
    break_first_batch(again)
    again.truncate_to(Offset(197))
    assert sequences(again) == written_below(197)


@pytest.mark.parametrize("at_each", ["end", "second", "third"])
def test_every_truncation_gives_the_state_of_the_batches_that_stay(
    tmp_path: Path, at_each: str
) -> None:
    step = {"end": 1, "second": 2, "third": 3}[at_each]
    log = open_log(tmp_path, OPTIONS)
    fill(log, 90)
    for end in range(90, -1, -step):
        log.truncate_to(Offset(end))
        assert sequences(log) == written_below(end)
        assert all(offset <= end for offset in snapshots(log))
    fill(log, 90)
    assert sequences(log) == written_below(90)


def test_truncation_to_each_offset_around_a_snapshot_leaves_it_or_not(tmp_path: Path) -> None:
    log = open_log(tmp_path / "0", OPTIONS)
    fill(log, 90)
    newest = snapshots(log)[-1]
    log.close(flush=False)
    for end in (newest - 1, newest, newest + 1):
        home = tmp_path / f"to {end}"
        shutil.copytree(tmp_path / "0", home)
        again = open_log(home, OPTIONS)
        again.truncate_to(Offset(end))
        assert (newest in snapshots(again)) is (end >= newest)
        assert sequences(again) == written_below(end)
        fill(again, 120)
        assert sequences(again) == written_below(120)


def test_batches_just_before_a_snapshot_are_known_again_after_a_truncation(tmp_path: Path) -> None:
    """A snapshot has the last batch of each producer, and its client may send five again."""
    log = open_log(tmp_path, OPTIONS)
    fill(log, 90)
    newest = snapshots(log)[-1]
    log.truncate_to(Offset(newest))
    for again in range(1, 6):
        offset, is_duplicate = produce(log, newest % PRODUCERS, again=again)
        assert (offset, is_duplicate) == (newest - PRODUCERS * again, True)


Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", [slice(-1, None), slice(-2, -1), slice(-2, None), slice(0, None)])
def test_truncation_does_without_damaged_snapshots(
    tmp_path: Path, damage: str, which: slice
) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 90)
    for offset in snapshots(log)[which]:
        DAMAGES[damage](snapshot_path(log.directory, offset))
    log.truncate_to(Offset(89))
    assert sequences(log) == written_below(89)
    fill(log, 200)
    assert sequences(log) == written_below(200)
    assert len(snapshots(log)) == KEPT


def test_clean_stops_leave_no_more_than_one_snapshot_each_time(tmp_path: Path) -> None:
    end = 0
    for _ in range(12):
        log = open_log(tmp_path, OPTIONS)
        assert sequences(log) == written_below(end)
        end += 5
        fill(log, end)
        log.close(flush=False)
        assert snapshots(log)[-1] == end
        assert len(snapshots(log)) <= KEPT + 1
    break_first_batch(log)
    again = open_log(tmp_path, OPTIONS)
    again.truncate_to(Offset(end - 2))
    assert sequences(again) == written_below(end - 2)


def test_an_unclean_start_does_not_trust_them_and_writes_its_own(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 90)
    at = snapshots(log)[-1]
    fill(log, 95)
    home = crashed_copy(log, tmp_path / "crash")
    stale = snapshot_path(home / log.directory.name, at)
    older = snapshot_path(home / log.directory.name, snapshots(log)[0])
    stale.write_bytes(older.read_bytes())
    again = open_log(home, OPTIONS, clean=False)
    assert sequences(again) == written_below(95)
    assert at not in snapshots(again)


def test_a_crash_between_a_snapshot_and_the_batch_after_it_does_no_harm(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 90)
    at = snapshots(log)[-1]
    home = crashed_copy(log, tmp_path / "crash")
    batch_bytes = log.size_bytes // 90
    with (home / log.directory.name / log.segments[0].file.path.name).open("r+b") as file:
        file.truncate(at * batch_bytes)
    again = open_log(home, OPTIONS, clean=False)
    assert again.log_end_offset == at
    assert sequences(again) == written_below(at)
    fill(again, 120)
    again.truncate_to(Offset(at + 1))
    assert sequences(again) == written_below(at + 1)


def test_segments_take_them_along_when_they_are_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 90)
    inner = snapshots(log)
    log.roll(NOW_MS)
    assert snapshots(log) == [*inner[-KEPT + 1 :], 90]
    log.drop_segments(1)
    assert snapshots(log) == [90]
    fill(log, 95)
    log.truncate_to(Offset(93))
    assert sequences(log) == written_below(93)


def test_snapshots_from_before_the_first_segment_are_not_used(tmp_path: Path) -> None:
    """Between them and the log start, transactions may have ended."""
    log = open_log(tmp_path, OPTIONS)
    write(log, 7)
    fill(log, 40)
    stale = snapshots(log)[0]
    content = snapshot_path(log.directory, stale).read_bytes()
    abort(log, 7)
    log.roll(NOW_MS)
    log.drop_segments(1)
    fill(log, 45)
    snapshot_path(log.directory, 41).unlink()
    snapshot_path(log.directory, stale).write_bytes(content)
    log.truncate_to(Offset(43))
    assert (stable(log), snapshots(log)) == (43, [])


def test_transactions_around_a_snapshot_keep_their_index(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    while len(snapshots(log)) < KEPT:
        write(log, 1)
        write(log, 2)
        abort(log, 1)
    abort(log, 2)
    before, end = indexed(log), log.log_end_offset
    fill(log, end + 3)
    log.truncate_to(end)
    assert (indexed(log), stable(log)) == (before, end)
    log.truncate_to(Offset(end - 1))
    assert indexed(log) == before[:-1]
    assert stable(log) == before[-1].first_offset


def test_a_snapshot_that_cannot_be_written_refuses_the_append(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    fill(log, 13)
    size = log.size_bytes
    for offset in range(13, 16):
        (log.directory / f"{offset:020d}.snapshot").mkdir()
    with pytest.raises(StorageFailed, match="snapshot"):
        fill(log, 17)
    end = log.log_end_offset
    assert log.size_bytes == size // 13 * end
    assert sequences(log) == written_below(end)


def test_many_producers_make_them_rare() -> None:
    assert is_worthwhile(OPTIONS, 1000, 0, 16)
    assert is_worthwhile(OPTIONS, 1000, 68, 17)
    assert not is_worthwhile(OPTIONS, 1000, 67, 17)
    assert not is_worthwhile(OPTIONS, 999, 68, 17)


def test_producers_are_not_written_more_often_than_they_append(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    written = set()
    for number in range(1000):
        append(log, a_batch(producer=ProducerIdentity(number % 100, 0, number // 100)))
        written.update(snapshots(log))
    at = sorted(offset for offset in written if offset > 100)  # there are few producers before
    assert len(at) == 2
    assert at[1] - at[0] >= 400


def test_truncation_keeps_the_largest_timestamp_without_reading_the_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    append(log, a_batch(timestamp_ms=NOW_MS + 1000))
    while log.log_end_offset < 100:
        append(log, a_batch(timestamp_ms=NOW_MS + log.log_end_offset))
    break_first_batch(log)
    log.truncate_to(Offset(99))
    assert log.segments[-1].max_timestamp_ms == NOW_MS + 1000
    log.truncate_to(Offset(98))
    append(log, a_batch(timestamp_ms=NOW_MS + 2000))
    log.truncate_to(Offset(99))
    assert log.segments[-1].max_timestamp_ms == NOW_MS + 2000
    assert log.segments[-1].max_timestamp_offset == 98
