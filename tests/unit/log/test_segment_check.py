"""The check of a segment's files: its findings, where the next batch begins, no false alarms."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from cluster.log.partition_log import PartitionLog
from cluster.log.segment_check import PIECE_BYTES, FileToCheck, Hole, SegmentCheck
from cluster.records.batch import read_header
from tests.support.examples import examples
from tests.unit.log.log_builder import NOW_MS, SMALL, a_batch, append, open_log

NO_LIMIT = 2**63 - 1


def a_log(home: Path, batches: int = 40, segment_bytes: int = 1_000) -> PartitionLog:
    log = open_log(home, replace(SMALL, segment_bytes=segment_bytes))
    for step in range(batches):
        append(log, a_batch(2, value=b"v%d" % step, timestamp_ms=NOW_MS + (step * 7) % 11))
    return log


def check(path: Path, limit: int, **changes: Any) -> SegmentCheck:
    file = FileToCheck(path, int(path.stem), limit, None, is_active=False)
    return SegmentCheck(file._replace(**changes)).run()


def batches_of(path: Path) -> list[tuple[int, int, int]]:
    """Position, end and base offset of each batch of an undamaged file."""
    content, position, found = path.read_bytes(), 0, []
    while position < len(content):
        header = read_header(content, position)
        found.append((position, position + header.size_bytes, header.base_offset))
        position += header.size_bytes
    return found


def flip(path: Path, position: int, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= bit
    path.write_bytes(content)


def test_good_segments_have_no_findings(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    closed, following = log.segments[:-1], log.segments[1:]
    assert len(closed) > 2
    for segment, after in zip(closed, following, strict=True):
        found = check(segment.file.path, after.base_offset)
        assert found.is_good, (found.holes, found.index_defects)
        assert found.checked_bytes == segment.file.size_bytes
        assert (found.first_offset, found.next_offset) == (segment.base_offset, after.base_offset)
        assert found.stamp is not None


def test_the_active_segment_of_a_running_broker_ends_in_zeros(tmp_path: Path) -> None:
    log = a_log(tmp_path, batches=3, segment_bytes=100_000)
    path = log.segments[0].file.path
    assert path.stat().st_size > log.size_bytes
    found = check(path, NO_LIMIT, is_active=True)
    assert found.is_good
    assert found.end == log.size_bytes
    assert found.next_offset == log.log_end_offset


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_is_found_and_later_batches_are_good(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = a_log(tmp_path_factory.mktemp("log"), batches=14)
    segment, after = log.segments[0], log.segments[1]
    path = segment.file.path
    position = data.draw(st.integers(0, segment.file.size_bytes - 1))
    good = batches_of(path)
    # The leader epoch lies outside the checksum, and any may be true.
    assume(not any(start + 12 <= position < start + 16 for start, _, _ in good))
    flip(path, position, 1 << data.draw(st.integers(0, 7)))
    (hole,) = check(path, after.base_offset).holes
    slot = next(n for n, (start, end, _) in enumerate(good) if start <= position < end)
    ends = [end for _, end, _ in good]
    offsets = [*(base for _, _, base in good), after.base_offset]
    # A raised base offset may put the blame on a batch beside it, never on more than that.
    assert hole.position in (good[slot][0], good[max(0, slot - 1)][0])
    assert hole.end in (ends[slot], ends[min(len(ends) - 1, slot + 1)])
    assert hole.position <= position < hole.end
    assert hole.offset == offsets[[start for start, _, _ in good].index(hole.position)]
    assert hole.next_offset == offsets[1 + ends.index(hole.end)]


def test_check_reports_the_missing_bytes_of_a_truncated_file(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    segment, after = log.segments[0], log.segments[1]
    size = segment.file.size_bytes
    position, _, offset = batches_of(segment.file.path)[2]
    segment.file.path.write_bytes(segment.file.path.read_bytes()[: position + 10])
    (hole,) = check(segment.file.path, after.base_offset, size_bytes=size).holes
    assert hole[:4] == (position, size, offset, after.base_offset)
    (hole,) = check(segment.file.path, after.base_offset).holes
    assert hole[:4] == (position, position + 10, offset, after.base_offset)


def test_two_damaged_batches_beside_each_other_are_one_hole(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    segment, after = log.segments[0], log.segments[1]
    good = batches_of(segment.file.path)
    flip(segment.file.path, good[1][0] + 70)
    flip(segment.file.path, good[2][0] + 9)
    found = check(segment.file.path, after.base_offset)
    assert found.holes[0].position == good[1][0]
    assert found.holes[-1].end == good[2][1]
    assert found.holes[-1].next_offset == good[3][2]


def test_a_batch_larger_than_a_piece_is_checked_and_skipped(tmp_path: Path) -> None:
    log = open_log(tmp_path, replace(SMALL, segment_bytes=3 * PIECE_BYTES))
    append(log, a_batch(value=b"x" * (2 * PIECE_BYTES)))
    append(log, a_batch(value=b"y"))
    log.roll(NOW_MS)
    segment = log.segments[0]
    assert check(segment.file.path, 2).is_good
    flip(segment.file.path, 2 * PIECE_BYTES - 5)
    (hole,) = check(segment.file.path, 2).holes
    assert hole == Hole(0, batches_of(segment.file.path)[1][0], 0, 1, "checksum does not match")
    flip(segment.file.path, 9)  # also damages its length, so the next batch must be searched for
    (hole,) = check(segment.file.path, 2).holes
    assert (hole.position, hole.next_offset) == (0, 1)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_in_an_index_is_found_unless_it_is_harmless(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, data: st.DataObject
) -> None:
    log = a_log(tmp_path_factory.mktemp("log"), batches=14)
    segment, after = log.segments[0], log.segments[1]
    path = segment.file.path.with_suffix(suffix)
    before = path.read_bytes()
    assert before
    position = data.draw(st.integers(0, len(before) - 1))
    flip(path, position, 1 << data.draw(st.integers(0, 7)))
    found = check(segment.file.path, after.base_offset)
    assert not found.holes
    if not found.index_defects and suffix == ".timeindex":
        assert position % 12 == 11  # the other record of the same batch
    elif not found.index_defects:  # every lookup still reaches the right batch
        for start, _, base in batches_of(segment.file.path):
            segment.release()
            assert segment.locate(base) == start


def test_a_missing_index_is_found(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    segment, after = log.segments[0], log.segments[1]
    segment.file.path.with_suffix(".index").unlink()
    (defect,) = check(segment.file.path, after.base_offset).index_defects
    assert defect.endswith(".index: it is missing")


@pytest.mark.parametrize("kept_bytes", [0, 10, 30_000])
def test_a_file_that_is_cut_while_it_is_read_is_an_error_of_the_file(
    tmp_path: Path, *, kept_bytes: int
) -> None:
    """The caller of the check expects no other exception; its thread would end."""
    log = a_log(tmp_path, batches=3 * PIECE_BYTES // 70, segment_bytes=4 * PIECE_BYTES)
    path = log.segments[0].file.path
    checking = SegmentCheck(FileToCheck(path, 0, NO_LIMIT, log.size_bytes, is_active=True))
    steps = checking.steps()
    assert next(steps) >= PIECE_BYTES
    os.truncate(path, kept_bytes)
    with pytest.raises(OSError, match="was truncated"):
        for _ in steps:
            pass
