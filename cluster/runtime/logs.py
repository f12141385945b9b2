"""The one place that says what a log line looks like and where it goes: a file, or stderr."""

import logging
import os
import sys
from pathlib import Path
from typing import Final

_FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"
_DATE_FORMAT: Final = "%Y-%m-%d %H:%M:%S"


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


def _appending(log_file: Path) -> logging.Handler:
    return logging.FileHandler(log_file, encoding="utf-8")
