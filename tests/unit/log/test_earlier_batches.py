"""Producers that repeat batches from before the snapshot with which a log was opened."""

from dataclasses import replace
from pathlib import Path

import pytest

from cluster.log import earlier_batches
from cluster.log.partition_log import PartitionLog
from cluster.log.producer_state import BATCHES_KEPT
from cluster.log.segment import Segment
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.records.builder import ProducerIdentity
from tests.unit.log.log_builder import (
    NOW_MS,
    SMALL,
    a_batch,
    all_bytes,
    append,
    crashed_copy,
    open_log,
)
from tests.unit.log.transaction_log import commit, write

OPTIONS = replace(SMALL, segment_bytes=100_000)
PRODUCER, OTHER = 7, 8


def send(
    log: PartitionLog, sequence: int, producer_id: int = PRODUCER, epoch: int = 0
) -> tuple[int, bool]:
    """Append a batch of two records; returns its offset and whether the log had it."""
    batch = a_batch(2, producer=ProducerIdentity(producer_id, epoch, 2 * sequence))
    appended = append(log, batch)
    return appended.base_offset, appended.is_duplicate


def reopened(log: PartitionLog) -> PartitionLog:
    """The log after a clean stop."""
    log.close(flush=False)
    return open_log(log.directory.parent, OPTIONS)


def code_of(
    log: PartitionLog, sequence: int, producer_id: int = PRODUCER, epoch: int = 0
) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        send(log, sequence, producer_id, epoch)
    return refused.value.code


def filled(home: Path, batches: int = 8) -> PartitionLog:
    """A log in which two producers took turns."""
    log = open_log(home, OPTIONS)
    for sequence in range(batches):
        send(log, sequence)
        send(log, sequence, OTHER)
    return log


def test_each_of_the_last_five_batches_can_be_repeated_after_a_clean_stop(tmp_path: Path) -> None:
    log = reopened(filled(tmp_path))
    content = all_bytes(log)
    for sequence in range(8 - BATCHES_KEPT, 8):
        assert send(log, sequence) == (4 * sequence, True)
        assert send(log, sequence, OTHER) == (4 * sequence + 2, True)
    assert code_of(log, 2) is ErrorCode.out_of_order_sequence_number
    assert all_bytes(log) == content
    assert send(log, 8) == (32, False)


def test_repeated_batches_are_found_after_others_were_appended(tmp_path: Path) -> None:
    log = reopened(filled(tmp_path))
    for sequence in range(8, 20):
        send(log, sequence, OTHER)
    send(log, 8)
    assert [send(log, sequence) for sequence in (4, 5, 6, 7)] == [
        (16, True),
        (20, True),
        (24, True),
        (28, True),
    ]
    assert send(log, 8)[1]
    assert code_of(log, 3) is ErrorCode.out_of_order_sequence_number
    assert send(log, 15, OTHER)[1]


def test_repeated_batches_are_found_in_earlier_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    for sequence in range(6):
        send(log, sequence)
        if sequence != 1:
            log.roll(NOW_MS)
    again = open_log(crashed_copy(log, tmp_path / "crash"), OPTIONS, clean=False, recovery_point=12)
    for each in (reopened(log), again):
        assert [send(each, sequence) for sequence in range(1, 6)] == [
            (2 * sequence, True) for sequence in range(1, 6)
        ]


def test_repeated_batches_are_found_after_a_truncation(tmp_path: Path) -> None:
    log = reopened(filled(tmp_path))
    send(log, 8)
    log.truncate_to(Offset(32))
    assert send(log, 4) == (16, True)
    assert send(log, 8) == (32, False)


def test_batches_of_an_earlier_epoch_or_of_another_life_are_not_recalled(tmp_path: Path) -> None:
    log = filled(tmp_path)
    send(log, 0, epoch=1)
    log = reopened(log)
    assert code_of(log, 7) is ErrorCode.invalid_producer_epoch
    send(log, 1, epoch=1)
    send(log, 0, epoch=2)
    assert code_of(log, 1, epoch=1) is ErrorCode.invalid_producer_epoch
    assert code_of(log, 7, epoch=2) is ErrorCode.out_of_order_sequence_number
    log.producers.clear()
    send(log, 7)
    assert code_of(log, 6) is ErrorCode.out_of_order_sequence_number


def test_batches_of_an_open_and_of_an_ended_transaction_can_be_repeated(tmp_path: Path) -> None:
    log = open_log(tmp_path, OPTIONS)
    offsets = [write(log, PRODUCER), write(log, PRODUCER)]
    commit(log, PRODUCER)
    offsets += [write(log, PRODUCER), write(log, PRODUCER)]
    log = reopened(log)
    for sequence, offset in enumerate(offsets):
        producer = ProducerIdentity(PRODUCER, 0, sequence)
        appended = append(log, a_batch(producer=producer, is_transactional=True))
        assert (appended.base_offset, appended.is_duplicate) == (offset, True)
    assert log.producers.first_undecided_offset == offsets[2]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each walk over the batches of a segment was to read."""
    sizes = []
    walk = Segment.producer_batches_from

    def counted(segment: Segment, start: int, end: int | None = None) -> object:
        sizes.append((end or segment.file.size_bytes) - start)
        return walk(segment, start, end)

    monkeypatch.setattr(Segment, "producer_batches_from", counted)
    return sizes


def test_only_batches_from_before_the_snapshot_make_the_log_be_read(
    tmp_path: Path, reads: list[int]
) -> None:
    log = filled(tmp_path)
    assert code_of(log, 1) is ErrorCode.out_of_order_sequence_number
    log = reopened(log)
    assert code_of(log, 9) is ErrorCode.out_of_order_sequence_number  # one is missing before it
    assert send(log, 7)[1]
    assert not reads


def test_no_more_of_a_long_log_is_read_than_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    log = filled(tmp_path, 40)
    batch_bytes = log.size_bytes // 80
    few, most = 4 * batch_bytes, 8 * batch_bytes
    monkeypatch.setattr(earlier_batches, "READ_BYTES", (few, most))
    log.roll(NOW_MS)
    log = reopened(log)
    assert send(log, 38)[1]
    assert send(log, 38, OTHER)[1]
    assert sum(reads) == few
    reads.clear()
    assert send(log, 37)[1]
    assert sum(reads) == few + most
    assert code_of(log, 35) is ErrorCode.out_of_order_sequence_number
    reads.clear()
    assert code_of(log, 34, OTHER) is ErrorCode.out_of_order_sequence_number
    assert not reads


def test_damage_in_the_batches_before_the_snapshot_leaves_the_refusal(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log = reopened(log)
    with log.segments[0].file.path.open("r+b") as file:
        file.seek(8)
        file.write(bytes(4))
    assert code_of(log, 4) is ErrorCode.out_of_order_sequence_number
    assert send(log, 8) == (32, False)
