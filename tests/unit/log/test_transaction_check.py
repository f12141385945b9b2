"""The scrub and `verify` compare the index of aborted transactions with the batches."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.brokers.storage.log_scrubber import file_of, take_findings
from cluster.log.partition_log import PartitionLog
from cluster.log.segment_check import SegmentCheck
from cluster.log.transaction_index import (
    AbortedTransaction,
    encode_transactions,
    read_transactions,
)
from cluster.log.transaction_rebuild import index_path
from tests.unit.log.cleaner.cleaned_log import clean
from tests.unit.log.log_builder import NOW_MS, open_log
from tests.unit.log.transaction_log import abort, aborted, commit, indexed, read_committed, write


def a_log(home: Path) -> PartitionLog:
    """One transaction that begins before the second segment, and two in it."""
    log = open_log(home)
    write(log, 1)
    log.roll(NOW_MS)
    write(log, 2)
    write(log, 3)
    abort(log, 1)
    abort(log, 2)
    commit(log, 3)
    write(log, 4)
    log.roll(NOW_MS)
    abort(log, 4)
    return log


def checked(log: PartitionLog, slot: int = 1) -> SegmentCheck:
    return SegmentCheck(file_of(log, log.segments[slot])).run()


def test_index_that_fits_is_good(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    assert [checked(log, slot).index_defects for slot in range(3)] == [[], [], []]


Change = Callable[[list[AbortedTransaction]], list[AbortedTransaction]]


@pytest.mark.parametrize(
    ("change", "defect"),
    [
        (lambda found: found[:1], "it lacks the transaction that ends at offset 4"),
        (lambda _: [], "it lacks the transaction that ends at offset 4"),
        (
            lambda found: [*found, AbortedTransaction(3, 2, 5, 6)],
            "entry 2 names no abort marker",
        ),
        (
            lambda found: [*found, AbortedTransaction(9, 2, 90, 91)],
            "entry 2 lies behind the last batch",
        ),
        (
            lambda found: [found[0], found[1]._replace(producer_id=9)],
            "entry 1 names no abort marker",
        ),
        (
            lambda found: [found[0], found[1]._replace(first_offset=2)],
            "entry 1 begins after the first record of its transaction",
        ),
    ],
)
def test_index_that_does_not_fit_is_found_and_rebuilt(
    tmp_path: Path, change: Change, defect: str
) -> None:
    log = a_log(tmp_path)
    before, committed = indexed(log), read_committed(log)
    path = index_path(log.segments[1])
    path.write_bytes(encode_transactions(change(read_transactions(path))))
    check = checked(log)
    assert check.index_defects == [f"{path}: {defect}"]
    take_findings(log, log.segments[1], check)
    assert indexed(log) == before
    assert aborted(log) == [(1, 0), (2, 1), (4, 6)]
    assert read_committed(log) == committed
    assert checked(log).is_good


def test_index_of_a_compacted_segment_is_good(tmp_path: Path) -> None:
    log = a_log(tmp_path)
    log.roll(NOW_MS)
    for later_ms in (0, 500, 2_000):
        clean(log, wall_ms=NOW_MS + later_ms)
        log.cleaned_to = log.log_start_offset
        assert all(checked(log, slot).is_good for slot in range(len(log.segments)))
