"""How much a log has between two offsets, and when its batches were written."""

from dataclasses import replace
from pathlib import Path

import pytest

from cluster.log.log_extents import UNKNOWN, bytes_between, timestamp_at
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import Offset
from cluster.records.batch import batches_of
from tests.unit.log.log_builder import NOW_MS, SMALL, a_batch, append, open_log

BATCHES = 40
PER_BATCH = 3


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Several segments of batches of three records, each with the next timestamp."""
    made = open_log(tmp_path, replace(SMALL, segment_bytes=1_000))
    for step in range(BATCHES):
        append(made, a_batch(PER_BATCH, value=b"v" * step, timestamp_ms=NOW_MS + 10 * step))
    assert len(made.segments) > 3
    return made


def sizes(log: PartitionLog) -> list[int]:
    """The size of each batch."""
    found = []
    for segment in log.segments:
        whole = segment.file.view(0, segment.file.size_bytes)
        found += [len(records) for _, records in batches_of(whole)]
    return found


def test_bytes_between_counts_the_batches_from_the_first_offset_to_the_end(
    log: PartitionLog,
) -> None:
    batches = sizes(log)
    assert len(batches) == BATCHES
    for first in (0, 1, 7, BATCHES - 1):
        for end in (first, first + 1, BATCHES // 2, BATCHES):
            offsets = Offset(first * PER_BATCH), Offset(end * PER_BATCH)
            assert bytes_between(log, *offsets) == sum(batches[first:end])
    middle = Offset(7 * PER_BATCH + 1)  # the batch that holds it counts as a whole
    assert bytes_between(log, middle, log.log_end_offset) == sum(batches[7:])


def test_timestamp_at_is_the_largest_of_the_batch(log: PartitionLog) -> None:
    for batch in (0, 5, BATCHES - 1):
        for record in range(PER_BATCH):
            offset = Offset(batch * PER_BATCH + record)
            assert timestamp_at(log, offset) == NOW_MS + 10 * batch + PER_BATCH - 1
    assert timestamp_at(log, log.log_end_offset) == UNKNOWN


def test_damage_makes_extents_unknown(log: PartitionLog) -> None:
    segment = log.segments[1]
    with segment.file.path.open("r+b") as file:
        file.write(b"\xff" * segment.file.size_bytes)
    inside = Offset(segment.base_offset + 2 * PER_BATCH)
    assert bytes_between(log, Offset(0), inside) == UNKNOWN
    assert timestamp_at(log, inside) == UNKNOWN
