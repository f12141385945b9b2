"""A log against a list: after every operation and crash, both hold the same records."""

import shutil
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.log.deleted_files import DeletedFiles
from cluster.log.options import LogOptions
from cluster.log.partition_log import PartitionLog
from cluster.log.retention import REASONS, LogState, Reason, count_deletable
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import LeaderEpoch, Offset
from cluster.records.batch import HEADER_BYTES, batches_of, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.reader import read_records
from tests.support.examples import examples
from tests.unit.log.log_builder import NOW_MS, PARTITION, append, read_all

OPTIONS = LogOptions(
    segment_bytes=1500,
    index_interval_bytes=150,
    preallocate_step_bytes=4096,
    segment_index_bytes=96,
    producer_snapshot_bytes=300,
)


class Batch(NamedTuple):
    """One batch of the model."""

    base_offset: int
    values: tuple[bytes, ...]
    epoch: int
    producer_id: int
    last_sequence: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogAgainstList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.home = self.root / "0"
        self.crashes = 0
        self.batches: list[Batch] = []
        """Also those before the log start."""
        self.end = self.start = self.epoch = self.counter = 0
        self.ends: deque[int] = deque(maxlen=6)
        """The log end after each of the last operations."""
        self.checkpointed_start = 0
        self.epochs_known_from = 0
        """The latest log start: what was deleted has no epoch, also when it comes back."""
        self.sequences: dict[int, int] = {}
        self.sequences_of_old: dict[int, int] = {}
        """Of producers of an emptied log, as the snapshot that is left has them."""
        self.renames: list[Callable[[], None]] = []
        self.unlinks: list[Callable[[], None]] = []

    @initialize()
    def create(self) -> None:
        self.log = self._open(clean=True)

    def _open(self, *, clean: bool, recovery_point: int = 0) -> PartitionLog:
        """Open the log, like a broker that starts."""
        self.renames.clear()
        self.unlinks.clear()
        return PartitionLog.open(
            self.home / str(PARTITION),
            PARTITION,
            OPTIONS,
            NOW_MS,
            clean_shutdown=clean,
            recovery_point=Offset(recovery_point),
            log_start_offset=Offset(self.checkpointed_start),
            deleted_files=DeletedFiles(
                self.renames.append,
                self.unlinks.append,
                lambda _delay_ms, call: self.unlinks.append(call),
            ),
        )

    def teardown(self) -> None:
        del self.log
        shutil.rmtree(self.root)

    # What a broker does

    def _values(self, count: int, size: int) -> tuple[bytes, ...]:
        self.counter += 1
        return tuple(b"%d.%d:" % (self.counter, at) + bytes(size) for at in range(count))

    def _note(self, values: tuple[bytes, ...], producer_id: int, last_sequence: int) -> None:
        self.batches.append(Batch(self.end, values, self.epoch, producer_id, last_sequence))
        self.end += len(values)

    @rule(count=st.integers(1, 5), size=st.integers(0, 250), producer_id=st.integers(-1, 2))
    def produce(self, count: int, size: int, producer_id: int) -> None:
        values = self._values(count, size)
        batch, last = self._build(values, producer_id, 0)
        appended = append(self.log, memoryview(batch), self.epoch)
        assert (appended.base_offset, appended.is_duplicate) == (self.end, False)
        self._note(values, producer_id, last)
        if producer_id >= 0:
            again = append(self.log, memoryview(batch), self.epoch)
            assert (again.base_offset, again.is_duplicate) == (appended.base_offset, True)

    def _build(
        self, values: tuple[bytes, ...], producer_id: int, base_offset: int
    ) -> tuple[bytearray, int]:
        producer, last = ProducerIdentity(), -1
        if producer_id >= 0:
            first = self.sequences.get(producer_id, -1) + 1
            producer, last = ProducerIdentity(producer_id, 0, first), first + len(values) - 1
            self.sequences[producer_id] = last
        records = [NewRecord(value, None, NOW_MS + self.counter) for value in values]
        return (
            build_batch(
                records, base_offset=base_offset, producer=producer, leader_epoch=self.epoch
            ),
            last,
        )

    @rule(
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=6), producer_id=st.integers(-1, 2)
    )
    def replicate(self, counts: list[int], producer_id: int) -> None:
        run = bytearray()
        for count in counts:
            values = self._values(count, 30)
            batch, last = self._build(values, producer_id, self.end)
            run += batch
            self._note(values, producer_id, last)
        self.log.append_as_follower(memoryview(run), NOW_MS)

    @rule()
    def elect(self) -> None:
        self.epoch += 1
        self.log.epochs.announce(LeaderEpoch(self.epoch), Offset(self.end))

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(Offset(offset))
        if offset < self.end:
            kept = [batch for batch in self.batches if batch.end_offset <= offset]
            cut = next((b.base_offset for b in self.batches if b.end_offset > offset), offset)
            self.batches, self.end = kept, min(cut, offset)
            self._begin_no_later_than(self.end)
            self._forget_sequences()

    def _begin_no_later_than(self, offset: int) -> None:
        self.start = min(self.start, offset)
        self.epochs_known_from = min(self.epochs_known_from, offset)

    def _forget_sequences(self) -> None:
        last = {b.producer_id: b.last_sequence for b in self.batches}
        self.sequences = self.sequences_of_old | last
        self.sequences.pop(-1, None)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.durability.recovery_point == self.end

    # What ends

    def _begin_at(self, offset: int) -> None:
        self.start = max(self.start, offset)
        self.epochs_known_from = max(self.epochs_known_from, self.start)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start_offset(Offset(offset))
        self._begin_at(offset)

    @rule(
        retention_bytes=st.integers(-1, 6_000),
        age=st.integers(-1, 60),
        committed=st.floats(0, 1),
        most=st.sampled_from([1, 3, 1_000]),
    )
    def retain(self, retention_bytes: int, age: int, committed: float, most: int) -> None:
        """Apply retention; the age of a record is the number of values after its own."""
        log = self.log
        high_watermark = self.start + int(committed * (self.end - self.start))
        for reason in REASONS:
            state = LogState(
                log.segments,
                log.size_bytes,
                log.log_start_offset,
                log.log_end_offset,
                Offset(high_watermark),
                replace(OPTIONS, retention_bytes=retention_bytes, retention_ms=age),
            )
            wall_ms = WallMs(NOW_MS + self.counter)
            count = count_deletable(state, reason, wall_ms, lambda _: NOW_MS, most)
            if count == len(log.segments):
                log.roll(NOW_MS)
            if count:
                log.drop_segments(count)
                self._begin_at(log.segments[0].base_offset)
                assert self.start <= high_watermark or reason is Reason.LOG_START

    @rule()
    def rename_deleted_files(self) -> None:
        _run(self.renames)

    @rule()
    def unlink_deleted_files(self) -> None:
        _run(self.unlinks)

    @rule()
    def write_checkpoint(self) -> None:
        self.checkpointed_start = self.log.log_start_offset

    # Stops and starts

    @rule()
    def restart(self) -> None:
        self.log.close(flush=False)
        self.checkpointed_start = self.start
        del self.log
        self.log = self._open(clean=True, recovery_point=self.end)

    def _crash(self) -> Path:
        """Continue on a copy, as after kill -9; returns the last segment's file."""
        self.crashes += 1
        home = self.root / str(self.crashes)
        shutil.copytree(self.home, home)
        self.home = home
        self.recovery_point = self.log.durability.recovery_point
        self.real_size = self.log.segments[-1].file.size_bytes
        name = self.log.segments[-1].file.path.name
        return home / str(PARTITION) / name

    def _recover(self) -> None:
        """The log begins at the checkpointed start, or at its first remaining segment: a segment
        whose files were not renamed yet reappears."""
        names = (self.home / str(PARTITION)).glob("*.log")
        self.start = max(self.checkpointed_start, min(int(path.stem) for path in names))
        is_emptied = self.end < self.start
        if is_emptied:
            self.batches, self.end, self.epochs_known_from = [], self.start, self.start
        self.log = self._open(clean=False, recovery_point=self.recovery_point)
        if is_emptied:
            producers = self.log.producers.entries.items()
            self.sequences_of_old = {number: entry.last_sequence for number, entry in producers}
            self._forget_sequences()

    @rule()
    def kill(self) -> None:
        self._crash()
        self._recover()

    @rule(garbage=st.binary(min_size=1, max_size=200), zeros=st.integers(0, 200))
    def crash_with_nonsense_past_the_end(self, garbage: bytes, zeros: int) -> None:
        path = self._crash()
        content = path.read_bytes()[: self.real_size]
        path.write_bytes(content + bytes(zeros) + garbage)
        self._recover()

    @rule(data=st.data())
    def crash_that_loses_a_tail(self, data: st.DataObject) -> None:
        path = self._crash()
        size = data.draw(st.integers(0, self.real_size))
        before = path.read_bytes()[: self.real_size]
        after = before[:size] + bytes(data.draw(st.sampled_from([0, 10, 5000])))
        path.write_bytes(after)
        # Lost bytes that were zero and come back as zeros are not lost.
        same = (at for at, byte in enumerate(before) if after[at : at + 1] != bytes([byte]))
        self._lose_from(path, next(same, self.real_size))
        self._recover()

    @rule(data=st.data())
    def crash_that_damages_a_batch(self, data: st.DataObject) -> None:
        path = self._crash()
        if self.real_size:
            content = bytearray(path.read_bytes())
            position = data.draw(st.integers(0, self.real_size - 1))
            field = position - self._start_of_batch(content, position)
            if 12 <= field < 16 or field < 8:
                return self._recover()  # offset and epoch are outside the checksum
            content[position] ^= data.draw(st.integers(1, 255))
            path.write_bytes(content)
            self._lose_from(path, position)
        return self._recover()

    def _start_of_batch(self, content: bytearray, position: int) -> int:
        start = 0
        while start + read_header(content, start).size_bytes <= position:
            start += read_header(content, start).size_bytes
        return start

    def _lose_from(self, path: Path, position: int) -> None:
        """The model loses the batches of the last segment that reach beyond a position."""
        file = self.log.segments[-1].file
        end = int(path.stem)
        size = 0
        for header, batch in batches_of(file.view(0, file.size_bytes)):
            size += len(batch)
            if size > position:
                break
            end = header.last_offset + 1
        self.batches = [batch for batch in self.batches if batch.end_offset <= end]
        self.end = end
        self._forget_sequences()

    # What must hold

    @invariant()
    def same_records(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        expected = [
            (batch.base_offset + at, value)
            for batch in self.batches
            for at, value in enumerate(batch.values)
            if batch.base_offset + at >= self.start
        ]
        assert [(record.offset, record.value) for record in read_all(log, 400)] == expected
        for batch in [batch for batch in self.batches[-3:] if batch.base_offset >= self.start]:
            part = log.read(
                Offset(batch.base_offset), 0, upper_offset=Offset(self.end), at_least_one_batch=True
            )
            assert [record.value for record in read_records(part.view())] == list(batch.values)

    @invariant()
    def same_epochs_and_producers(self) -> None:
        if not hasattr(self, "log"):
            return
        epochs = self.log.epochs
        for batch in self.batches:
            for offset in {batch.base_offset, batch.end_offset - 1}:
                if offset >= self.epochs_known_from:
                    assert epochs.epoch_at(Offset(offset)) == batch.epoch
        written = {batch.epoch for batch in self.batches}
        assert {e for e, start in epochs.entries if start < self.end} <= written
        states = {i: e.last_sequence for i, e in self.log.producers.entries.items()}
        assert states == self.sequences

    @invariant()
    def every_range_is_located_where_it_is_read(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        self.ends.append(self.end)
        last = range(max(self.start, self.end - 6), self.end + 2)
        # A follower that had everything asks from there on, whatever has happened since.
        for offset in map(Offset, {self.start, *last, *self.ends}):
            for max_bytes in (1, 400, 1 << 20):
                if not self.start <= offset <= self.end:
                    with pytest.raises(Refused) as raised:
                        log.locate(offset, max_bytes)
                    assert raised.value.code is ErrorCode.offset_out_of_range
                    continue
                read = log.read(
                    offset, max_bytes, upper_offset=Offset(self.end), at_least_one_batch=True
                )
                found = log.locate(offset, max_bytes)
                if read.size_bytes == 0:
                    assert found is None
                else:
                    assert found is not None
                    identity, position, size_bytes = found
                    assert (position, size_bytes) == (read.position, read.size_bytes)
                    assert identity is read.identity()
                    assert identity == (str(read.path), read.path.stat().st_ino)

    @invariant()
    def files_hold_nothing_else(self) -> None:
        if hasattr(self, "log"):
            total = sum(segment.file.size_bytes for segment in self.log.segments)
            assert total == self.log.size_bytes
            active = self.log.segments[-1].file
            if active.path.stat().st_size > active.size_bytes + HEADER_BYTES:
                tail = active.path.read_bytes()[active.size_bytes :]
                assert not any(tail)


def _run(calls: list[Callable[[], None]]) -> None:
    taken, calls[:] = list(calls), []
    for call in taken:
        call()


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = examples(40, stateful_step_count=30)
