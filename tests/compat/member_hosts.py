"""Programs in other languages that run members of consumer groups; see `running_members.py`.

A program reads orders from its stdin and writes what happens to its members on its stdout, a line
of JSON each: `go_clients members`, `kafkajs_members.mjs`, `GroupMembers.java`. It may run many
members at once, since a JVM takes long to start; it is killed or paused as a whole.
"""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

from tests.support.running_members import Member, events_told
from tests.support.waiting import wait_until

_END_S = 10.0


class HostedMember(Member):
    """One of the members of a program."""

    def __init__(self, host: "MemberHost", name: str, client: str) -> None:
        super().__init__(client)
        self._host = host
        self._name = name
        self._is_leaving = False

    def complaint(self) -> str:
        """What its program wrote to stderr, and why members of it failed, if they did."""
        return self._host.complaint()

    def leave(self) -> None:
        """Let it leave the group and end."""
        self.end()
        self._host.wait_until(lambda: self.of_kind("closed"), f"{self.client} to leave")

    def end(self) -> None:
        """Let it leave the group, without waiting for it."""
        if not self._is_leaving:
            self._is_leaving = True
            self._host.order(do="leave", member=self._name)


class MemberHost:
    """One process and its members; a context manager that kills it."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._members: dict[str, HostedMember] = {}
        self._numbers = itertools.count()
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def start(self, bootstrap: str, group: str, topics: Sequence[str], **options: Any) -> Member:
        """A new member; `client`, `strategy`, `session_ms`, `instance`, `protocol` as of
        RunningMember, and of Kafka's own client `rack` and, in place of topics, `expression`."""
        options = {"strategy": "range", "session_ms": 6_000, **options}
        name = str(next(self._numbers))
        member = self._members[name] = HostedMember(self, name, options["client"])
        self.order(
            do="start",
            member=name,
            bootstrap=bootstrap.split(","),
            group=group,
            topics=list(topics),
            **options,
        )
        return member

    def tool(self, main_class: str, *words: str) -> str:
        """What one of Kafka's tools prints on stdout, run by `GroupMembers.java`."""
        name = str(next(self._numbers))
        printed = self._members[name] = HostedMember(self, name, main_class)
        self.order(do="tool", member=name, **{"class": main_class}, words=words)
        self.wait_until(lambda: printed.events, f"{main_class} {words}")
        text: str = printed.events[0]["text"]
        return text

    def order(self, **order: object) -> None:
        """Write one line; nothing if the process has ended."""
        if self._process.poll() is None:
            self._stdin.write(json.dumps(order).encode() + b"\n")
            self._stdin.flush()

    def _read(self, lines: IO[bytes]) -> None:
        for event in events_told(lines):
            self._members[event["member"]].events.append(event)

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition; a failure shows what the program has printed by then."""
        try:
            wait_until(condition, what)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.complaint()}") from None

    def complaint(self) -> str:
        """What it wrote to stderr, and why members failed."""
        written = os.pread(self._errors.fileno(), 1 << 20, 0)
        failures = [
            f"member {name}: {each['text']}\n"
            for name, member in self._members.items()
            for each in member.of_kind("failed")
        ]
        return written.decode(errors="replace")[-3_000:] + "".join(failures)

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT: to all its members."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: no group is told."""
        self._process.kill()
        self._process.wait(_END_S)
        self._reader.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        for pipe in (self._stdin, self._process.stdout, self._errors):
            pipe.close()
