"""Live views in small terminals: no line is broken, and what matters most stays."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from cluster.datadir.paths import DataDir
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs, WallMs
from tests.support.waiting import DEADLINE_S, is_readable, wait_until

ROOT = Path(__file__).parents[2]
NAMES = (
    "plain",
    "<b>[bold]html[/bold]</b> \"'&",
    "two\nlines\x1b[2J",
    "wide 中文字 😀",
    "long-" + "x" * 10_000,
)
CLIENTS = 1_000
"""More than any terminal has lines, and fewer than a broker has rows for."""


@contextlib.contextmanager
def written_stats(files: DataDir) -> Iterator[None]:
    """The file of a broker that is alive: this process, which keeps the time in it."""
    files.run.mkdir(parents=True)
    stats = MmapStats.create(files.run / "broker-0.stats", "broker-0", 0, groups_bytes=0)
    for number in range(CLIENTS):
        name = NAMES[number] if number < len(NAMES) else f"client-{number}"
        stats.write_row(
            number,
            QuotaRow(
                quota="produce",
                user="somebody-with-a-name",
                client_id=name,
                rule="user+client",
                limit=1_048_576.0,
                rate=900_000.0 - number,
                delay_ms=1_234,
                requests=5,
                active_ms=time.monotonic_ns() // 10**6,
            ),
        )
    is_over = threading.Event()

    def keep_time() -> None:
        while True:
            now_ns = time.monotonic_ns()
            stats.write_time(WallMs(time.time_ns() // 10**6), MonotonicMs(now_ns // 10**6))
            if is_over.wait(0.1):
                return

    keeper = threading.Thread(target=keep_time)
    keeper.start()
    try:
        yield
    finally:
        is_over.set()
        keeper.join()


def frames(files: DataDir, columns: int, lines: int) -> list[list[str]]:
    """The lines of what `quotas watch` draws in a terminal of that size: each time."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "cluster", "quotas", "watch", "--data-dir", files.path],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""},
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    ) as process:
        os.close(child)
        seen = b""
        try:
            while seen.count(b"q: quit") < 2:
                assert is_readable(parent, DEADLINE_S), seen
                seen += os.read(parent, 65_536)
            os.write(parent, b"q")
            wait_until(lambda: ended(process, parent), "its end")
        finally:
            process.kill()
            os.close(parent)
    # Each picture begins at the upper left corner.
    _, *pictures = seen.decode("utf-8", "replace").split("\x1b[H")
    texts = [re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", each) for each in pictures]
    return [text.replace("\r", "").split("\n") for text in texts if "q: quit" in text]


def ended(process: "subprocess.Popen[bytes]", terminal: int) -> bool:
    """Whether it has, while what it still writes is read."""
    if is_readable(terminal, 0):
        with contextlib.suppress(OSError):  # the other end is closed
            os.read(terminal, 65_536)
    return process.poll() == 0


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 12), (200, 50)])
def test_the_live_table_fits_the_terminal(tmp_path: Path, columns: int, lines: int) -> None:
    files = DataDir(tmp_path)
    with written_stats(files):
        first, *_ = frames(files, columns, lines)
    assert len(first) <= lines
    assert {cell_len(line) for line in first} <= {columns}
    title, empty, headings, *rows = [line.rstrip() for line in first]
    assert title.endswith("1 of 1 brokers alive")
    assert empty == ""
    assert {"CLIENT-ID", "QUOTA", "RATE", "USED"} <= set(headings.split())
    assert ("RULE" in headings, "LIMIT" in headings) == (columns > 100, columns > 40)
    assert all("produce" in row and "KiB/s" in row for row in rows[:-3])
    assert rows[0].lstrip().removeprefix("somebody-with-a-name").split()[0] == "plain"
    assert "two\\nlines" in rows[2] or "two\\nli…" in rows[2]
    shown = len(rows) - 3
    assert rows[-3] == f"... and {CLIENTS - shown} more: quotas watch --once"
    assert rows[-1].startswith("q: quit")
