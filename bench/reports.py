"""Seconds and memory of reports over windows of many client ids.

    bin/test -- needs the development environment once; then:
    .venv/bin/python bench/reports.py [--clients N] [--directory DIR]

Writes a directory through the API that the rollup uses: an hour in which each client has a metric
record a minute, and one for each 10 s in the last five minutes. Then runs reports over it as a
person would. Memory is the highest resident set of the command.
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

import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cluster.analytics.windows import histogram  # noqa: E402
from cluster.analytics.windows.deltas import PieceResult, write_delta  # noqa: E402
from cluster.analytics.windows.directory import WindowDirectory  # noqa: E402
from cluster.analytics.windows.kinds import QUOTA, SUMS_SCHEMA, TIMESTAMP  # noqa: E402
from cluster.analytics.windows.layout import delta_path  # noqa: E402
from cluster.analytics.windows.manifest import Progress  # noqa: E402
from cluster.analytics.windows.merge import run_merge  # noqa: E402
from cluster.analytics.windows.store import LocalStore  # noqa: E402

START_S = int(datetime(2026, 1, 5, 10, tzinfo=UTC).timestamp())
LIMIT = 1e6
GOAL_S = 3.0
LAST_MINUTES = 5


class Run(NamedTuple):
    """One run of a command."""

    seconds: float
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
            write_windows(place, options.clients)
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
            print(f"{name:32} {found.seconds:6.2f} s  {found.peak_mib:6,.0f} MiB")


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
    return Run(time.monotonic() - begun, used.ru_maxrss / 1024)


def write_windows(place: Path, clients: int) -> None:
    """The windows of so many clients, merged hour by hour."""
    minutes = [minute * 60 for minute in range(60)]
    last = [s for s in range(3600 - 60 * LAST_MINUTES, 3600, 10) if s % 60]
    ids = pa.array([f"client-{number:06}" for number in range(clients)])
    with WindowDirectory.open(LocalStore(place)) as directory:
        starts = sorted([*minutes, *last])
        for first in range(0, len(starts), 10):
            tables = [sums_of(ids, START_S + start) for start in starts[first : first + 10]]
            path = delta_path(directory.next_change, "0")
            delta = write_delta(directory.store, path, {QUOTA.name: pa.concat_tables(tables)})
            assert delta is not None
            progress = Progress("bench", "topic", {0: first + 10}, "cluster")
            directory.append([PieceResult([delta], {}, {})], progress)
        directory.merge(
            lambda tasks: [run_merge(str(place), task) for task in tasks], everything=True
        )


def sums_of(ids: pa.Array, start_s: int) -> pa.Table:
    """A narrowest window of each client, of one metric record."""
    count = len(ids)
    schema = pa.schema([SUMS_SCHEMA.field(name) for name in QUOTA.sum_names])
    rates = pc.multiply(pc.random(count), 2 * LIMIT)
    is_over = pc.greater(rates, LIMIT * 1.8)
    throttle_ms = pc.if_else(is_over, pc.subtract(rates, LIMIT * 1.8), 0.0)
    exact = SUMS_SCHEMA.field("usage_exact").type
    over = pc.cast(is_over, pa.int64())
    columns = {
        "window_start": constant(start_s * 1_000_000, pa.int64(), count).cast(TIMESTAMP),
        "broker": pa.array([number % 3 for number in range(count)], pa.int32()),
        "user": constant("ANONYMOUS", pa.string(), count),
        "client_id": ids,
        "quota": constant("produce", pa.string(), count),
        "rule": constant("default-client", pa.string(), count),
        "limit": constant(LIMIT, pa.float64(), count),
        "usage_exact": pc.cast(pc.round(rates, 3), exact, safe=False),
        "throttle_ms_exact": pc.cast(pc.round(throttle_ms, 3), exact, safe=False),
        "muted_ms_exact": pc.cast(pc.round(throttle_ms, 3), exact, safe=False),
        "rate_max": rates,
        "throttle_ms_max": throttle_ms,
        "requests": constant(20, pa.int64(), count),
        "throttled": over,
        "seconds_over_limit": over,
        "seconds_throttled": over,
        "records": constant(1, pa.int64(), count),
        "histogram": histogram.singles(histogram.rate_codes(pa.chunked_array([rates]))),
    }
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def constant(value: object, kind: pa.DataType, count: int) -> pa.Array:
    """The value so many times."""
    return pa.repeat(pa.scalar(value, kind), count)


if __name__ == "__main__":
    main()
