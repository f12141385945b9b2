"""The scrub: periodically reads every byte of every log and compares it with its checksum.

A background thread reads, at a bounded rate and with a bounded share of a CPU. The broker's thread
chooses what is read and takes the findings. Damaged batches are refused from then on
(`log/damage.py`), and `replica_repairs` repairs them; damaged indexes are rebuilt from the batches.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.config import broker as keys
from cluster.config.live_settings import LiveSettings
from cluster.log.damage import Damage
from cluster.log.log_reads import segment_slot
from cluster.log.partition_log import PartitionLog
from cluster.log.segment import Segment, rebuild_indexes
from cluster.log.segment_check import FileToCheck, SegmentCheck
from cluster.log.unchecked import UncheckedBytes
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition
from cluster.runtime.background_thread import Post
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

SHARE_OF_PROCESSOR: Final = 0.05
TICK_MS: Final = 1_000
FIRST_SCRUB_MS: Final = 60_000
"""The first scrub begins this long after the start, unless the interval is shorter."""
AGE_MS: Final = 600_000
"""The bytes of a closed segment count as checked for at least this long."""
_PARTITIONS_PER_STEP: Final = 200
_CALL_BYTES: Final = 1 << 20
"""So much is read before the broker's thread gets a report."""
_SEGMENT_COSTS_BYTES: Final = 16 << 10
"""Opening a file counts as at least this much, so that thousands of small logs are paced too."""


@dataclass(slots=True)
class ScrubCounts:
    """The scrub's counts for metrics."""

    checked_bytes: int = 0
    damaged: int = 0
    """Damaged places that the scrub or a read has found."""
    repaired: int = 0
    """Damaged places for which another replica had the batches."""


class _Job:
    """One segment that is being checked."""

    def __init__(self, partition: Partition, segment: Segment, check: SegmentCheck) -> None:
        self.partition = partition
        self.log = partition.log
        self.cuts = partition.log.durability.cuts
        self.segment = segment
        self.check = check
        self.steps = check.steps()

    @property
    def is_current(self) -> bool:
        """Whether the segment is still the one that the check began with."""
        own = self.partition.log
        return own is self.log and own.durability.cuts == self.cuts and _has(own, self.segment)


class LogScrubber:
    """Owned by the broker's thread. Invariant: at most one segment is being checked."""

    def __init__(
        self,
        live: LiveSettings,
        table: PartitionTable,
        slices: Slices,
        post: Post,
        post_back: Post,
        call_after: Callable[[int, Callable[[], None]], object],
        monotonic_ms: Callable[[], MonotonicMs],
    ) -> None:
        """`post` runs a call on a background thread, `post_back` on the broker's."""
        self._live = live
        self._table = table
        self._slices = slices
        self._post = post
        self._post_back = post_back
        self._call_after = call_after
        self._monotonic_ms = monotonic_ms
        self.counts = ScrubCounts()
        self._age_at_ms: int | None = None
        self._next_ms: int | None = None
        self._began_ms = 0
        self._partitions: deque[TopicPartition] = deque()
        """Partitions still to be checked, by name: a deleted one must not keep its files open."""
        self._segments: deque[Segment] | None = None
        """The segments of the first partition that are still to be checked."""
        self._is_running = False
        self._is_closed = False
        self._round = ScrubCounts()

    def on_tick(self) -> None:
        """Begin a scrub when it is due."""
        interval_ms = self._live[keys.LOG_SCRUB_INTERVAL_MS]
        now_ms = self._monotonic_ms()
        if self._age_at_ms is None or now_ms >= self._age_at_ms:
            self._age_at_ms = now_ms + AGE_MS
            self._slices.start(self._age())
        if self._is_running or self._is_closed or not interval_ms:
            return
        if self._next_ms is None:
            self._next_ms = now_ms + min(FIRST_SCRUB_MS, interval_ms)
            self._began_ms = self._next_ms - interval_ms
        if now_ms >= min(self._next_ms, self._began_ms + interval_ms):
            self._begin(now_ms)

    def close(self) -> None:
        """Begin no further check."""
        self._is_closed = True

    def _age(self) -> Iterator[None]:
        for count, partition in enumerate(self._table, 1):
            partition.log.files.age()
            if count % _PARTITIONS_PER_STEP == 0:
                yield

    def _begin(self, now_ms: MonotonicMs) -> None:
        self._is_running = True
        self._began_ms = now_ms
        self._next_ms = now_ms + self._live[keys.LOG_SCRUB_INTERVAL_MS]
        self._partitions = deque(partition.id for partition in self._table)
        self._round = ScrubCounts(damaged=self.counts.damaged)
        self._go_on()

    def _go_on(self) -> None:
        if self._is_closed:
            return
        for _ in range(_PARTITIONS_PER_STEP):
            if not self._partitions:
                self._finish()
                return
            job = self._next_job(self._partitions[0])
            if job is not None:
                self._read(job)
                return
            self._partitions.popleft()
            self._segments = None
        self._call_after(1, self._go_on)

    def _next_job(self, partition_id: TopicPartition) -> _Job | None:
        """The next segment of a partition; None if all were checked, or the partition is gone."""
        partition = self._table.find(partition_id)
        if partition is None:
            return None
        own = partition.log
        if self._segments is None:
            self._segments = deque(own.segments)
        while self._segments:
            segment = self._segments.popleft()
            if segment.file.size_bytes and _has(own, segment):
                return _Job(partition, segment, SegmentCheck(file_of(own, segment)))
        return None

    def _read(self, job: _Job) -> None:
        """Let the thread read the next piece."""

        def run() -> None:
            read, is_done = 0, False
            problem: OSError | None = None
            try:
                while read < _CALL_BYTES and not is_done:
                    piece = next(job.steps, None)
                    is_done = piece is None
                    read += piece or 0
            except OSError as error:
                # Its traceback would keep this frame, and so the log, alive.
                problem, is_done = error.with_traceback(None), True
            self._post_back(lambda: self._on_read(job, read, problem, is_done=is_done))

        self._post(run)

    def _on_read(
        self, job: _Job, read_bytes: int, problem: OSError | None, *, is_done: bool
    ) -> None:
        self.counts.checked_bytes += read_bytes
        self._round.checked_bytes += read_bytes
        if is_done and job.is_current:
            if problem is None:
                take_findings(job.log, job.segment, job.check)
            else:
                self._on_unreadable(job, problem)
        if not job.is_current:
            is_done = True
        costs = max(read_bytes, _SEGMENT_COSTS_BYTES) if is_done else read_bytes
        pause_ms = costs * 1_000 // self._live[keys.LOG_SCRUB_MAX_BYTES_PER_SECOND]
        self._call_after(pause_ms, self._go_on if is_done else lambda: self._read(job))

    def _on_unreadable(self, job: _Job, problem: OSError) -> None:
        path = job.segment.file.path
        log.error("%s cannot be checked: %s", path, problem.strerror)
        failure = StorageFailed(f"cannot read {path}: {problem.strerror}")
        failure.__cause__ = problem
        self._table.note_failure(job.partition.id, failure)

    def _finish(self) -> None:
        self._is_running = False
        damaged = sum(len(partition.log.damage) for partition in self._table)
        log.log(
            logging.ERROR if damaged else logging.INFO,
            "checked all logs: %d bytes in %.1f s, %d damaged places",
            self._round.checked_bytes,
            (self._monotonic_ms() - self._began_ms) / 1_000,
            damaged,
        )


def _has(own: PartitionLog, segment: Segment) -> bool:
    segments = own.segments
    return segments[segment_slot(segments, segment.base_offset)] is segment


def file_of(own: PartitionLog, segment: Segment) -> FileToCheck:
    """Describes a segment for a check."""
    segments = own.segments
    slot = segment_slot(segments, segment.base_offset) + 1
    is_active = slot == len(segments)
    limit = own.log_end_offset if is_active else segments[slot].base_offset
    return FileToCheck(
        segment.file.path, segment.base_offset, limit, segment.file.size_bytes, is_active
    )


def take_findings(own: PartitionLog, segment: Segment, check: SegmentCheck) -> None:
    """Refuse the damage that a check has found, and rebuild indexes; or note that all is good."""
    unchecked = segment.unchecked
    if check.holes:
        if unchecked is None:
            unchecked = segment.unchecked = UncheckedBytes(check.file.size_bytes or 0)
        unchecked.forget()
        for hole in check.holes:
            own.damage.note(
                segment.file.path,
                Damage(segment.base_offset, hole.position, hole.offset, hole.defect),
            )
        return
    own.damage.forget(segment.base_offset)
    is_whole = check.end == segment.file.size_bytes and not segment.is_active
    if unchecked is not None and check.stamp is not None and is_whole:
        unchecked.note_good(check.stamp, check.first_offset, check.next_offset)
    if check.index_defects and not segment.is_active:
        for defect in check.index_defects:
            log.error("%s; the indexes are rebuilt", defect)
        rebuild_indexes(segment)
        if check.has_bad_transactions:
            own.transactions.rebuild(segment)
        segment.release()
