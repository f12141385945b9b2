"""Append, read, roll, truncate and flush of one log."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.log.batch_search import TimestampOffset
from cluster.log.files import LogFiles
from cluster.log.options import LOG_APPEND_TIME, NO_LIMIT, LogOptions
from cluster.log.segment_paths import segment_paths
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import LeaderEpoch, Offset
from cluster.records.batch import Compression, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import read_records
from tests.unit.log.log_builder import (
    NOW_MS,
    SMALL,
    ZERO,
    a_batch,
    all_bytes,
    append,
    crashed_copy,
    max_timestamp_offset,
    needs_flush,
    offset_for_timestamp,
    open_log,
    read_all,
)


def test_offsets_follow_each_other(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = append(log, a_batch(3)), append(log, a_batch(2))
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    assert (first.log_append_time_ms, first.is_duplicate) == (-1, False)
    assert log.log_end_offset == 5
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]


def test_stored_bytes_are_the_producers_but_for_offset_and_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(3))
    batch = a_batch(2)
    append(log, batch, epoch=7)
    stored = log.read(Offset(3), 1000, upper_offset=Offset(5), at_least_one_batch=True).view()
    header = read_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 7)
    assert stored[16:] == batch[16:]


def test_the_batch_is_copied(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    buffer = bytearray(a_batch(1, value=b"kept"))
    append(log, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert read_all(log)[0].value == b"kept"


def test_a_refused_batch_leaves_no_trace(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(1))
    before = (log.log_end_offset, log.size_bytes)
    with pytest.raises(Refused):
        append(log, a_batch(1)[:-1])
    assert (log.log_end_offset, log.size_bytes) == before


def test_rolls_by_size_and_names_segments_by_their_base(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    size = len(a_batch())
    for _ in range(100):
        append(log, a_batch())
    per_segment = SMALL.segment_bytes // size
    bases = [segment.base_offset for segment in log.segments]
    assert bases == list(range(0, 100, per_segment))
    assert log.size_bytes == 100 * size
    names = {path.name for path in log.directory.glob("*.log")}
    assert names == {f"{base:020d}.log" for base in bases}
    for base in bases[:-1]:
        stem = log.directory / f"{base:020d}"
        assert stem.with_suffix(".log").stat().st_size == per_segment * size
        assert stem.with_suffix(".index").stat().st_size % 8 == 0
        assert stem.with_suffix(".timeindex").stat().st_size % 12 == 0
    assert len(read_all(log)) == 100


def test_rolls_by_age_in_record_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_ms=1000))
    for later_ms in (0, 1000, 1001, 2001, 2002):
        append(log, a_batch(timestamp_ms=NOW_MS + later_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_segments_of_one_age_are_not_all_closed_at_once(tmp_path: Path) -> None:
    options = replace(SMALL, segment_ms=1000, segment_jitter_ms=500, segment_bytes=1 << 20)
    bounds = {options.jitter_ms(f"t-{number}/0") for number in range(1000)}
    assert len(bounds) > 400
    assert all(0 <= bound < 500 for bound in bounds)
    assert replace(options, segment_jitter_ms=0).jitter_ms("t-0/0") == 0
    assert 0 <= replace(options, segment_jitter_ms=2**60).jitter_ms("t-0/0") < 1000
    log = open_log(tmp_path, options)
    early_ms = options.jitter_ms("orders-0/0")
    append(log, a_batch())
    append(log, a_batch(timestamp_ms=NOW_MS + 1000 - early_ms))
    assert len(log.segments) == 1
    append(log, a_batch(timestamp_ms=NOW_MS + 1001 - early_ms))
    assert len(log.segments) == 2


def test_rolls_when_the_index_is_full(tmp_path: Path) -> None:
    options = replace(SMALL, segment_bytes=1 << 20, segment_index_bytes=80, index_interval_bytes=0)
    log = open_log(tmp_path, options)
    for step in range(40):
        append(log, a_batch(timestamp_ms=NOW_MS + step))
    assert len(log.segments) > 2
    assert len(read_all(log)) == 40
    for segment in log.segments[:-1]:
        paths = segment_paths(log.directory, segment.base_offset)
        assert all(path.stat().st_size <= 80 for path in paths[1:3])


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(Refused) as raised:
        append(log, a_batch(value=bytes(2000)))
    assert raised.value.code is ErrorCode.record_list_too_large


def test_log_append_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, message_timestamp_type=LOG_APPEND_TIME))
    appended = append(log, a_batch(2, timestamp_ms=5), wall_ms=WallMs(NOW_MS + 3))
    assert appended.log_append_time_ms == NOW_MS + 3
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS + 3] * 2
    found = offset_for_timestamp(log, NOW_MS, upper_offset=log.log_end_offset)
    assert found == TimestampOffset(NOW_MS + 3, ZERO)


def test_compression_type_recompresses(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, compression_type="zstd"))
    producer = ProducerIdentity(5, 0, 0)
    append(log, a_batch(3, value=b"text " * 20, producer=producer))
    stored = log.read(ZERO, 1000, upper_offset=Offset(3), at_least_one_batch=True).view()
    assert read_header(stored).compression is Compression.ZSTD
    assert [record.value for record in read_records(stored)] == [b"text " * 20] * 3
    assert append(log, a_batch(3, value=b"text " * 20, producer=producer)).is_duplicate


@pytest.mark.parametrize(("codec", "high"), [("gzip", 9), ("lz4", 12), ("zstd", 19)])
def test_a_level_of_the_topic_is_used_to_recompress(tmp_path: Path, codec: str, high: int) -> None:
    value = b" ".join(b"%x" % (number * number % 7919) for number in range(2_000))
    sizes = []
    for level in (1, high):
        options = replace(
            SMALL,
            segment_bytes=1 << 20,
            compression_type=codec,
            compression_gzip_level=level,
            compression_lz4_level=level,
            compression_zstd_level=level,
        )
        log = open_log(tmp_path / str(level), options)
        append(log, a_batch(value=value))
        sizes.append(log.size_bytes)
    assert sizes[0] > sizes[1]


def test_new_options_count_from_the_next_append(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.update_options(replace(SMALL, max_message_bytes=10))
    with pytest.raises(Refused) as raised:
        append(log, a_batch())
    assert raised.value.code is ErrorCode.message_too_large


# Reading


def test_reads_from_every_offset_and_every_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    sizes = []
    for count in range(1, 31):
        batch = a_batch(count % 4 + 1)
        sizes += [(log.log_end_offset, count % 4 + 1, len(batch))]
        append(log, batch)
    end = log.log_end_offset
    for base, count, size in sizes:
        for offset in range(base, base + count):
            for max_bytes in (0, size - 1, size, size + 1, 500):
                part = log.read(
                    Offset(offset), max_bytes, upper_offset=end, at_least_one_batch=False
                )
                assert part.size_bytes <= max_bytes
                assert (part.size_bytes > 0) == (max_bytes >= size)
                if part.size_bytes:
                    assert read_header(part.view()).base_offset == base
                    records = list(read_records(part.view()))
                    assert part.next_offset == records[-1].offset + 1
            one = log.read(Offset(offset), 0, upper_offset=end, at_least_one_batch=True)
            assert (one.size_bytes, one.next_offset) == (size, base + count)


def test_never_reads_at_or_above_the_upper_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(30):
        append(log, a_batch(3))
    for upper in range(91):
        seen = 0
        offset = ZERO
        while True:
            part = log.read(offset, 1 << 20, upper_offset=Offset(upper), at_least_one_batch=True)
            if not part.size_bytes:
                break
            seen = max(record.offset for record in read_records(part.view())) + 1
            offset = part.next_offset
        assert seen == upper // 3 * 3


def test_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path, log_start_offset=10)
    append(log, a_batch(2))
    end = log.log_end_offset
    assert log.read(end, 100, upper_offset=end, at_least_one_batch=True).size_bytes == 0
    for offset in (9, end + 1):
        with pytest.raises(Refused) as raised:
            log.read(Offset(offset), 100, upper_offset=end, at_least_one_batch=True)
        assert raised.value.code is ErrorCode.offset_out_of_range


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(60):
        append(log, a_batch())
    part = log.read(ZERO, 500, upper_offset=log.log_end_offset, at_least_one_batch=True)
    before = bytes(part.view())
    log.drop_segments(2)
    assert not part.path.exists()
    assert log.log_start_offset == log.segments[0].base_offset > 0
    log.close(flush=False)
    del log
    assert part.view() == before
    assert os.pread(part.fileno(), part.size_bytes, part.position) == before


def test_a_view_survives_growth_roll_and_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=1 << 20))
    append(log, a_batch(1, value=b"a" * 100))
    append(log, a_batch(1, value=b"b" * 100))
    part = log.read(ZERO, 1000, upper_offset=Offset(2), at_least_one_batch=True)
    view = part.view()
    for _ in range(200):
        append(log, a_batch(1, value=bytes(4000)))
    assert len(list(read_records(view))) == 2
    log.truncate_to(Offset(1))
    assert bytes(view[len(view) // 2 :]) == bytes(len(view) // 2)


def test_timestamps_find_their_first_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    stamps = []
    for step in range(60):
        base = NOW_MS + step * 10 - (35 if step % 7 == 0 else 0)  # some records arrive late
        append(log, a_batch(2, timestamp_ms=base))
        stamps += [base, base + 1]
    end = log.log_end_offset
    for clean in (True, False, True):
        for wanted in range(NOW_MS - 40, NOW_MS + 600, 3):
            first = next((o for o, stamp in enumerate(stamps) if stamp >= wanted), None)
            found = offset_for_timestamp(log, wanted, upper_offset=end)
            assert found == (
                None if first is None else TimestampOffset(stamps[first], Offset(first))
            )
        newest = max(stamps)
        assert max_timestamp_offset(log, upper_offset=end) == (newest, stamps.index(newest))
        assert max_timestamp_offset(log, upper_offset=Offset(20)) == (
            max(stamps[:20]),
            stamps.index(max(stamps[:20])),
        )
        log.close(flush=False)
        log = open_log(tmp_path, clean=clean)


def test_for_the_newest_committed_record_older_segments_are_not_read(tmp_path: Path) -> None:
    """The newest record of a busy log is rarely committed."""
    log = open_log(tmp_path)
    for step in range(60):
        append(log, a_batch(timestamp_ms=NOW_MS + step))
    end, last = log.log_end_offset, log.segments[-1]
    assert last.base_offset < end - 2
    for segment in log.segments[:-1]:
        segment.file.path.write_bytes(bytes(segment.file.size_bytes))
        segment.release()
    found = max_timestamp_offset(log, upper_offset=Offset(end - 1))
    assert found == TimestampOffset(NOW_MS + 58, Offset(58))


@pytest.mark.parametrize("upper_offset", [20, 59, 60])
def test_max_timestamp_search_finds_the_first_of_several_newest_records(
    tmp_path: Path, *, upper_offset: int
) -> None:
    log = open_log(tmp_path)
    for step in range(60):
        append(log, a_batch(timestamp_ms=NOW_MS + min(step, 5)))
    append(log, a_batch(timestamp_ms=NOW_MS + 9))
    assert len(log.segments) > 2
    found = max_timestamp_offset(log, upper_offset=Offset(upper_offset))
    assert found == TimestampOffset(NOW_MS + 5, Offset(5))


def test_timestamps_of_an_empty_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert offset_for_timestamp(log, 0, upper_offset=ZERO) is None
    assert max_timestamp_offset(log, upper_offset=ZERO) is None


# Follower


def test_a_follower_holds_the_leaders_bytes(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    for step in range(80):
        append(
            leader,
            a_batch(step % 3 + 1, producer=ProducerIdentity(1, 0, 0))
            if not step
            else a_batch(step % 3 + 1),
            epoch=step // 30,
        )
    while follower.log_end_offset < leader.log_end_offset:
        part = leader.read(
            follower.log_end_offset,
            700,
            upper_offset=leader.log_end_offset,
            at_least_one_batch=True,
        )
        follower.append_as_follower(part.view(), NOW_MS)
    assert all_bytes(follower) == all_bytes(leader)
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.producers.entries.keys() == {1}
    follower.close(flush=False)
    assert read_all(open_log(tmp_path / "b")) == read_all(leader)


@pytest.mark.parametrize("damage", ["bit", "offset", "cut", "garbage"])
def test_a_follower_takes_all_or_nothing(tmp_path: Path, damage: str) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(5))
    run = bytearray()
    for base in (5, 7, 9):
        run += build_batch([NewRecord(b"v")] * 2, base_offset=base, leader_epoch=0)
    third = len(run) // 3
    damaged = {
        "bit": run[:-1] + bytes([run[-1] ^ 1]),
        "offset": run[third:] + run[:third],
        "cut": run[:-1],
        "garbage": run + b"x" * 80,
    }[damage]
    with pytest.raises(Refused) as raised:
        log.append_as_follower(memoryview(damaged), NOW_MS)
    assert raised.value.code is ErrorCode.corrupt_message
    assert log.log_end_offset == 5
    log.append_as_follower(memoryview(run), NOW_MS)
    assert [record.offset for record in read_all(log)] == list(range(11))


def test_a_follower_accepts_gaps_but_not_overlaps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_follower(
        memoryview(build_batch([NewRecord(b"v")], base_offset=7, leader_epoch=2)), NOW_MS
    )
    assert (log.log_end_offset, log.epochs.latest) == (8, 2)
    part = log.read(ZERO, 100, upper_offset=Offset(8), at_least_one_batch=True)
    assert next(read_records(part.view())).offset == 7
    with pytest.raises(Refused):
        log.append_as_follower(memoryview(build_batch([NewRecord(b"v")], base_offset=7)), NOW_MS)


def test_a_gap_too_wide_for_the_index_rolls(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch())
    far = 2**33
    log.append_as_follower(
        memoryview(build_batch([NewRecord(b"far")], base_offset=far, leader_epoch=0)),
        NOW_MS,
    )
    assert [segment.base_offset for segment in log.segments] == [0, far]
    assert [record.offset for record in read_all(log)] == [0, far]


# Truncation


def test_truncation_within_and_across_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for step in range(100):
        append(log, a_batch(2), epoch=step // 20)
    whole = read_all(log)
    for offset, end, epoch in (
        (195, 194, 4),
        (160, 160, 3),
        (161, 160, 3),
        (45, 44, 1),
        (0, 0, -1),
    ):
        log.truncate_to(Offset(offset))
        assert (log.log_end_offset, log.epochs.latest) == (end, epoch)
        assert read_all(log) == whole[:end]
        assert log.size_bytes == len(all_bytes(log))
        crashed = open_log(crashed_copy(log, tmp_path / f"crash-{offset}"), clean=False)
        assert read_all(crashed) == whole[:end], "truncated batches came back"
    append(log, a_batch(1, value=b"new"), epoch=9)
    assert read_all(log)[0].value == b"new"


def test_positions_of_truncated_batches_are_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(10):
        append(log, a_batch(1))
    log.truncate_to(Offset(5))
    append(log, a_batch(4))
    part = log.read(Offset(7), 1000, upper_offset=Offset(9), at_least_one_batch=True)
    assert [record.offset for record in read_records(part.view())] == [5, 6, 7, 8]


def test_truncation_to_the_end_forgets_an_epoch_without_records(tmp_path: Path) -> None:
    # A deposed leader that appended nothing: the next leader does not know its epoch.
    log = open_log(tmp_path)
    log.epochs.announce(LeaderEpoch(0), Offset(0))
    append(log, a_batch(2), epoch=0)
    log.epochs.announce(LeaderEpoch(5), log.log_end_offset)
    log.truncate_to(log.log_end_offset)
    assert log.epochs.latest == 0


def test_truncation_above_the_end_does_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(2))
    log.truncate_to(Offset(2))
    log.truncate_to(Offset(9))
    assert log.log_end_offset == 2


def test_truncate_fully_restarts_at_another_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(50):
        append(log, a_batch(2, producer=None), epoch=3)
    log.truncate_fully_and_start_at(Offset(1000))
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (1000, 1000, 0)
    assert log.epochs.latest == -1
    assert append(log, a_batch(1)).base_offset == 1000
    log.close(flush=True)
    again = open_log(tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1001)


def test_a_follower_begins_with_the_batch_in_which_the_leaders_log_starts(tmp_path: Path) -> None:
    """Records are deleted one by one, but batches are replicated whole."""
    leader = open_log(tmp_path / "leader")
    for _ in range(2):
        append(leader, a_batch(5))
    leader.advance_log_start_offset(Offset(7))
    follower = open_log(tmp_path / "follower")
    follower.truncate_fully_and_start_at(Offset(7))
    part = leader.read(Offset(7), 1 << 20, upper_offset=Offset(10), at_least_one_batch=True)

    follower.append_as_follower(part.view(), NOW_MS)

    assert (follower.log_start_offset, follower.log_end_offset) == (7, 10)
    assert read_all(follower) == read_all(leader)
    assert follower.epochs.entries == [(0, 7)]
    follower.close(flush=False)
    again = open_log(tmp_path / "follower", log_start_offset=7)
    assert read_all(again) == read_all(leader)


def test_the_log_start_moves_on_only(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for step in range(60):
        append(log, a_batch(1), epoch=step // 25)
    log.advance_log_start_offset(Offset(30))
    log.advance_log_start_offset(Offset(20))
    assert log.log_start_offset == 30
    assert log.epochs.entries == [(1, 30), (2, 50)]
    log.advance_log_start_offset(Offset(500))
    assert log.log_start_offset == log.log_end_offset == 60


# A disk that fails


@pytest.mark.parametrize("lost", [".index", ".timeindex"])
def test_a_cut_into_a_segment_without_its_index_is_a_failed_disk(tmp_path: Path, lost: str) -> None:
    log = open_log(tmp_path)
    for _ in range(60):
        append(log, a_batch(1))
    log.segments[0].file.path.with_suffix(lost).unlink()

    with pytest.raises(StorageFailed, match=f"0000{lost}"):
        log.truncate_to(Offset(3))


def test_a_snapshot_that_cannot_be_removed_is_a_failed_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(60):
        append(log, a_batch(1))
    snapshot = next(log.directory.glob("*.snapshot"))
    snapshot.unlink()
    snapshot.mkdir()

    with pytest.raises(StorageFailed, match="snapshot"):
        log.truncate_to(Offset(3))
    with pytest.raises(StorageFailed, match="snapshot"):
        log.truncate_fully_and_start_at(Offset(3))


# Durability

BEGIN = MonotonicMs(1_000)


def test_flush_moves_the_recovery_point(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(60):
        append(log, a_batch(1))
    assert needs_flush(log, BEGIN), "a rolled segment is not on disk yet"
    target = log.flush_target()
    append(log, a_batch(1))
    target.sync()
    log.durability.on_synced(target)
    assert log.durability.recovery_point == 60
    assert not needs_flush(log, BEGIN)
    log.flush()
    assert log.durability.recovery_point == 61


@pytest.mark.parametrize(
    ("options", "waited_ms", "expected"),
    [
        (LogOptions(flush_messages=3), 0, True),
        (LogOptions(flush_messages=4), 0, False),
        (LogOptions(flush_ms=50), 49, False),
        (LogOptions(flush_ms=50), 50, True),
        (LogOptions(), NO_LIMIT // 2, False),
    ],
)
def test_flush_policy(tmp_path: Path, options: LogOptions, waited_ms: int, expected: bool) -> None:
    log = open_log(tmp_path, options)
    assert not needs_flush(log, BEGIN)
    append(log, a_batch(3))
    assert needs_flush(log, MonotonicMs(BEGIN + waited_ms)) is expected
    log.flush()
    assert not needs_flush(log, MonotonicMs(BEGIN + waited_ms))


def test_replicated_records_are_synced_when_there_are_enough(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogOptions(flush_messages=5))
    leader = open_log(tmp_path / "leader")
    synced = []
    for _ in range(3):
        append(leader, a_batch(2))
        new = leader.read(
            log.log_end_offset, 1 << 20, upper_offset=Offset(6), at_least_one_batch=True
        )
        log.append_as_follower(new.view(), NOW_MS)
        synced.append(log.durability.recovery_point)
    assert synced == [0, 0, 6]


def test_a_flush_of_truncated_records_does_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(10))
    append(log, a_batch(10))
    target = log.flush_target()
    log.truncate_to(Offset(10))
    target.sync()
    log.durability.on_synced(target)
    assert log.durability.recovery_point == 10


# Full disk


def refuse_above(limit_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    allocate = os.posix_fallocate

    def full_disk(descriptor: int, position: int, size_bytes: int) -> None:
        if position + size_bytes > limit_bytes:
            raise OSError(28, "No space left on device")
        allocate(descriptor, position, size_bytes)

    monkeypatch.setattr(LogFiles, "allocate", staticmethod(full_disk))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="what the test makes fail")
def test_a_full_disk_is_a_clean_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path, LogOptions())
    refuse_above(100_000, monkeypatch)
    batch = a_batch(1, value=bytes(9000))
    fitting = 100_000 // len(batch)
    for _ in range(fitting):
        append(log, batch)
    for _ in range(2):
        with pytest.raises(StorageFailed, match="No space left"):
            append(log, batch)
    replicated = build_batch([NewRecord(bytes(50_000))], base_offset=fitting)
    with pytest.raises(StorageFailed, match="No space left"):
        log.append_as_follower(memoryview(replicated), NOW_MS)
    assert log.log_end_offset == fitting
    assert len(read_all(log)) == fitting
    log.close(flush=True)
    assert len(read_all(open_log(tmp_path))) == fitting


Write = Callable[[int, Sequence[memoryview | bytes], int], int]


def write_in_pieces(write: Write, piece_bytes: int, left: list[int]) -> Write:
    """A replacement of `os.pwritev` that writes at most so many bytes, `left` times, then fails."""

    def short_write(descriptor: int, parts: Sequence[memoryview | bytes], position: int) -> int:
        if not left[0]:
            raise OSError(errno.EIO, "Input/output error")
        left[0] -= 1
        return write(descriptor, [b"".join(parts)[:piece_bytes]], position)

    return short_write


@pytest.mark.parametrize("piece_bytes", [7, 16, 17, 5_000, 100_000])
def test_a_large_batch_may_be_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    log = open_log(tmp_path, LogOptions())
    batches = [a_batch(3, value=bytes([size % 251]) * size) for size in (10, 4_000, 9_000)]
    short_write = write_in_pieces(os.pwritev, piece_bytes, [10_000])
    monkeypatch.setattr(LogFiles, "pwritev", staticmethod(short_write))
    for batch in batches:
        append(log, batch, epoch=3)
    assert [record.offset for record in read_all(log)] == list(range(9))
    assert [len(record.value or b"") for record in read_all(log)][::3] == [10, 4_000, 9_000]


def test_failed_write_leaves_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the remaining bytes after a smaller batch might look like batches."""
    log = open_log(tmp_path, LogOptions())
    append(log, a_batch(2))
    file = log.segments[0].file
    end = file.size_bytes
    with monkeypatch.context() as patched:
        short_write = write_in_pieces(os.pwritev, 6_000, [1])
        patched.setattr(LogFiles, "pwritev", staticmethod(short_write))
        with pytest.raises(StorageFailed, match="cannot write"):
            append(log, a_batch(1, value=b"x" * 10_000))
    assert not any(file.path.read_bytes()[end:])
    append(log, a_batch(1))
    assert [record.offset for record in read_all(log)] == [0, 1, 2]


def test_space_grows_from_a_small_first_step(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogOptions())
    path = log.segments[0].file.path
    assert path.stat().st_size == 0
    append(log, a_batch())
    assert path.stat().st_size == 256 * 1024
    log.close(flush=False)
    assert path.stat().st_size == len(a_batch())


def test_a_segment_may_take_all_of_its_space_at_once(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes=1 << 20, preallocate_step_bytes=8192, preallocate=True)
    log = open_log(tmp_path, options)
    path = log.segments[0].file.path
    append(log, a_batch())
    assert path.stat().st_size == path.stat().st_blocks * 512 == 1 << 20
    log.close(flush=False)
    assert path.stat().st_size == len(a_batch())
    assert len(read_all(open_log(tmp_path, options))) == 1


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="what the test makes fail")
def test_a_segment_allocates_only_what_it_needs_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, LogOptions(preallocate=True))
    refuse_above(100_000, monkeypatch)
    append(log, a_batch())
    assert len(read_all(log)) == 1


def test_without_posix_fallocate_zeros_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    log = open_log(tmp_path, LogOptions())
    append(log, a_batch(3))
    assert log.segments[0].file.path.stat().st_blocks * 512 >= 256 * 1024
    assert len(read_all(log)) == 3


def test_epochs_begin_with_leadership_or_the_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.epochs.announce(LeaderEpoch(2), ZERO)
    append(log, a_batch(4), epoch=2)
    append(log, a_batch(4), epoch=5)
    assert log.epochs.end_offset(LeaderEpoch(2), log.log_end_offset) == (2, 4)
    assert log.epochs.end_offset(LeaderEpoch(4), log.log_end_offset) == (2, 4)
    assert log.epochs.end_offset(LeaderEpoch(5), log.log_end_offset) == (5, 8)
    assert log.epochs.end_offset(LeaderEpoch(6), log.log_end_offset) == (-1, -1)


def test_an_announced_epoch_is_on_disk_before_its_first_replicated_record(tmp_path: Path) -> None:
    """Otherwise a crash after a flush makes the epoch begin at the recovery point."""
    leader = open_log(tmp_path / "leader")
    append(leader, a_batch(3), epoch=1)
    log = open_log(tmp_path / "follower")
    log.epochs.announce(LeaderEpoch(1), ZERO)
    log.append_as_follower(memoryview(all_bytes(leader)), NOW_MS)
    copied = crashed_copy(log, tmp_path / "copy")
    again = open_log(copied, clean=False, recovery_point=3)
    assert again.epochs.entries == [(1, 0)]
