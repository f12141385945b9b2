"""Repairs the logs after an unclean stop, several at a time, in helper processes.

A broker does this before it serves. The helpers read and check, so that the broker's process can
report their progress to its supervisor; a stop ends it and the helpers at once. If there is little
to check, the broker does it itself when it opens the logs, since a helper takes a tenth of a second
to begin.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.log import repair_process
from cluster.log.log_directory import LogDirectory
from cluster.log.options import LogOptions
from cluster.log.repair import LogToRepair, unchecked_bytes
from cluster.log.repair_process import CHECKED, FAILED, LOG_LINE, REPAIRED, order
from cluster.model.ids import Offset
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.clock import Clock
from cluster.runtime.helper_process import HelperFailed, HelperPort, HelperStarter
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

HELPED_FROM_BYTES: Final = 128 << 20
"""The broker itself checks less than this, in well under half a second."""
HELPED_LOG_FROM_BYTES: Final = 1 << 20
"""The broker always checks a log with less than this: a repair would write three files."""
REPORT_EVERY_MS: Final = 2_000
_FIRST_REPORT_MS: Final = 500

OnProgress = Callable[[RecoveryProgress], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes that helpers repair, and the number of helpers."""

    helpers_per_directory: int
    from_bytes: int = HELPED_FROM_BYTES
    log_from_bytes: int = HELPED_LOG_FROM_BYTES


class LoadingReports:
    """Reports at a bounded rate how many logs are open, if that takes long."""

    def __init__(self, clock: Clock, on_progress: OnProgress) -> None:
        self._clock = clock
        self._on_progress = on_progress
        self._began_ms: int | None = None
        self._next_report_ms = 0

    def on_opened(self, opened: int, total: int) -> None:
        """One more log has been looked at."""
        now_ms = self._clock.monotonic_ms()
        if self._began_ms is None:
            self._began_ms = now_ms
            self._next_report_ms = now_ms + REPORT_EVERY_MS
        if opened == total:
            log.info("loaded %d logs in %d ms", total, now_ms - self._began_ms)
        elif now_ms >= self._next_report_ms:
            self._next_report_ms = now_ms + REPORT_EVERY_MS
            progress = RecoveryProgress(0, 0, opened, total)
            log.info("%s", progress.text)
            self._on_progress(progress)


class _Worker:
    """One helper and its present log."""

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory
        self.helper: HelperPort | None = None
        self.log: LogToRepair | None = None
        self.checked_bytes = 0


class LogRepairs:
    """Repairs all directories of a starting broker, by one call of `run`.

    Afterwards each `LogDirectory` lists its repaired logs; others are recovered when they are
    opened.
    """

    def __init__(
        self,
        options: LogOptions,
        extent: Extent,
        clock: Clock,
        on_progress: OnProgress,
        loop: EventLoop,
        start_helper: HelperStarter,
    ) -> None:
        """`on_progress` is called from time to time while helpers work and report on `loop`."""
        self._options = options
        self._extent = extent
        self._clock = clock
        self._on_progress = on_progress
        self._loop = loop
        self._start_helper = start_helper
        self._waiting: dict[LogDirectory, deque[LogToRepair]] = {}
        self._workers: list[_Worker] = []
        self._done_bytes = self._done_logs = self._total_bytes = self._total_logs = 0

    def run(self, directories: Iterable[LogDirectory]) -> None:
        """Repair every log that was not closed, if there is enough of them to need helpers."""
        self._waiting = {
            directory: self._logs_of(directory)
            for directory in directories
            if directory.failure is None
        }
        logs = [one for waiting in self._waiting.values() for one in waiting]
        self._total_logs = len(logs)
        self._total_bytes = sum(one.unchecked_bytes for one in logs)
        try:
            if self._total_bytes >= self._extent.from_bytes:
                self._run_helpers()
        finally:
            for worker in self._workers:
                if worker.helper is not None:
                    worker.helper.close()

    def _run_helpers(self) -> None:
        began_ms = self._clock.monotonic_ms()
        log.info(
            "no clean shutdown file was found: recovering %d logs, %d bytes beyond their recovery"
            " points",
            self._total_logs,
            self._total_bytes,
        )
        most = max(1, min(self._extent.helpers_per_directory, os.cpu_count() or 1))
        for directory, waiting in self._waiting.items():
            for _ in range(min(most, len(waiting))):
                self._begin(directory)
        next_report_ms = began_ms + _FIRST_REPORT_MS
        while self._workers:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= next_report_ms:
                next_report_ms = now_ms + REPORT_EVERY_MS
                self._report()
            self._loop.run_once(max_wait_ms=next_report_ms - now_ms)
        log.info(
            "%d of %d logs recovered by helper processes in %d ms",
            self._done_logs,
            self._total_logs,
            self._clock.monotonic_ms() - began_ms,
        )

    def _logs_of(self, directory: LogDirectory) -> deque[LogToRepair]:
        """The logs to repair in one directory, large ones first; none after a clean stop."""
        if directory.was_clean_shutdown:
            return deque()
        try:
            recovery_points = directory.read_recovery_points()
            log_starts = directory.read_log_start_offsets()
            partitions = directory.partition_directories()
        except OSError as error:  # opening the logs fails as well, and is logged there
            log.warning("cannot list %s: %s", directory.path, error.strerror)
            return deque()
        logs = []
        for partition, path in partitions.items():
            recovery_point = recovery_points.get(partition, Offset(0))
            try:
                size = unchecked_bytes(path, recovery_point)
            except OSError as error:
                log.warning("cannot list %s: %s", path, error.strerror)
                continue
            if size >= self._extent.log_from_bytes:
                log_start = log_starts.get(partition, Offset(0))
                logs.append(
                    LogToRepair(
                        *(partition, path, recovery_point, log_start, size),
                        directory.lacks_unsynced,
                    )
                )
        return deque(sorted(logs, key=lambda one: one.unchecked_bytes, reverse=True))

    def _begin(self, directory: LogDirectory) -> None:
        worker = _Worker(directory)
        try:
            worker.helper = self._start_helper(
                repair_process.__name__,
                lambda message: self._take(worker, message),
                lambda how: self._on_ended(worker, how),
            )
        except HelperFailed as problem:
            log.warning("no helper for the recovery: %s", problem)
            return
        self._workers.append(worker)
        self._go_on(worker)

    def _go_on(self, worker: _Worker) -> None:
        """Give a helper the next log of its directory, or end it."""
        waiting = self._waiting[worker.directory]
        helper = worker.helper
        if helper is None:
            return
        if not waiting:
            helper.close()
            self._workers.remove(worker)
            return
        worker.log, worker.checked_bytes = waiting.popleft(), 0
        helper.send(order(worker.log, self._options, self._clock.wall_ms()))

    def _take(self, worker: _Worker, message: Mapping[str, Any]) -> None:
        at = worker.log
        if at is None:
            return
        kind = message["kind"]
        if kind == CHECKED:
            worker.checked_bytes += message["bytes"]
        elif kind == LOG_LINE:
            logging.getLogger(message["logger"]).log(message["level"], "%s", message["text"])
        elif kind == REPAIRED:
            worker.directory.repaired.add(at.partition)
            self._on_done(worker, at)
        elif kind == FAILED:
            # Opening the log will fail in the same way, and be logged there.
            log.warning("%s could not be recovered by a helper: %s", at.partition, message["why"])
            self._on_done(worker, at)

    def _on_done(self, worker: _Worker, done: LogToRepair) -> None:
        self._done_logs += 1
        self._done_bytes += done.unchecked_bytes
        worker.log, worker.checked_bytes = None, 0
        self._go_on(worker)

    def _on_ended(self, worker: _Worker, how: str) -> None:
        """The process ended by itself: it was killed, or met a bug that its own lines show."""
        where = "" if worker.log is None else f" at {worker.log.partition}"
        log.warning("a helper of the recovery %s%s: the broker continues without it", how, where)
        self._workers.remove(worker)

    def _report(self) -> None:
        under_way = sum(
            min(worker.checked_bytes, worker.log.unchecked_bytes)
            for worker in self._workers
            if worker.log is not None
        )
        progress = RecoveryProgress(
            self._done_bytes + under_way, self._total_bytes, self._done_logs, self._total_logs
        )
        log.info("%s", progress.text)
        self._on_progress(progress)
