"""Live progress of a load test on stderr: a table on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cluster.loadtest.client_interval import ClientInterval, total
from cluster.loadtest.load_run import Progress
from cluster.loadtest.result_text import MIB, catching_up_line, progress_line, wait_line
from cluster.loadtest.spawned_process import Worker
from cluster.model.printable import one_line
from cluster.runtime.text_table import rich_table
from cluster.tools.terminal import console

if TYPE_CHECKING:
    from rich.table import Table

_REFRESH_S: Final = 0.5
_LASTING_US: Final = 2_000_000
_CATCHING_UP_S: Final = 1.0
"""Consumers that need less after the last record are worth no line."""
_RECENT: Final = 2
"""The intervals of a second that the live table combines."""


@contextmanager
def display(reporting_interval_ms: int, *, is_silent: bool) -> Iterator[Progress]:
    """A function that shows the workers' progress; it may be called at any rate."""
    if is_silent:
        yield lambda _workers: None
    elif sys.stderr.isatty():
        with _live() as show:
            yield show
    else:
        yield _lines(reporting_interval_ms)


def _lines(reporting_interval_ms: int) -> Progress:
    begin = time.monotonic()
    shown: dict[str, int] = {}
    waits = _Waits(lambda text: print(text, file=sys.stderr, flush=True))
    catching_up = _CatchingUp(reporting_interval_ms)

    def show(workers: Sequence[Worker]) -> None:
        nonlocal begin
        waits.show(workers)
        if (text := catching_up.due_line(workers, time.monotonic())) is not None:
            print(text, file=sys.stderr, flush=True)
        if (time.monotonic() - begin) * 1_000 < reporting_interval_ms:
            return
        begin = time.monotonic()
        lately = ClientInterval(0)
        seconds = 0.0
        for number, worker in enumerate(one for one in workers if one.is_producer):
            key = f"{number} {worker.name}"
            recent = total(worker.intervals[shown.get(key, 0) :])
            shown[key] = len(worker.intervals)
            lately.add(recent)
            seconds = max(seconds, recent.seconds)
        if seconds:
            lately.from_us, lately.until_us = 0, int(seconds * 1e6)
            print(progress_line(lately), file=sys.stderr, flush=True)

    return show


class _CatchingUp:
    """Reports from time to time how far the consumers are after the last record was sent."""

    def __init__(self, reporting_interval_ms: int) -> None:
        self._interval_s = reporting_interval_ms / 1_000
        self._due_s: float | None = None

    def due_line(self, workers: Sequence[Worker], now_s: float) -> str | None:
        """The line; None while a wait is short, or the last line is recent."""
        text = catching_up_line(workers)
        if text is None:
            return None
        if self._due_s is None:
            self._due_s = now_s + _CATCHING_UP_S
        if now_s < self._due_s:
            return None
        self._due_s = now_s + self._interval_s
        return text


class _Waits:
    """Reports once for each producer that it waits for responses after its last record."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._reported: set[int] = set()

    def show(self, workers: Sequence[Worker]) -> None:
        """Only a lasting wait is worth a line."""
        now_us = time.monotonic_ns() // 1_000
        for number, worker in enumerate(workers):
            wait = worker.wait
            if wait is None or worker.is_done or number in self._reported:
                continue
            if now_us - wait.since_us >= _LASTING_US:
                self._reported.add(number)
                self._say(wait_line(worker))


@contextmanager
def _live() -> Iterator[Progress]:
    from rich.live import Live

    live = Live(
        console=console(is_stderr=True),
        auto_refresh=False,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # otherwise output for a pipe would go to the terminal
    )
    with live:
        due = 0.0
        waits = _Waits(lambda text: live.console.print(text, markup=False, highlight=False))

        def show(workers: Sequence[Worker]) -> None:
            nonlocal due
            waits.show(workers)
            if time.monotonic() >= due:
                due = time.monotonic() + _REFRESH_S
                live.update(_table(workers), refresh=True)

        yield show


def _table(workers: Sequence[Worker]) -> "Table":
    columns: list[tuple[str, Callable[[ClientInterval], str]]] = [
        ("RECORDS/s", lambda one: f"{one.records_per_s:.0f}"),
        ("MiB/s", lambda one: f"{one.bytes_per_s / MIB:.2f}"),
        ("P50 ms", lambda one: f"{one.latency.percentile_us(50) / 1e3:.1f}"),
        ("P99 ms", lambda one: f"{one.latency.percentile_us(99) / 1e3:.1f}"),
        ("THROTTLED ms", lambda one: f"{one.throttle_ms}"),
        ("FAILED", lambda one: f"{one.failed}"),
    ]
    amounts = [*(heading for heading, _ in columns), "RECORDS"]
    rows = []
    for worker in workers:
        recent = total(worker.intervals[-_RECENT:])
        records = sum(part.records for part in worker.intervals)
        rows.append([one_line(worker.name), *(show(recent) for _, show in columns), f"{records}"])
    table = rich_table(["CLIENT", *amounts], rows, right=amounts)
    table.caption = catching_up_line(workers)
    return table
