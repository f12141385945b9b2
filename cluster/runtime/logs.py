"""Configures the log of a process: a file or stderr."""

import logging
import os
import re
import sys
from pathlib import Path
from typing import Final

from cluster.model.errors import UserError
from cluster.runtime.line_limiter import Kind
from cluster.runtime.log_file import LOG_MAX_BYTES, LogFile
from cluster.runtime.log_lines import LineFormatter

_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEAST_BYTES: Final = 4_096


def configure(log_file: Path | None = None) -> None:
    """Send this process's log to `log_file`, else to stderr, replacing any earlier handler.

    The level is MILENA_LOG_LEVEL, by default INFO; a file is rotated at MILENA_LOG_MAX_BYTES, by
    default 8 MiB. Raises UserError for an invalid variable, OSError where the file cannot be
    opened.
    """
    level = os.environ.get("MILENA_LOG_LEVEL", "INFO").upper()
    if level not in _LEVELS:
        raise UserError(f"MILENA_LOG_LEVEL must be one of {', '.join(_LEVELS)}, not {level}")
    if log_file is None:
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
    else:
        handler = LogFile(log_file, max_log_bytes())
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    for earlier in root.handlers[:]:
        root.removeHandler(earlier)
        earlier.close()
    root.addHandler(handler)
    root.setLevel(level)
    # Otherwise logging reports on stderr that it cannot write, for example on a full disk.
    logging.raiseExceptions = False


def max_log_bytes() -> int:
    """The maximum size of a log. Raises UserError."""
    text = os.environ.get("MILENA_LOG_MAX_BYTES", str(LOG_MAX_BYTES))
    if not (re.fullmatch(r"[0-9]{1,15}", text) and int(text) >= _LEAST_BYTES):
        raise UserError(f"MILENA_LOG_MAX_BYTES must be {_LEAST_BYTES} or more, not {text}")
    return int(text)


def report_left_out() -> None:
    """Report the lines left out of floods that may be over; call it periodically."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogFile):
            handler.report_left_out()


def is_left_out(logger: logging.Logger, template: str, peer: str, subject: str) -> bool:
    """Whether a peer's line exceeds its rate limit; if so it is counted as left out.

    Ask this before formatting a line that may come with each request: it takes a tenth of the time.
    """
    handlers = [each for each in logging.getLogger().handlers if isinstance(each, LogFile)]
    kind = Kind(logger.name, template)
    return bool(handlers) and all(each.leaves_out(kind, peer, subject) for each in handlers)


def of_peer(host: str, subject: str | None = None) -> dict[str, str | None]:
    """The `extra` of a log line that this peer caused, for `line_limiter`; `subject` is its
    topic."""
    return {"peer": host, "subject": subject}
