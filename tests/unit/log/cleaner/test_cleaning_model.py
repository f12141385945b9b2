"""Cleanings of random logs, checked against a dictionary after each."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.log.cleaner.log_work import CleanerLimits
from cluster.log.files import LogFiles
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import Offset
from cluster.records.batch import Compression
from cluster.records.builder import ProducerIdentity
from cluster.records.reader import Record, read_records
from tests.unit.log.cleaner.cleaned_log import (
    COMPACTED,
    RETENTION_MS,
    clean,
    content,
    end_transaction,
    files,
    headers,
    put,
    records,
)
from tests.unit.log.log_builder import NOW_MS, max_timestamp_offset, offset_for_timestamp, open_log

KEYS = [b"a", b"b", b"c", b"a-longer-key" * 8, None]
VALUES = st.one_of(st.none(), st.binary(max_size=200))


class Put(NamedTuple):
    """A batch of records by (index of key, value), of a producer or of none."""

    records: list[tuple[int, bytes | None]]
    codec: int
    producer: int


class InTransaction(NamedTuple):
    """A batch within the producer's transaction."""

    records: list[tuple[int, bytes | None]]
    producer: int


class End(NamedTuple):
    """The end of a producer's transaction, whether it has written or not."""

    producer: int
    commits: bool


RECORDS = st.lists(st.tuples(st.integers(0, len(KEYS) - 1), VALUES), min_size=1, max_size=6)
STEPS = st.one_of(
    st.builds(Put, RECORDS, st.integers(0, 4), st.integers(-1, 2)),
    st.builds(Put, RECORDS, st.integers(0, 4), st.integers(-1, 2)),
    st.builds(InTransaction, RECORDS, st.integers(10, 12)),
    st.builds(End, st.integers(10, 12), st.booleans()),
)


class History:
    """The log, and the view of an application that reads committed records."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.written: dict[int, Record] = {}
        """Every record of data."""
        self.committed: dict[int, Record] = {}
        self.aborted: set[int] = set()
        self.batches: dict[int, tuple[int, ...]] = {}
        self._open: dict[int, list[int]] = {}
        self._sequences: dict[int, int] = {}

    def take(self, step: Put | InTransaction | End) -> None:
        if isinstance(step, End):
            offsets = self._open.pop(step.producer, [])
            end_transaction(self.log, ProducerIdentity(step.producer, 0, 0), commits=step.commits)
            if step.commits:
                self.committed |= {offset: self.written[offset] for offset in offsets}
            else:
                self.aborted |= set(offsets)
        else:
            self._put(step)
        for header in headers(self.log):
            self.batches[header.base_offset] = _identity(header)

    def _put(self, step: Put | InTransaction) -> None:
        producer = ProducerIdentity()
        if step.producer >= 0:
            sequence = self._sequences.get(step.producer, 0)
            producer = ProducerIdentity(step.producer, 0, sequence)
            self._sequences[step.producer] = sequence + len(step.records)
        base = put(
            self.log,
            [(KEYS[key], value) for key, value in step.records],
            codec=Compression(step.codec) if isinstance(step, Put) else Compression.NONE,
            producer=producer,
            is_transactional=isinstance(step, InTransaction),
        )
        new = [record for record in records(self.log) if record.offset >= base]
        self.written |= {record.offset: record for record in new}
        if isinstance(step, InTransaction):
            self._open.setdefault(step.producer, []).extend(record.offset for record in new)
        else:
            self.committed |= {record.offset: record for record in new}

    def expected(self, end: int, *, has_tombstones: bool | None) -> dict[int, Record]:
        """What a cleaning up to an offset must leave; tombstones both ways when None."""
        newest: dict[bytes, Record] = {}
        for offset in sorted(self.committed):
            record = self.committed[offset]
            if offset < end and record.key is not None:
                newest[record.key] = record
        kept = {
            record.offset: record
            for record in newest.values()
            if record.value is not None or has_tombstones
        }
        return kept | {at: one for at, one in self.written.items() if at >= end}


def _identity(header) -> tuple[int, ...]:
    return (
        header.last_offset_delta,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.partition_leader_epoch,
        header.attributes & 0x38,
    )


def check(history: History, end: int, *, has_tombstones: bool) -> None:
    """Check every property of a log that is clean up to `end`."""
    log = history.log
    kept = {record.offset: record for record in records(log)}
    assert kept == history.expected(end, has_tombstones=has_tombstones)
    for header in headers(log):
        assert _identity(header) == history.batches[header.base_offset]
        if header.record_count and not header.is_control:
            batch = [one for one in kept.values() if header.base_offset <= one.offset]
            stamps = [one.timestamp_ms for one in batch if one.offset <= header.last_offset]
            assert header.max_timestamp == max(stamps)
    check_reads(log, kept)


def check_reads(log: PartitionLog, kept: dict[int, Record]) -> None:
    end = log.log_end_offset
    for offset in range(log.log_start_offset, end):
        following = min((at for at in kept if at >= offset), default=None)
        found = None
        at = Offset(offset)
        while found is None and at < end:
            part = log.read(at, 100, upper_offset=end, at_least_one_batch=True)
            found = next(
                (one.offset for one in read_records(part.view()) if one.offset >= offset), None
            )
            if not part.size_bytes:
                break
            at = part.next_offset
        assert found == following
    every = records(log, with_control=True)  # a search by timestamp finds markers as well
    newest = max_timestamp_offset(log, upper_offset=end)
    assert (newest.timestamp_ms if newest else None) == max(
        (one.timestamp_ms for one in every), default=None
    )
    for stamp in {one.timestamp_ms for one in every}:
        first = min(one.offset for one in every if one.timestamp_ms >= stamp)
        answer = offset_for_timestamp(log, stamp, upper_offset=end)
        assert answer is not None
        assert answer.offset == first


def check_producers(history: History, root: Path) -> None:
    """Check that a replica rebuilt from the bytes alone knows the same producers."""
    log = history.log
    rebuilt = open_log(root / "rebuilt", COMPACTED)
    for header in headers(log):
        at = next(s for s in reversed(log.segments) if s.base_offset <= header.base_offset)
        position = at.locate(header.base_offset)
        rebuilt.append_as_follower(at.file.view(position, header.size_bytes), NOW_MS)
    assert _producers(rebuilt) == _producers(log)
    assert rebuilt.log_end_offset == log.log_end_offset


def _producers(log: PartitionLog) -> dict[int, tuple[int, int]]:
    return {
        producer_id: (entry.epoch, entry.last_sequence)
        for producer_id, entry in log.producers.entries.items()
    }


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with patch.object(LogFiles, "sync", staticmethod(lambda _: None)):
        yield


@given(st.lists(STEPS, min_size=1, max_size=40), st.integers(0, 40))
def test_a_cleaned_log_holds_the_newest_of_every_key(steps, cut):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        history = History(open_log(root, COMPACTED))
        for step in steps:
            history.take(step)
        done = clean(history.log, high_watermark=min(cut, history.log.log_end_offset))
        if done is None:
            done = clean(history.log)
        if done is None:
            return
        check(history, done.next_dirty_offset, has_tombstones=True)
        check_producers(history, root)
        # Records kept for the horizon are removed later, and then nothing changes any more.
        for wall_ms, has_tombstones in (
            (NOW_MS, True),
            (NOW_MS + RETENTION_MS, False),
            (NOW_MS + 9 * RETENTION_MS, False),
        ):
            history.log.cleaned_to = Offset(0)
            again = clean(history.log, wall_ms=wall_ms)
            assert again is not None
            check(history, again.next_dirty_offset, has_tombstones=has_tombstones)
        check_producers(history, root / "later")
        before = content(history.log)
        for _ in range(2):
            history.log.cleaned_to = Offset(0)
            clean(history.log, wall_ms=NOW_MS + 9 * RETENTION_MS)
        assert content(history.log) == before
        # A crash loses nothing: every batch passes recovery.
        log_end, directory = history.log.log_end_offset, history.log.directory
        del history.log
        recovered = open_log(root, COMPACTED, clean=False)
        assert content(recovered) == before
        assert recovered.log_end_offset == log_end
        assert not [name for name in files(directory) if name.endswith((".cleaned", ".swap"))]


ONE_RECORD = st.lists(st.tuples(st.integers(0, len(KEYS) - 1), VALUES), min_size=1, max_size=1)


@given(st.lists(st.builds(Put, ONE_RECORD, st.just(0), st.just(-1)), min_size=5, max_size=40))
def test_cleaning_covers_only_the_keys_that_fit_into_the_map(steps):
    with tempfile.TemporaryDirectory() as folder:
        history = History(open_log(Path(folder), COMPACTED))
        for step in steps:
            history.take(step)
        limits = CleanerLimits(24 * 3, 0.9, 4096, float("inf"))
        rounds = 0
        while (done := clean(history.log, limits=limits)) is not None:
            kept = {record.offset: record for record in records(history.log)}
            wanted = history.expected(done.next_dirty_offset, has_tombstones=True)
            assert {at: one for at, one in kept.items() if at in wanted} == wanted
            rounds += 1
            assert rounds <= len(steps)
        newest = {one.key: one.value for _, one in sorted(history.committed.items())}
        newest.pop(None, None)
        after = {one.key: one.value for one in records(history.log)}
        after.pop(None, None)
        assert after == newest
