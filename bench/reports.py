"""Seconds and memory of reports over windows of many client ids.

    bin/test -- needs the development environment once; then:
    .venv/bin/python bench/reports.py [--clients N] [--directory DIR]

Writes a directory through the API that the rollup uses: an hour in which each client has a metric
record a minute, and one for each 10 s in the last five minutes. Then runs reports over it as a
person would. Memory is the highest resident set of the command; the processor seconds tell what
the wall clock would be on a machine that does nothing else.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.many_clients import write_windows  # noqa: E402

START_S = int(datetime(2026, 1, 5, 10, tzinfo=UTC).timestamp())
GOAL_S = 3.0
LAST_MINUTES = 5


class Run(NamedTuple):
    """One run of a command."""

    seconds: float
    cpu_seconds: float
    peak_mib: float


def main() -> None:
    """Write the directory, run the reports, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=100_000)
    parser.add_argument("--directory", type=Path, help="use it if it is there, else keep it there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as temporary:
        place = options.directory or Path(temporary) / "windows"
        if not place.exists():
            begun = time.monotonic()
            minutes = {minute * 60 for minute in range(60)}
            last = set(range(3600 - 60 * LAST_MINUTES, 3600, 10))
            write_windows(place, options.clients, START_S, sorted(minutes | last))
            print(f"windows written in {time.monotonic() - begun:.0f} s")
        print(f"{options.clients:,} client ids (goal for a table: {GOAL_S:g} s)\n")
        page = str(Path(temporary) / "page.html")
        for name, words in (
            ("10 s windows of 5 minutes", ("--last", "5m", "--width", "10s")),
            ("1 m windows of an hour", ("--width", "1m")),
            ("1 m windows, one client", ("--width", "1m", "--client-id", "client-000007")),
            ("1 m windows, page", ("--width", "1m", "--html", page)),
            ("1 m windows, --json of all", ("--width", "1m", "--json")),
        ):
            found = run(place, words)
            print(
                f"{name:32} {found.seconds:6.2f} s  {found.cpu_seconds:6.2f} s of processors"
                f"  {found.peak_mib:6,.0f} MiB"
            )


def run(place: Path, words: Sequence[str]) -> Run:
    """Run `quotas report`, its output thrown away."""
    command = [sys.executable, "-P", "-m", "cluster", "quotas", "report", "--rollup", str(place)]
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, *words], stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    seconds = time.monotonic() - begun
    return Run(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
