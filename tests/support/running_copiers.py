"""Copiers in processes, and what they have told; see `copier_program.py`."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.support.telling_program import Command, TellingProgram
from tests.support.waiting import wait_until

PYTHON: Command = (sys.executable, Path(__file__).with_name("copier_program.py"))
TIMEOUT_MS = 10_000
"""The transaction timeout: how long others wait for what a killed copier leaves open."""
SESSION_MS = 6_000


class Copier(TellingProgram):
    """One copier."""

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
        self.transactional_id = f"{group}-{number}"
        options = {
            "bootstrap": bootstrap,
            "group": group,
            "source": source,
            "target": target,
            "transactional_id": self.transactional_id,
            "timeout_ms": TIMEOUT_MS,
            "session_ms": SESSION_MS,
        }
        super().__init__([*program, json.dumps(options)])

    @property
    def copied_count(self) -> int:
        """The number of records whose transactions it knows to be committed."""
        return sum(event["count"] for event in self.of_kind("committed"))

    @property
    def partitions_count(self) -> int:
        """The partitions that the group gave it, as far as it has told."""
        last = [event for event in list(self.events) if event["event"] in ("assigned", "revoked")]
        return last[-1]["count"] if last and last[-1]["event"] == "assigned" else 0


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
