"""A log with transactions against a list, through random histories of a leader and a follower.

Whatever happens, a consumer with read_committed gets the records of committed transactions below
the last stable offset and no others, and that offset is the one that the list gives.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.brokers.storage.log_scrubber import file_of
from cluster.log import log_copy
from cluster.log.deleted_files import DeletedFiles
from cluster.log.inner_snapshots import KEPT
from cluster.log.partition_log import PartitionLog
from cluster.log.producer_snapshots import snapshot_offsets, snapshot_path
from cluster.log.segment_check import SegmentCheck
from cluster.log.segment_paths import TRANSACTION_INDEX_SUFFIX
from cluster.model.ids import Offset
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.markers import EndMarker
from tests.support.examples import examples
from tests.unit.log.cleaner.cleaned_log import COMPACTED, clean
from tests.unit.log.log_builder import EPOCH_0, NOW_MS, PARTITION, append
from tests.unit.log.transaction_log import read_committed, stable

OPTIONS = replace(COMPACTED, segment_bytes=700, producer_snapshot_bytes=150)
PRODUCERS = [1, 2, 3]
NOBODY = -1


class Step(NamedTuple):
    """One batch of the model, with one offset."""

    producer: int
    value: bytes
    is_end: bool = False
    is_commit: bool = False


@dataclass(slots=True)
class Model:
    """What was written to a log; the position in the list is the offset."""

    steps: list[Step] = field(default_factory=list)
    start: int = 0
    high_watermark: int = 0
    known_from: int = 0
    """A follower that began here has not seen the batches before."""

    def transactions(self) -> Iterator[tuple[int, int, bool]]:
        """First offset, that of the marker (of none: beyond the end), and whether it commits."""
        begun: dict[int, int] = {}
        for offset, step in enumerate(self.steps):
            if step.is_end:
                if step.producer in begun:
                    yield begun.pop(step.producer), offset, step.is_commit
            elif step.producer != NOBODY:
                begun.setdefault(step.producer, offset)
        for first in begun.values():
            yield first, len(self.steps), False

    def stable_offset(self) -> int:
        undecided = [
            first
            for first, last, _ in self.transactions()
            if last >= min(self.high_watermark, len(self.steps))
        ]
        return min([self.high_watermark, *(max(first, self.start) for first in undecided)])

    def committed(self, end: int) -> dict[int, bytes]:
        outcomes = {}
        begun: dict[int, list[int]] = {}
        for offset, step in enumerate(self.steps):
            if step.producer == NOBODY:
                outcomes[offset] = step.value
            elif not step.is_end:
                begun.setdefault(step.producer, []).append(offset)
            elif step.is_commit:
                outcomes |= {at: self.steps[at].value for at in begun.pop(step.producer, [])}
            else:
                begun.pop(step.producer, None)
        return {at: value for at, value in outcomes.items() if self.start <= at < end}


class TransactionsOfALog(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.homes = 0
        self.counter = 0

    @initialize()
    def create(self) -> None:
        self.model, self.mirror = Model(), Model()
        self.home, self.other_home = self._new_home(), self._new_home()
        self.log = self._open(self.home, self.model, clean_stop=True)
        self.follower = self._open(self.other_home, self.mirror, clean_stop=True)

    def teardown(self) -> None:
        self.log = self.follower = None
        shutil.rmtree(self.root)

    def _new_home(self) -> Path:
        self.homes += 1
        return self.root / str(self.homes)

    def _open(self, home: Path, model: Model, *, clean_stop: bool) -> PartitionLog:
        return PartitionLog.open(
            home / str(PARTITION),
            PARTITION,
            OPTIONS,
            NOW_MS,
            clean_shutdown=clean_stop,
            recovery_point=Offset(0),
            log_start_offset=Offset(model.start),
            high_watermark=Offset(model.high_watermark),
        )

    # Writing

    @rule(producer=st.sampled_from([*PRODUCERS, NOBODY]), size=st.integers(0, 60))
    def write(self, producer: int, size: int) -> None:
        self.counter += 1
        value = b"%d:" % self.counter + bytes(size)
        identity = ProducerIdentity()
        if producer != NOBODY:
            sequence = self.log.producers.next_sequence(producer, 0)
            identity = ProducerIdentity(producer, 0, sequence)
        record = NewRecord(value, b"key %d" % self.counter, NOW_MS)
        is_transactional = producer != NOBODY
        batch = build_batch([record], producer=identity, is_transactional=is_transactional)
        appended = append(self.log, memoryview(batch))
        assert appended.base_offset == len(self.model.steps)
        self.model.steps.append(Step(producer, value))

    @rule(producer=st.sampled_from(PRODUCERS), commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        marker = EndMarker(producer, 0, 0, commits)
        appended = self.log.append_marker(marker, EPOCH_0, NOW_MS)
        assert appended.base_offset == len(self.model.steps)
        self.model.steps.append(Step(producer, b"", is_end=True, is_commit=commits))

    @rule()
    def roll(self) -> None:
        if self.log.segments[-1].file.size_bytes:
            self.log.roll(NOW_MS)

    # Replication

    @rule(max_bytes=st.integers(1, 1500))
    def replicate(self, max_bytes: int) -> None:
        """The follower fetches once, and learns the high watermark of the fetch before."""
        learned = min(self.model.high_watermark, len(self.mirror.steps))
        self.mirror.high_watermark = max(self.mirror.high_watermark, learned)
        offset = max(self.follower.log_end_offset, self.log.log_start_offset)
        part = self.log.read(
            offset, max_bytes, upper_offset=self.log.log_end_offset, at_least_one_batch=True
        )
        if offset > self.follower.log_end_offset:
            self.follower.truncate_fully_and_start_at(offset)
            self.mirror = Model(self.model.steps[:offset], offset, offset, offset)
        if part.size_bytes:
            self.follower.append_as_follower(part.view(), NOW_MS)
            self.mirror.steps = self.model.steps[: self.follower.log_end_offset]
        self.model.high_watermark = max(self.model.high_watermark, len(self.mirror.steps))

    @rule()
    def fail_over(self) -> None:
        """The follower leads, and the old leader cuts what it did not have."""
        end = self.follower.log_end_offset
        if end < self.log.log_start_offset or self.follower.log_start_offset > len(
            self.model.steps
        ):
            return
        self.log.truncate_to(end)
        del self.model.steps[end:]
        self.model.high_watermark = min(self.model.high_watermark, end)
        self.model.start = min(self.model.start, end)
        self.log, self.follower = self.follower, self.log
        self.model, self.mirror = self.mirror, self.model
        self.home, self.other_home = self.other_home, self.home

    # Deletion and compaction

    @rule()
    def delete_oldest_segment(self) -> None:
        segments = self.log.segments
        if len(segments) > 1 and segments[1].base_offset <= self.model.high_watermark:
            self.log.drop_segments(1)
            self.model.start = max(self.model.start, self.log.segments[0].base_offset)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        if self.model.start <= self.model.high_watermark:
            offset = data.draw(st.integers(self.model.start, self.model.high_watermark))
            self.log.advance_log_start_offset(Offset(offset))
            self.model.start = offset

    @rule(later_ms=st.sampled_from([0, 10_000]))
    def compact(self, later_ms: int) -> None:
        """Each record has its own key, so only those of aborted transactions go, and markers."""
        clean(self.log, wall_ms=NOW_MS + later_ms, high_watermark=self.model.high_watermark)

    # Files

    @rule(producer=st.sampled_from(PRODUCERS))
    def move(self, producer: int) -> None:
        """A transaction ends after most of the log was copied."""
        source, home = self.log.directory, self._new_home()
        target = home / f"{PARTITION}.moving"
        home.mkdir()
        self.log.make_files()
        log_copy.make_directory(target, source)
        copy = log_copy.LogCopy(self.log, target)
        while (piece := copy.next_piece(1 << 20)) is not None:
            assert log_copy.copy_piece(piece)
            copy.on_copied(piece)
        copy.settled_at = self.log.segments[-1].base_offset
        log_copy.settle(source, target, copy.settled_at)
        self.end_transaction(producer, commits=False)
        if copy.has_changed:
            return  # it begins anew
        self.log = log_copy.relocate(copy, home / str(PARTITION), NOW_MS, DeletedFiles())
        self.home = home

    @rule(damage=st.sampled_from(["none", "part of an entry", "zeros", "another's", "entries"]))
    def restart(self, damage: str) -> None:
        self.log.close(flush=False)
        self._damage(self.log.directory, damage)
        self.log = self._open(self.home, self.model, clean_stop=True)

    @rule(damage=st.sampled_from(["none", "gone", "empty", "part of an entry", "entries"]))
    def kill(self, damage: str) -> None:
        """Nothing is known to be synced."""
        home = self._new_home()
        shutil.copytree(self.home, home)
        self.home = home
        self._damage(home / str(PARTITION), damage)
        self.log = self._open(home, self.model, clean_stop=False)

    def _damage(self, directory: Path, damage: str) -> None:
        """Damage every index of aborted transactions."""
        paths = sorted(directory.glob(f"*{TRANSACTION_INDEX_SUFFIX}"))
        contents = [path.read_bytes() for path in paths]
        for number, path in enumerate(paths):
            content = contents[number]
            if damage == "gone":
                path.unlink()
            elif damage == "empty":
                path.write_bytes(b"")
            elif damage == "part of an entry":
                path.write_bytes(content + b"\0\0\0")
            elif damage == "zeros":
                path.write_bytes(content + bytes(34))
            elif damage == "another's" and contents[number - 1]:
                path.write_bytes(contents[number - 1])
            elif damage == "entries":
                path.write_bytes(content + content)

    @rule(damage=st.sampled_from(["gone", "empty", "cut"]), count=st.integers(1, KEPT))
    def damage_snapshots(self, damage: str, count: int) -> None:
        """Lose the newest snapshots inside segments. The log goes on and may be cut."""
        for log in (self.log, self.follower):
            bases = {segment.base_offset for segment in log.segments}
            inner = sorted(set(snapshot_offsets(log.directory)).difference(bases))
            for offset in inner[-count:]:
                path = snapshot_path(log.directory, offset)
                if damage == "gone":
                    path.unlink()
                else:
                    path.write_bytes(b"" if damage == "empty" else path.read_bytes()[:-1])

    # What holds

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def consumers_get_what_is_committed(self) -> None:
        for log, model in ((self.log, self.model), (self.follower, self.mirror)):
            assert log.log_end_offset == len(model.steps)
            at = stable(log, model.high_watermark)
            assert at == model.stable_offset()
            for max_bytes in (1, 1 << 20):
                assert read_committed(log, model.high_watermark, max_bytes) == model.committed(at)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def sequences_are_known(self) -> None:
        for log, model in ((self.log, self.model), (self.follower, self.mirror)):
            for producer in PRODUCERS:
                batches = [
                    offset
                    for offset, step in enumerate(model.steps)
                    if step.producer == producer and not step.is_end
                ]
                is_known = bool(batches) and batches[-1] >= model.known_from
                expected = len(batches) if is_known else 0
                assert log.producers.next_sequence(producer, 0) == expected

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def superfluous_snapshots_are_deleted(self) -> None:
        for log in (self.log, self.follower):
            bases = {segment.base_offset for segment in log.segments}
            inner = set(snapshot_offsets(log.directory)).difference(bases)
            assert len(inner) <= KEPT + 1  # one more after a clean stop
            assert min(inner, default=min(bases)) >= min(bases)

    @precondition(lambda self: hasattr(self, "log"))
    @invariant()
    def a_check_finds_no_defect(self) -> None:
        for segment in self.log.segments[:-1]:
            if segment.file.size_bytes:
                check = SegmentCheck(file_of(self.log, segment)).run()
                assert check.is_good, (check.holes, check.index_defects)


TestTransactionsOfALog = TransactionsOfALog.TestCase
TestTransactionsOfALog.settings = examples(100, stateful_step_count=40)
