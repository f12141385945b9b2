"""Copiers in processes, and what they have told; see `copier_program.py`."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Self

from tests.support.running_members import events_told
from tests.support.waiting import wait_until

Command = Sequence[str | Path]
PYTHON: Command = (sys.executable, Path(__file__).with_name("copier_program.py"))
TIMEOUT_MS = 10_000
"""The transaction timeout: how long others wait for what a killed copier leaves open."""
SESSION_MS = 6_000


class Copier:
    """One copier, which may be killed and started again. A context manager that ends it."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        source: str,
        target: str,
        *,
        number: int = 0,
        program: Command = PYTHON,
    ) -> None:
        """`program` takes its options as JSON in an argument, and tells what it does as JSON."""
        self._command = program
        self._options = {
            "bootstrap": bootstrap,
            "group": group,
            "source": source,
            "target": target,
            "transactional_id": f"{group}-{number}",
            "timeout_ms": TIMEOUT_MS,
            "session_ms": SESSION_MS,
        }
        self.transactional_id = f"{group}-{number}"
        self.events: list[dict[str, Any]] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [*self._command, json.dumps(self._options)],
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

    @property
    def copied_count(self) -> int:
        """The number of records whose transactions it knows to be committed."""
        return sum(event["count"] for event in self._of_kind("committed"))

    @property
    def partitions_count(self) -> int:
        """The partitions that the group gave it, as far as it has told."""
        last = [event for event in list(self.events) if event["event"] in ("assigned", "revoked")]
        return last[-1]["count"] if last and last[-1]["event"] == "assigned" else 0

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == kind]

    def complaint(self) -> str:
        """Why it failed or aborted, and what it wrote to stderr."""
        why = [event["why"] for event in list(self.events) if "why" in event]
        return "\n".join([*why[-5:], os.pread(self._errors.fileno(), 1 << 16, 0).decode()[-2_000:]])

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: neither the group nor the coordinator of transactions is told."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def kill_and_start(self) -> None:
        """The next one has the same transactional id."""
        self.kill()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._errors.close()


class Copiers:
    """All copiers of one group. A context manager that ends them."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        source: str,
        target: str,
        *,
        count: int = 1,
        program: Command = PYTHON,
    ) -> None:
        self._stack = ExitStack()
        self.all: Sequence[Copier] = [
            self._stack.enter_context(
                Copier(bootstrap, group, source, target, number=number, program=program)
            )
            for number in range(count)
        ]

    @property
    def copied_count(self) -> int:
        """The number of records that they know to be copied."""
        return sum(each.copied_count for each in self.all)

    def wait_for_more(self, count: int = 50) -> None:
        """Until so many more records are copied."""
        wanted = self.copied_count + count
        try:
            wait_until(lambda: self.copied_count >= wanted, f"{wanted} copied records")
        except AssertionError as late:
            told = "\n".join(each.complaint() for each in self.all)
            raise AssertionError(f"{late}\n{told}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
