"""The one place that says what a log line looks like and where it goes: a file, or stderr."""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
_DATE_FORMAT: Final = "%Y-%m-%d %H:%M:%S"

LOG_MAX_BYTES: Final = 16 << 20
"""A log that has grown beyond this is begun anew at the next start of what writes it."""


def configure(log_file: Path | None = None) -> None:
    """Send this process's log to `log_file`, else to stderr, replacing any earlier way.

    The level is MILENA_LOG_LEVEL, else INFO.
    """
    handler = logging.StreamHandler(sys.stderr) if log_file is None else _appending(log_file)
    handler.setFormatter(logging.Formatter(_FORMAT, _DATE_FORMAT))
    root = logging.getLogger()
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
        earlier.close()
    root.addHandler(handler)
    root.setLevel(os.environ.get("MILENA_LOG_LEVEL", "INFO").upper())
    # A log that cannot be written, on a full disk, would be written about on stderr.
    logging.raiseExceptions = False


def set_aside(log_file: Path, larger_than_bytes: int = LOG_MAX_BYTES) -> None:
    """Rename a log that has grown large to NAME.log.1, in place of the one set aside before."""
    with suppress(OSError):  # a log that cannot be renamed grows on
        if log_file.stat().st_size > larger_than_bytes:
            log_file.replace(log_file.with_name(log_file.name + ".1"))


def _appending(log_file: Path) -> logging.Handler:
    return logging.FileHandler(log_file, encoding="utf-8")
