"""Members of consumer groups in processes, and what they have told; see `group_member.py`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from tests.support.waiting import wait_until

_PROGRAM = Path(__file__).with_name("group_member.py")

Place = tuple[str, int]
"""Topic and partition."""


def events_told(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The events in a program's output, without an incomplete last line of a killed program."""
    for line in lines:
        if line.endswith(b"\n"):
            yield json.loads(line)


class Member(ABC):
    """A member by what it has told; how it runs is its subclass's business."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.events: list[dict[str, Any]] = []

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Its events of one kind, oldest first."""
        return [event for event in list(self.events) if event["event"] == kind]

    @property
    def assignment(self) -> list[Place]:
        """What it has now."""
        assigned = self.of_kind("assigned")
        return [tuple(place) for place in assigned[-1]["partitions"]] if assigned else []

    @property
    def assignments_count(self) -> int:
        """How often its partitions have changed."""
        return len(self.of_kind("assigned"))

    @property
    def read(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of every record."""
        return [
            (event["topic"], event["partition"], event["offset"])
            for event in self.of_kind("record")
        ]

    @abstractmethod
    def complaint(self) -> str:
        """What its process wrote to stderr."""

    @abstractmethod
    def leave(self) -> None:
        """Let it leave the group and end."""

    @abstractmethod
    def end(self) -> None:
        """End it, whatever it does."""


class Host(Protocol):
    """What runs members of its own clients."""

    def start(self, bootstrap: str, group: str, topics: Sequence[str], **options: Any) -> Member:
        """A new member; `options` are those of RunningMember."""


class RunningMember(Member):
    """One process. What it told is read by a thread, and looked at from outside."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        client: str = "confluent",
        strategy: str = "range",
        session_ms: int = 6_000,
        instance: str | None = None,
        protocol: str = "classic",
    ) -> None:
        """`protocol` is `consumer` for the newer one, which confluent alone has here; then the
        strategy is the server's assignor, and the session timeout is the group's."""
        super().__init__(client)
        options = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": list(topics),
            "client": client,
            "strategy": strategy,
            "session_ms": session_ms,
            "instance": instance,
            "protocol": protocol,
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._process = subprocess.Popen(
            [sys.executable, _PROGRAM, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def _read(self, lines: IO[bytes]) -> None:
        for event in events_told(lines):
            self.events.append(event)

    def complaint(self) -> str:
        """What it wrote to stderr."""
        written = os.pread(self._errors.fileno(), 1 << 20, 0)  # it shares its position with us
        return written.decode(errors="replace")[-3_000:]

    # -- what is done to it ------------------------------------------------------------------------

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT."""
        self._process.send_signal(number)

    def leave(self) -> None:
        """Let it leave the group and end."""
        self._close_input()
        wait_until(lambda: self._process.poll() is not None, f"{self.client} to leave")
        self._reader.join()
        assert self.of_kind("closed"), self.complaint()

    def kill(self) -> None:
        """SIGKILL: the group is not told."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def end(self) -> None:
        """Kill it if it still runs; close all pipes."""
        self.kill()
        self._close_input()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


class RunningGroup:
    """All members of one group that a test starts."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str], **options: Any) -> None:
        self._bootstrap = bootstrap
        self.name = group
        self._topics = topics
        self._options = options
        self.members: list[Member] = []

    def start(self, **options: Any) -> RunningMember:
        """One more member."""
        member = RunningMember(
            self._bootstrap, self.name, self._topics, **{**self._options, **options}
        )
        self.members.append(member)
        return member

    def start_in(self, host: Host, **options: Any) -> Member:
        """One more member, which runs in a process that may run others too."""
        member = host.start(
            self._bootstrap, self.name, self._topics, **{**self._options, **options}
        )
        self.members.append(member)
        return member

    def wait_until_shared(
        self, members: Sequence[Member], places: Iterable[Place], deadline_s: float = 60.0
    ) -> None:
        """Until these members have the partitions among them, each partition once, each some."""
        wanted = sorted(places)

        def is_shared() -> bool:
            held = [member.assignment for member in members]
            return all(held) and sorted(place for each in held for place in each) == wanted

        try:
            wait_until(is_shared, "the partitions to be shared", deadline_s)
        except AssertionError:
            for member in members:
                print(member.client, member.assignment, member.complaint())
            raise

    def wait_until_read(self, places: Iterable[tuple[str, int, int]]) -> None:
        """Until some member has told each of these records."""
        wanted = set(places)
        wait_until(lambda: wanted <= set(self.read), f"{len(wanted)} records")

    def check_repeats(self) -> None:
        """Every record was read once; once more for each commit that came too late, at most."""
        failed = sum(len(member.of_kind("commit failed")) for member in self.members)
        assert max(self.read.values()) <= 1 + failed, self.read

    def end(self) -> None:
        """End all members, whatever they do."""
        for member in self.members:
            member.end()

    @property
    def read(self) -> Counter[tuple[str, int, int]]:
        """How often each record was read, by all members together."""
        return Counter(place for member in self.members for place in member.read)


@contextlib.contextmanager
def a_group(
    bootstrap: str, group: str, topics: Sequence[str], **options: Any
) -> Iterator[RunningGroup]:
    """A group without members yet; those that still run at the end are killed."""
    running = RunningGroup(bootstrap, group, topics, **options)
    try:
        yield running
    finally:
        running.end()
