"""A program that tells what happens to it, a line of JSON each on its stdout."""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from tests.support.running_members import events_told

Command = Sequence[str | Path]


class TellingProgram:
    """Its process, which may be killed and started again. A context manager that ends it."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.events: list[dict[str, Any]] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def _read(self, lines: IO[bytes]) -> None:
        with lines:
            self.events.extend(events_told(lines))

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Its events of one kind, oldest first, also those before it was killed."""
        return [event for event in list(self.events) if event["event"] == kind]

    def complaint(self) -> str:
        """Why it says that something failed, and what it wrote to stderr."""
        why = [event["why"] for event in list(self.events) if "why" in event]
        size = os.fstat(self._errors.fileno()).st_size
        written = os.pread(self._errors.fileno(), 2_000, max(0, size - 2_000))
        return "\n".join([*why[-5:], written.decode(errors="replace")])

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: no broker is told."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def kill_and_start(self) -> None:
        """The next process has the same options."""
        self.kill()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._errors.close()
