"""Compaction: finds the dirtiest log, has helper processes clean it, swaps the results in.

Each replica cleans its own log, as in Kafka (`LogCleaner`). The broker's thread chooses the logs in
slices, and renames the files of a cleaned group of segments between two requests; helper processes
read and write. A result is dropped if the log was cut or deleted, or its topic is not compacted any
more.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cluster.brokers.replication.partition import Partition
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.config import broker as keys
from cluster.config.live_settings import LiveSettings
from cluster.log.cleaner.log_work import CleanerLimits, find_work, order_of, swap_in
from cluster.log.cleaner.order import CLEANED, DAMAGED, DONE, CleaningDone
from cluster.log.cleaner.selection import Cleanable
from cluster.log.partition_log import PartitionLog
from cluster.log.segment_swap import remove_cleaned
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import TopicPartition
from cluster.model.printable import one_line
from cluster.runtime.background_thread import Post
from cluster.runtime.helper_process import HelperFailed, HelperPort, HelperStarter, Message
from cluster.runtime.slices import Slices

log = logging.getLogger(__name__)

HELPER: Final = "cluster.log.cleaner.cleaning_process"
RETRY_MS: Final = 60_000
"""Pause before a log is tried again whose cleaning has failed."""
_PARTITIONS_PER_STEP: Final = 16
_BUFFER_BYTES_MIN: Final = 4096
_MEGABYTE: Final = 1 << 20


class _Worker:
    """A helper process; `run` is its present cleaning."""

    def __init__(self) -> None:
        self.helper: HelperPort | None = None
        self.run: _Run | None = None


@dataclass(slots=True)
class _Run:
    """One cleaning of one log."""

    partition: Partition
    log: PartitionLog
    """The partition's log at the beginning: the replica may move to another directory."""
    cleanable: Cleanable
    cuts: int
    """The log's number of cuts at the beginning; another one means that records changed."""


@dataclass(slots=True)
class _Trouble:
    """A log that could not be cleaned; logged in one line when it begins."""

    partition: Partition
    reason: str
    retry_at_ms: MonotonicMs | None
    """None if a retry before the next start is useless."""


@dataclass(slots=True)
class CleanerCounts:
    """The cleaner's figures for metrics."""

    cleanings: int = 0
    max_dirty_ratio: float = 0.0
    """The value of all logs together at the last look."""
    last_recopy_ratio: float = 0.0
    """The share of bytes that the last cleaning kept of those it read."""


class LogCleaner:
    """Owned by the broker's thread.

    Invariant: a log is cleaned by one helper at a time; at most `log.cleaner.threads` work.
    """

    def __init__(
        self,
        live: LiveSettings,
        table: PartitionTable,
        slices: Slices,
        start_helper: HelperStarter,
        call_after: Callable[[int, Callable[[], None]], object],
        post: Post,
        wall_ms: Callable[[], WallMs],
        monotonic_ms: Callable[[], MonotonicMs],
        is_moving: Callable[[TopicPartition], bool],
    ) -> None:
        """`call_after` makes a call after so many milliseconds; `post` hands one to a thread, which
        unmaps replaced segments: that takes milliseconds for a large file."""
        self._live = live
        self._table = table
        self._slices = slices
        self._start_helper = start_helper
        self._call_after = call_after
        self._post = post
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._is_moving = is_moving
        self._workers: list[_Worker] = []
        self._troubles: dict[TopicPartition, _Trouble] = {}
        self._is_looking = False
        self._is_waiting = False
        self._is_closed = False
        self.counts = CleanerCounts()

    def start(self) -> None:
        """Begin to look for logs to clean, again and again."""
        self._look_again()

    @property
    def uncleanable_count(self) -> int:
        """Logs that cannot be cleaned at present, or until the next start."""
        return len(self._troubles)

    def close(self) -> None:
        """End every helper; the next start removes their files."""
        self._is_closed = True
        for worker in self._workers:
            _end(worker, waits=True)
        self._workers.clear()

    # Which log is next

    def _look_again(self) -> None:
        if not self._is_looking and not self._is_closed:
            self._is_looking = True
            self._slices.start(self._look())

    def _wait_to_look(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._call_after(self._live[keys.LOG_CLEANER_BACKOFF_MS], self._waited)

    def _waited(self) -> None:
        self._is_waiting = False
        self._look_again()

    def _look(self) -> Iterator[None]:
        """Begin to clean the dirtiest log that is worth it, if a helper is free."""
        best: _Run | None = None
        self._end_needless()
        max_dirty_ratio = 0.0
        if self._may_begin():
            for count, partition in enumerate(self._table, 1):
                run = self._run_of(partition)
                if run is not None:
                    max_dirty_ratio = max(max_dirty_ratio, run.cleanable.dirty_ratio)
                    if run.cleanable.is_worth_while(partition.log.options.cleaning) and (
                        best is None or run.cleanable.dirty_ratio > best.cleanable.dirty_ratio
                    ):
                        best = run
                if count % _PARTITIONS_PER_STEP == 0:
                    yield
            self.counts.max_dirty_ratio = max_dirty_ratio
        self._is_looking = False
        if self._is_closed:
            return
        if best is not None and self._is_current(best) and self._begin(best):
            self._look_again()  # another helper may be free
        else:
            self._end_idle()
            self._wait_to_look()

    def _may_begin(self) -> bool:
        busy = sum(worker.run is not None for worker in self._workers)
        return self._live[keys.LOG_CLEANER_ENABLE] and busy < self._live[keys.LOG_CLEANER_THREADS]

    def _run_of(self, partition: Partition) -> _Run | None:
        """Describes a cleaning of this log; None when there is nothing to clean."""
        own = partition.log
        if not own.options.is_compacted or self.is_busy(partition) or self._is_held_up(partition):
            return None
        if len(own.damage):
            return None  # a damaged log is repaired first, or stays as it is
        if self._is_moving(partition.id):
            return None  # a replica that moves would have to copy the new files again
        try:
            cleanable = find_work(own, partition.high_watermark, self._wall_ms())
        except StorageFailed as failure:
            self._hold_up(partition, str(failure), is_passing=True)
            return None
        return None if cleanable is None else _Run(partition, own, cleanable, own.durability.cuts)

    def is_busy(self, partition: Partition) -> bool:
        """Whether a helper is cleaning this one."""
        return any(
            worker.run is not None and worker.run.partition is partition for worker in self._workers
        )

    def _is_held_up(self, partition: Partition) -> bool:
        trouble = self._troubles.get(partition.id)
        return (
            trouble is not None
            and trouble.partition is partition
            and (trouble.retry_at_ms is None or self._monotonic_ms() < trouble.retry_at_ms)
        )

    # One cleaning

    def _begin(self, run: _Run) -> bool:
        worker = next((worker for worker in self._workers if worker.run is None), None)
        if worker is None:
            try:
                worker = self._new_worker()
            except HelperFailed as failure:
                self._hold_up(run.partition, str(failure), is_passing=True)
                return False
        if worker.helper is None:
            return False
        worker.run = run
        order = order_of(run.log, run.cleanable, self._limits(), self._wall_ms())
        worker.helper.send(order.to_message())
        return True

    def _new_worker(self) -> _Worker:
        worker = _Worker()
        worker.helper = self._start_helper(
            HELPER,
            lambda message: self._on_message(worker, message),
            lambda reason: self._on_end(worker, reason),
        )
        self._workers.append(worker)
        return worker

    def _limits(self) -> CleanerLimits:
        live = self._live
        threads = max(1, live[keys.LOG_CLEANER_THREADS])
        return CleanerLimits(
            live[keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads,
            live[keys.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
            # One half is for input, one for output.
            max(_BUFFER_BYTES_MIN, live[keys.LOG_CLEANER_IO_BUFFER_SIZE] // threads // 2),
            max(1.0, live[keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND] / threads),
        )

    def _on_message(self, worker: _Worker, message: Message) -> None:
        run = worker.run
        if run is None:
            return
        if not self._is_current(run):
            self._abandon(worker, run)
        elif message["kind"] == CLEANED:
            self._swap(worker, run, message["sources"])
        elif message["kind"] == DONE:
            self._finish(worker, run, CleaningDone.of_message(message))
        else:
            is_passing = message["kind"] != DAMAGED
            self._hold_up(run.partition, one_line(message["reason"]), is_passing=is_passing)
            worker.run = None
            self._look_again()

    def _on_end(self, worker: _Worker, reason: str) -> None:
        """A helper has died: the groups that it finished are in place, the rest is unchanged."""
        self._workers.remove(worker)
        run = worker.run
        if run is not None and self._is_current(run):
            self._hold_up(run.partition, f"the process that cleans it {reason}", is_passing=True)
        self._look_again()

    def _is_current(self, run: _Run) -> bool:
        """Whether the log is still the one whose cleaning began."""
        partition = run.partition
        return (
            self._table.find(partition.id) is partition
            and partition.log is run.log
            and run.log.options.is_compacted
            and run.log.durability.cuts == run.cuts
        )

    def _swap(self, worker: _Worker, run: _Run, base_offsets: Sequence[int]) -> None:
        try:
            replaced = swap_in(run.log, base_offsets)
        except StorageFailed as failure:
            # The files on disk may be half renamed: only a start can tell.
            self._hold_up(run.partition, str(failure), is_passing=False)
            self._abandon(worker, run)
            return
        if replaced:
            self._post(replaced.clear)
        else:
            self._abandon(worker, run)

    def _finish(self, worker: _Worker, run: _Run, done: CleaningDone) -> None:
        run.log.cleaned_to = done.next_dirty_offset
        worker.run = None
        self._troubles.pop(run.partition.id, None)
        stats, counts = done.stats, self.counts
        counts.cleanings += 1
        counts.last_recopy_ratio = stats.kept_bytes / max(1, stats.read_bytes)
        seconds = (stats.index_ms + stats.clean_ms) / 1_000
        log.info(
            "%s: cleaned, dirty section offsets %d to %d: %.1f MiB read in %.1f s (%.1f s to index"
            " %.1f MiB, %.1f s of rest), %.1f MiB and %d of %d records kept, in %d segments;"
            " %d keys, %.1f%% of the room for them",
            run.partition.id,
            run.cleanable.first_dirty_offset,
            done.next_dirty_offset - 1,
            stats.read_bytes / _MEGABYTE,
            seconds,
            stats.index_ms / 1_000,
            stats.indexed_bytes / _MEGABYTE,
            stats.waited_ms / 1_000,
            stats.kept_bytes / _MEGABYTE,
            stats.kept_records,
            stats.read_records,
            stats.groups,
            stats.map_keys,
            100 * stats.map_keys / max(1, stats.map_slots),
        )
        self._look_again()

    # What goes wrong

    def _abandon(self, worker: _Worker, run: _Run) -> None:
        """End a cleaning that is not wanted any more, and remove its files."""
        _end(worker)
        self._workers.remove(worker)
        try:
            remove_cleaned(run.log.directory)
        except OSError as error:
            # A deleted partition has no directory any more.
            log.debug("%s: %s", run.partition.id, error.strerror)
        self._look_again()

    def _hold_up(self, partition: Partition, reason: str, *, is_passing: bool) -> None:
        """Stop cleaning a log for a while or until the next start; logged when that is new."""
        before = self._troubles.get(partition.id)
        retry_at_ms = MonotonicMs(self._monotonic_ms() + RETRY_MS) if is_passing else None
        self._troubles[partition.id] = _Trouble(partition, reason, retry_at_ms)
        if before is None or before.partition is not partition or before.reason != reason:
            log.warning(
                "%s cannot be cleaned and stays as it is: %s; %s",
                partition.id,
                reason,
                "it is tried again" if is_passing else "not tried again before the next start",
            )

    def _end_needless(self) -> None:
        """End the cleanings of logs that are gone, and forget their failures."""
        for worker in list(self._workers):
            if worker.run is not None and not self._is_current(worker.run):
                self._abandon(worker, worker.run)
        for partition_id, trouble in list(self._troubles.items()):
            if self._table.find(partition_id) is not trouble.partition:
                del self._troubles[partition_id]

    def _end_idle(self) -> None:
        for worker in [worker for worker in self._workers if worker.run is None]:
            _end(worker)
            self._workers.remove(worker)


def _end(worker: _Worker, *, waits: bool = False) -> None:
    if worker.helper is not None:
        worker.helper.close(waits=waits)
