"""Prints for the supervisor: lines, and startup phases with their durations."""

import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cluster.model import printable
from cluster.runtime.loop import EventLoop
from cluster.supervisor.console_stream import ConsoleStream

_LAST_LOG_LINES: Final = 8


class Console:
    """Prints without ever blocking: a paused or closed terminal must not stop a cluster."""

    def __init__(self, loop: EventLoop) -> None:
        self._stdout = ConsoleStream(1, loop)
        self._stderr = ConsoleStream(2, loop)

    def mute(self) -> None:
        """Stop printing, because the shell has the terminal back (`start --detach`)."""
        self._stdout.close()
        self._stderr.close()

    def finish(self) -> None:
        """Write all buffered output, blocking if necessary, at the end of the process."""
        self._stdout.finish()
        self._stderr.finish()

    def close_inherited(self) -> None:
        """In a forked child: close the inherited descriptors of the terminal."""
        self._stdout.close_inherited()
        self._stderr.close_inherited()

    def when_flushed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once everything printed so far is written, possibly immediately."""
        self._stdout.when_drained(callback)

    def say(self, text: str = "") -> None:
        """Print one or more lines on stdout."""
        self._stdout.write(printable.lines(text) + "\n")

    def phase(self, what: str, outcome: str, elapsed_ms: int) -> None:
        """Print a finished startup phase with its duration."""
        self.say(f"  {what:<10}{outcome:<52}{elapsed_ms / 1000:>6.1f} s")

    def complain(self, text: str) -> None:
        """Print one line on stderr."""
        self._stderr.write(printable.lines(text) + "\n")


def last_lines(log_file: Path, begin_bytes: int) -> Iterable[str]:
    """The end of a log, no earlier than `begin_bytes`, for a child that could not start."""
    try:
        with log_file.open("rb") as lines:
            was_rotated = os.fstat(lines.fileno()).st_size < begin_bytes
            lines.seek(0 if was_rotated else begin_bytes)
            last = deque(lines, maxlen=_LAST_LOG_LINES)
            return [line.decode("utf-8", "replace").rstrip("\n") for line in last]
    except OSError:
        return []
