"""A log file of bounded size: rotated by size, with rate-limited lines.

The process that opened a file writes and rotates it. If the standard streams of the process lead to
the file too (a child's do, so that the output of libraries and the interpreter is not lost), they
are redirected to the new file after each rotation.
"""

import logging
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster.runtime.line_limiter import Kind, LeftOut, LineLimiter

LOG_MAX_BYTES: Final = 8 << 20
"""At this size a log is set aside and a new one begun. A line is never divided."""
LOGS_KEPT: Final = 3
"""Logs set aside: NAME.log.1 is the latest, what would be NAME.log.4 is dropped."""

_STANDARD_OUTPUTS: Final = (1, 2)


def rotate(log_file: Path) -> None:
    """Rename the log to NAME.log.1 and shift the older ones. Raises OSError."""
    for number in reversed(range(1, LOGS_KEPT)):
        with suppress(FileNotFoundError):
            _rotated(log_file, number).replace(_rotated(log_file, number + 1))
    log_file.replace(_rotated(log_file, 1))


def rotate_if_large(log_file: Path, max_bytes: int = LOG_MAX_BYTES) -> None:
    """Rotate a file that no process has open; does nothing if it is missing or cannot be
    renamed."""
    with suppress(OSError):
        if log_file.stat().st_size >= max_bytes:
            rotate(log_file)


class LogFile(logging.Handler):
    """Appends records to a file with one write each, so that other writers do not split a line.

    The limiter uses a record's `peer` (`extra=of_peer(host)`) and `subject`.
    """

    def __init__(self, log_file: Path, max_bytes: int = LOG_MAX_BYTES) -> None:
        """Raises OSError if the file cannot be opened."""
        super().__init__()
        self._path = log_file
        self._max_bytes = max_bytes
        self._rotate_at_bytes = max_bytes
        self._limiter = LineLimiter()
        self._owner_pid = os.getpid()
        self._descriptor = _opened(log_file)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, unless it exceeds its rate limit."""
        try:
            now_s = time.monotonic()
            kind = Kind(record.name, str(record.msg))
            peer, subject = getattr(record, "peer", None), getattr(record, "subject", None)
            if self._limiter.admits(kind, peer, now_s, subject):
                self._write(record)
            self._report(self._limiter.take_left_out(now_s))
        except Exception:  # noqa: BLE001 - as every handler: a log must not stop what it tells of
            self.handleError(record)

    def leaves_out(self, kind: Kind, peer: str, subject: str) -> bool:
        """Whether a record would be left out; it is then counted and need not be formatted."""
        self.acquire()
        try:
            return self._limiter.leaves_out(kind, peer, time.monotonic(), subject)
        finally:
            self.release()

    def report_left_out(self) -> None:
        """Report the lines left out since the last report, because a flood may be over."""
        self.acquire()
        try:
            self._report(self._limiter.take_left_out(time.monotonic()))
        finally:
            self.release()

    def close(self) -> None:
        """Report the remaining lines left out and close the file."""
        self.acquire()
        try:
            if self._descriptor >= 0:
                if self._owner_pid == os.getpid():  # otherwise a fork inherited it
                    self._report(self._limiter.take_left_out(time.monotonic(), everything=True))
                os.close(self._descriptor)
                self._descriptor = -1
        finally:
            self.release()
        super().close()

    def _report(self, left_out: list[LeftOut]) -> None:
        for one in left_out:
            name = __name__ if one.kind is None else one.kind.logger
            self._write(
                logging.LogRecord(name, logging.WARNING, __file__, 0, "%s", (str(one),), None)
            )

    def _write(self, record: logging.LogRecord) -> None:
        if self._descriptor < 0:
            return
        line = self.format(record) + "\n"
        with suppress(OSError):  # the disk is full: the process continues
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))
            # The output of others on the standard streams counts too.
            if os.fstat(self._descriptor).st_size >= self._rotate_at_bytes:
                self._rotate()

    def _rotate(self) -> None:
        if self._owner_pid != os.getpid():
            return
        old = os.fstat(self._descriptor)
        try:
            rotate(self._path)
            descriptor = _opened(self._path)
        except OSError:  # the file keeps growing; rotation is retried after another `max_bytes`
            self._rotate_at_bytes = old.st_size + self._max_bytes
            return
        for output in _STANDARD_OUTPUTS:
            if _leads_to(output, old):
                os.dup2(descriptor, output)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._rotate_at_bytes = self._max_bytes


def _opened(log_file: Path) -> int:
    return os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _rotated(log_file: Path, number: int) -> Path:
    return log_file.with_name(f"{log_file.name}.{number}")


def _leads_to(descriptor: int, file: os.stat_result) -> bool:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False  # it is closed
    return stat.S_ISREG(found.st_mode) and os.path.samestat(found, file)
