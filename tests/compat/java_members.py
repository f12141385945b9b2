"""Members of groups by the Java client of Kafka 4.1, and its tools, all in one JVM."""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
from typing import IO, Self

from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import program_command
from tests.support.running_members import RunningGroup, ToldMember
from tests.support.waiting import wait_until


class JavaMember(ToldMember):
    """One consumer, on a thread of the JVM."""

    def __init__(self, jvm: "JavaMembers", name: str) -> None:
        super().__init__(name)
        self._jvm = jvm
        self._is_wanted = True

    def complaint(self) -> str:
        """What the JVM wrote to stderr."""
        return self._jvm.complaint()

    def leave(self) -> None:
        """Close it: it leaves its group, for a while if it is a static member."""
        self._is_wanted = False
        self._jvm.write("close", self.client)
        wait_until(
            lambda: self.of_kind("closed") or self.of_kind("failed"), f"{self.client} to leave"
        )
        assert self.of_kind("closed"), (self.of_kind("failed"), self.complaint())

    def end(self) -> None:
        """Close it, unless it has left."""
        if self._is_wanted:
            self.leave()


class JavaMembers:
    """A JVM from `__enter__` to `__exit__`, which needs no member to have left."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._members: dict[str, JavaMember] = {}
        self._printed: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            program_command("GroupMembers", bootstrap, version=NEWEST),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,))
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._errors.close()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            event = json.loads(line)
            if event["event"] == "tool":
                self._printed[event["member"]] = event["text"]
            else:
                self._members[event["member"]].events.append(event)

    def write(self, *words: str) -> None:
        """One command."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def complaint(self) -> str:
        """What it wrote to stderr."""
        written = os.pread(self._errors.fileno(), 1 << 20, 0)
        return written.decode(errors="replace")[-3_000:]

    def start(
        self,
        group: RunningGroup,
        topics: str,
        *,
        protocol: str = "consumer",
        instance: str | None = None,
    ) -> JavaMember:
        """One more member; `topics` are separated by commas, or an expression after a slash."""
        name = f"java-{next(self._numbers)}"
        member = self._members[name] = JavaMember(self, name)
        group.members.append(member)
        self.write("start", name, group.name, protocol, instance or "-", topics)
        return member

    def tool(self, main_class: str, *arguments: str) -> str:
        """What one of Kafka's tools prints, told where the cluster is."""
        number = str(next(self._numbers))
        self.write("tool", number, main_class, "--bootstrap-server", self.bootstrap, *arguments)
        wait_until(lambda: number in self._printed, f"{main_class}\n{self.complaint()}")
        return self._printed.pop(number)

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP, SIGCONT: to all its members."""
        self._process.send_signal(number)
