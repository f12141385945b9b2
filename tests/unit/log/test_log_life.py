"""A log of keyed records against a dictionary, through random sequences of operations: appends,
retention, deleted records, compaction, moves, restarts and crashes."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.log import log_copy
from cluster.log.deleted_files import DeletedFiles
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import Offset
from cluster.records.builder import NewRecord, build_batch
from tests.support.examples import examples
from tests.unit.log.cleaner.cleaned_log import COMPACTED, clean
from tests.unit.log.log_builder import NOW_MS, PARTITION, append, read_all

KEYS = [b"a", b"b", b"c", b"d"]
PIECE_BYTES = 700


class LogAgainstDictionary(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.home = self.root / "0"
        self.homes = 0
        self.written: dict[int, tuple[bytes, bytes]] = {}
        """Key and value by offset, without what compaction has removed."""
        self.start = self.end = self.checkpointed_start = self.checkpointed_cleaning = 0

    @initialize()
    def create(self) -> None:
        self._open(clean_stop=True)

    def teardown(self) -> None:
        del self.log
        shutil.rmtree(self.root)

    def _open(self, *, clean_stop: bool) -> None:
        self.log = PartitionLog.open(
            self.home / str(PARTITION),
            PARTITION,
            COMPACTED,
            NOW_MS,
            clean_shutdown=clean_stop,
            recovery_point=Offset(0),
            log_start_offset=Offset(self.checkpointed_start),
        )
        self.log.cleaned_to = Offset(self.checkpointed_cleaning)
        self.start = self.log.log_start_offset

    def _new_home(self) -> Path:
        self.homes += 1
        return self.root / str(self.homes)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=5), size=st.integers(0, 120))
    def produce(self, keys: list[bytes], size: int) -> None:
        values = [b"%d:" % (self.end + at) + bytes(size) for at in range(len(keys))]
        pairs = list(zip(keys, values, strict=True))
        batch = build_batch([NewRecord(value, key, NOW_MS) for key, value in pairs])
        appended = append(self.log, memoryview(batch))
        assert appended.base_offset == self.end
        for pair in pairs:
            self.written[self.end] = pair
            self.end += 1

    @rule()
    def roll(self) -> None:
        if self.log.segments[-1].file.size_bytes:
            self.log.roll(NOW_MS)

    @rule(count=st.integers(1, 2))
    def delete_oldest_segments(self, count: int) -> None:
        count = min(count, len(self.log.segments) - 1)
        if count:
            self.log.drop_segments(count)
            self._start_at(self.log.segments[0].base_offset)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.advance_log_start_offset(Offset(offset))
        self._start_at(offset)

    def _start_at(self, offset: int) -> None:
        self.start = max(self.start, offset)

    @rule()
    def compact(self) -> None:
        done = clean(self.log)
        if done is None:
            return
        newest: dict[bytes, int] = {}
        for offset, (key, _) in self.written.items():
            if self.start <= offset < done.next_dirty_offset:
                newest[key] = max(offset, newest.get(key, -1))
        self.written = {
            offset: pair
            for offset, pair in self.written.items()
            if offset >= newest.get(pair[0], -1)
        }

    @rule(is_interrupted=st.booleans())
    def move(self, is_interrupted: bool) -> None:
        """Move the log to another directory, or give up after the first piece."""
        source, home = self.log.directory, self._new_home()
        target = home / f"{PARTITION}.moving"
        home.mkdir()
        self.log.make_files()
        log_copy.make_directory(target, source)
        copy = log_copy.LogCopy(self.log, target)
        while (piece := copy.next_piece(PIECE_BYTES)) is not None:
            assert log_copy.copy_piece(piece)
            copy.on_copied(piece)
            if is_interrupted:
                return
        log_copy.settle(source, target, self.log.segments[-1].base_offset)
        copy.settled_at = self.log.segments[-1].base_offset
        assert copy.is_nearly_there(1 << 20)
        cleaned_to = self.log.cleaned_to
        self.log = log_copy.relocate(copy, home / str(PARTITION), NOW_MS, DeletedFiles())
        log_copy.sync_moved(self.log)
        assert self.log.cleaned_to == cleaned_to
        self.home = home

    @rule()
    def write_checkpoints(self) -> None:
        self.checkpointed_start = self.log.log_start_offset
        self.checkpointed_cleaning = self.log.cleaned_to

    @rule()
    def restart(self) -> None:
        self.log.close(flush=False)
        self.write_checkpoints()
        del self.log
        self._open(clean_stop=True)

    @rule()
    def kill(self) -> None:
        """Deleted records return if no checkpoint records their deletion and their files remain."""
        home = self._new_home()
        shutil.copytree(self.home, home)
        self.home = home
        self._open(clean_stop=False)
        if self.log.log_end_offset == self.start:
            self.end = self.log.log_end_offset

    @invariant()
    def the_same_records(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        read = {one.offset: (one.key, one.value) for one in read_all(log, 300)}
        expected = {at: pair for at, pair in self.written.items() if at >= self.start}
        assert read == expected


TestLogAgainstDictionary = LogAgainstDictionary.TestCase
TestLogAgainstDictionary.settings = examples(25, stateful_step_count=25)
