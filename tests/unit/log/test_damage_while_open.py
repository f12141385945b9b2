"""Damage to closed segments of an open log is found before the bytes are served."""

import logging
import os
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from cluster.log.damage import Damage, DamagedBatch
from cluster.log.partition_log import OnDamage, PartitionLog
from cluster.log.segment import Segment
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset, TopicPartition
from cluster.records.batch import read_header
from cluster.records.reader import read_records
from tests.unit.log.log_builder import (
    NOW_MS,
    SMALL,
    a_batch,
    append,
    offset_for_timestamp,
    open_log,
    read_all,
)

OPTIONS = replace(SMALL, segment_bytes=1_000)
BATCHES = 40


def a_log(home: Path, on_damage: OnDamage | None = None) -> PartitionLog:
    log = open_log(home, OPTIONS, on_damage=on_damage)
    for step in range(BATCHES):
        append(log, a_batch(value=b"value %d" % step, timestamp_ms=NOW_MS + step))
    assert len(log.segments) > 3
    return log


def flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def batch_of(segment: Segment, number: int) -> tuple[int, int]:
    """Position and base offset of a batch."""
    position = 0
    for _ in range(number):
        position += read_header(segment.file.mapping(), position).size_bytes
    return position, read_header(segment.file.mapping(), position).base_offset


def values(log: PartitionLog, offset: int) -> list[bytes | None]:
    part = log.read(
        Offset(offset), 10_000, upper_offset=log.log_end_offset, at_least_one_batch=True
    )
    return [record.value for record in read_records(part.view())]


@pytest.mark.parametrize("is_read_before", [False, True])
def test_a_flipped_byte_is_refused_and_all_else_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_read_before: bool
) -> None:
    told: list[tuple[TopicPartition, Damage]] = []
    log = a_log(tmp_path, lambda *damage: told.append(damage))
    segment = log.segments[1]
    if is_read_before:
        read_all(log)
    position, offset = batch_of(segment, 3)
    flip(segment.file.path, position + 65)

    before = values(log, segment.base_offset)
    assert before == [b"value %d" % n for n in range(segment.base_offset, offset)]
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            values(log, offset)
        assert refused.value.code is ErrorCode.corrupt_message
    assert values(log, offset + 1)[0] == b"value %d" % (offset + 1)
    assert values(log, log.segments[2].base_offset)

    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert errors == [
        f"{segment.file.path} is damaged at byte {position}, offset {offset};"
        " the damaged batch is not served:"
        " checksum does not match"
    ]
    damage = Damage(segment.base_offset, position, offset, "checksum does not match")
    assert told == [(log.partition, damage)]


def test_a_flipped_byte_is_found_in_a_segment_that_a_follower_has_written(tmp_path: Path) -> None:
    leader, follower = a_log(tmp_path / "a"), open_log(tmp_path / "b", OPTIONS)
    while follower.log_end_offset < leader.log_end_offset:
        at = follower.log_end_offset
        part = leader.read(at, 1, upper_offset=leader.log_end_offset, at_least_one_batch=True)
        follower.append_as_follower(part.view(), NOW_MS)
    segment = follower.segments[0]
    flip(segment.file.path, 70)
    with pytest.raises(DamagedBatch):
        values(follower, 0)
    assert len(follower.damage) == 1


def test_bytes_that_are_appended_are_not_looked_at_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, a_batch(value=b"value"))
    assert log.segments[-1].unchecked is None


def test_repaired_bytes_are_served_without_a_restart(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    segment = log.segments[1]
    position, offset = batch_of(segment, 2)
    flip(segment.file.path, position + 65)
    with pytest.raises(DamagedBatch):
        values(log, offset)
    flip(segment.file.path, position + 65)
    assert values(log, offset)[0] == b"value %d" % offset


@pytest.mark.parametrize("is_open", [False, True])
def test_a_closed_segment_whose_file_was_cut_is_refused(tmp_path: Path, *, is_open: bool) -> None:
    log = a_log(tmp_path)
    segment = log.segments[1]
    if is_open:
        read_all(log)  # its mapping extends beyond the end then; reading there would raise SIGBUS
    segment.file.path.write_bytes(segment.file.path.read_bytes()[:150])
    with pytest.raises(DamagedBatch):
        values(log, segment.base_offset + 3)
    with pytest.raises(DamagedBatch):
        offset_for_timestamp(log, NOW_MS + segment.base_offset + 3, upper_offset=log.log_end_offset)
    assert values(log, log.segments[2].base_offset)


def test_a_truncated_log_forgets_damage_beyond_its_end(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    segment = log.segments[1]
    position, offset = batch_of(segment, 3)
    flip(segment.file.path, position + 65)
    with pytest.raises(DamagedBatch):
        values(log, offset)
    log.truncate_to(Offset(offset))
    assert len(log.damage) == 0
    append(log, a_batch(value=b"new"), epoch=3)
    assert values(log, offset) == [b"new"]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_damaged_index_costs_no_record(tmp_path: Path, suffix: str) -> None:
    log = a_log(tmp_path)
    for segment in log.segments[:2]:
        path = segment.file.path.with_suffix(suffix)
        before = path.read_bytes()
        for position in range(len(before)):
            flip(path, position)
            segment.release()
            for offset in range(segment.base_offset, segment.base_offset + 4):
                assert values(log, offset)[0] == b"value %d" % offset
            path.write_bytes(before)


def test_an_old_closed_segment_is_checked_again_when_read(
    tmp_path: Path,
) -> None:
    log = a_log(tmp_path)
    segment = log.segments[0]
    before = segment.file.path.stat()
    flip(segment.file.path, 70)
    # As if the disk returned other bytes: nobody has written to the file.
    os.utime(segment.file.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert size_read(log)
    log.files.age()
    assert size_read(log)
    log.files.age()
    with pytest.raises(DamagedBatch):
        values(log, 0)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_sound_batches_are_served_in_whatever_order_they_are_first_read(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    a_log(tmp_path).close(flush=False)
    log = open_log(tmp_path, OPTIONS)
    first = log.segments[0]
    for number in order[:3]:
        offset = Offset(batch_of(first, number)[1])
        part = log.read(offset, 1, upper_offset=log.log_end_offset, at_least_one_batch=True)
        assert part.next_offset == offset + 1
    assert size_read(log) == first.file.size_bytes
    assert not len(log.damage)


def size_read(log: PartitionLog) -> int:
    part = log.read(Offset(0), 10_000, upper_offset=log.log_end_offset, at_least_one_batch=True)
    return part.size_bytes
