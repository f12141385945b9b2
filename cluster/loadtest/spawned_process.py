"""The parent's side of the load test's workers: starts, commands and ends their processes.

Workers are new interpreters rather than forks, because this process may have client threads. They
run in sessions of their own, so that Ctrl-C reaches only this process.
"""

import contextlib
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from cluster.loadtest.client_interval import ClientInterval, total
from cluster.loadtest.group_account import MemberAccount
from cluster.loadtest.sequence_check import Place, Promised, SequenceCheck
from cluster.loadtest.worker_orders import Order, ProducerOrder, order_line
from cluster.model.errors import UserError
from cluster.runtime.json_lines import LineBuffer, line

READY_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 5.0
START_DELAY_US: Final = 50_000
"""The delay from `go` to the first record, so that all workers start at the same time."""
_READ_BYTES: Final = 1 << 20
_ROOT: Final = str(Path(__file__).parents[2])


class WorkerFailed(UserError):
    """A worker ended before its work was done; the message is the reason in one line."""


class WaitForAnswers(NamedTuple):
    """A producer has sent everything, and this many records were not acknowledged then."""

    records: int
    since_us: int


class Worker:
    """One producer or consumer process, and all its reports so far."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.intervals: list[ClientInterval] = []
        self.is_ready = False
        self.is_done = False
        self.promised: dict[Place, Promised] = {}
        self.wait: WaitForAnswers | None = None
        """Set once a producer has sent its last record."""
        self.unsent = 0
        """Records that were due and never sent, because the producer could not keep up."""
        self.checks: dict[Place, SequenceCheck] = {}
        self.account = MemberAccount()
        """Used for a member of a group."""
        self._lines = LineBuffer()
        self._complaint = ""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        inherited = os.environ.get("PYTHONPATH")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cluster.loadtest.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": f"{_ROOT}:{inherited}" if inherited else _ROOT},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self.stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self._write(order_line(order))

    @property
    def name(self) -> str:
        return self.order.client_id

    @property
    def waited_s(self) -> float:
        """How long a producer waited for acknowledgments after its last record; 0 if it did not."""
        if self.wait is None or not self.intervals:
            return 0.0
        return max(0, self.intervals[-1].until_us - self.wait.since_us) / 1e6

    @property
    def is_producer(self) -> bool:
        return isinstance(self.order, ProducerOrder)

    @property
    def total(self) -> ClientInterval:
        """The sum of all intervals reported so far."""
        return total(self.intervals)

    def command(self, command: str, **document: Any) -> None:
        """Send a command. Does nothing if the process has ended; `listen` will report that."""
        self._write(line({"command": command, **document}))

    def listen(self) -> None:
        """Read new messages. Raises WorkerFailed if the process has ended too early."""
        try:
            received = os.read(self.stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            return
        for message in self._lines.feed(received):
            self._take(message)
        if not received and self.account.is_killed:
            self.is_done = True
        if not received and not self.is_done:
            raise WorkerFailed(f"{self.order.role} {self.name}: {self._last_words()}")

    def kill(self) -> None:
        """Kill the process, like a machine failure; its reports so far count."""
        self.account.is_killed = True
        self._process.kill()

    def close(self) -> None:
        """Kill the process if it still runs, and reap it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self.stdout, self._stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def _write(self, text: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(text)

    def _take(self, message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "ready":
                self.is_ready = True
            case "interval":
                self.intervals.append(ClientInterval.from_json(message))
            case "waits":
                self.wait = WaitForAnswers(message["records"], message["since_us"])
            case "done":
                self._take_outcome(message)
                self.is_done = True
            case "received" | "rebalance":
                self.account.take(message)
            case "failed":
                self._complaint = message["error"]

    def _take_outcome(self, message: Mapping[str, Any]) -> None:
        if isinstance(self.order, ProducerOrder):
            self.unsent = message["unsent"]
            for partition, sent, unsure in message["sent"]:
                self.promised[self.order.index, partition] = Promised(sent, tuple(unsure))
        else:
            self.account.commits = message.get("commits", 0)
            self.account.failed_commits = message.get("failed_commits", 0)
            for producer, partition, check in message["checks"]:
                self.checks[producer, partition] = SequenceCheck.from_json(check)

    def _last_words(self) -> str:
        if self._complaint:
            return self._complaint
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"ended with status {self._process.wait()}"


class WorkerGroup:
    """The workers of one run; a context manager that ends all of them."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()
        self._selector.close()

    def start(self, orders: Iterable[Order]) -> list[Worker]:
        """Start processes; returns when all of them wait for `go`. Raises WorkerFailed."""
        started = []
        for order in orders:
            worker = Worker(order)
            self.workers.append(worker)
            self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
            started.append(worker)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not all(worker.is_ready for worker in started):
            self.listen(0.1)
            if time.monotonic() > deadline:
                late = next(worker for worker in started if not worker.is_ready)
                raise WorkerFailed(f"{late.name} was not ready within {READY_TIMEOUT_S:g} s")
        return started

    def go(self, workers: Iterable[Worker]) -> int:
        """Start the workers together. Returns the start in microseconds (monotonic clock)."""
        start_us = now_us() + START_DELAY_US
        for worker in workers:
            worker.command("go", start_us=start_us)
        return start_us

    def listen(self, timeout_s: float) -> None:
        """Read the workers' messages, waiting up to `timeout_s`. Raises WorkerFailed."""
        for key, _ in self._selector.select(timeout_s):
            worker: Worker = key.data
            worker.listen()
            if worker.is_done:
                self._selector.unregister(worker.stdout)

    def stop(self, workers: Iterable[Worker]) -> None:
        """Make workers drop records in flight and report. Raises WorkerFailed after a timeout."""
        stopping = [worker for worker in workers if not worker.is_done]
        for worker in stopping:
            worker.command("stop")
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not all(worker.is_done for worker in stopping) and time.monotonic() < deadline:
            self.listen(0.1)


def now_us() -> int:
    """Monotonic time in microseconds, the same in all processes of this machine."""
    return time.monotonic_ns() // 1_000
