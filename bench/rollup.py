"""Seconds and memory of `rollup` over a topic of metric records, Spark's start included.

    bin/test -- needs the development environment once; then:
    .venv/bin/python bench/rollup.py [--records N] [--partitions N] [--engine auto|spark|local]
        [--workers N]

Starts a cluster of three brokers, produces generated records, then runs the command twice, as a
person would, the second time for a tenth more records that have come. Memory is the sum of
proportional set sizes of the command, the JVM and Spark's Python workers, sampled. The processor
seconds tell what the wall clock would be on a machine that does nothing else. With `--workers N`
a standalone Spark master with so many workers of one processor each, started here, does the work;
their memory and processor seconds are not counted.
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.metric_records import generated_records, produce  # noqa: E402
from tests.support.running_cluster import Cluster  # noqa: E402
from tests.support.spark_cluster import spark_cluster  # noqa: E402

TOPIC = "bench-metrics"
SAMPLE_S = 0.25
MIB = 1 << 20
GOAL_S = 45
GOAL_MIB = 1536
"""Of 10,000,000 records, on two processors."""


class Run(NamedTuple):
    """One run of the command."""

    seconds: float
    cpu_seconds: float
    pss_mib: float
    summary: dict[str, Any]


def main() -> None:
    """Produce and run, twice; print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="milena-bench-") as directory,
        Cluster(Path(directory) / "data") as cluster,
        contextlib.ExitStack() as running,
    ):
        how = ["--engine", options.engine]
        if options.workers:
            master = running.enter_context(spark_cluster(Path(directory), options.workers))
            how = ["--master", master]
        cluster.command(
            *("topics", "--create", "--topic", TOPIC, "--config", "retention.ms=-1"),
            *("--partitions", str(options.partitions), "--replication-factor", "1"),
        )
        made = generated_records(1, seconds=options.records, clients=20)
        runs = []
        for count in (options.records, options.records // 10):
            produce(cluster.bootstrap, TOPIC, itertools.islice(made, count))
            runs.append(run(cluster.data_dir, how))
    print(f"{'':<28}{'first run':>14}{'second run':>14}{'goal':>10}")
    for name, cells in rows(runs):
        print(f"{name:<28}" + "".join(f"{cell:>14}" for cell in cells[:2]) + f"{cells[2]:>10}")


def run(data_dir: Path, how: list[str]) -> Run:
    """Run the command. Returns its times, peak memory and summary."""
    began = time.monotonic()
    command = subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster", "rollup"),
            *("--data-dir", data_dir, "--topic", TOPIC, "--json", *how),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    peak = 0.0
    cpu: dict[int, float] = {}
    while command.poll() is None:
        peak = max(peak, sample(command.pid, cpu))
        time.sleep(SAMPLE_S)
    seconds = time.monotonic() - began
    assert command.stdout is not None
    output = command.stdout.read()
    assert command.returncode == 0, output
    return Run(seconds, sum(cpu.values()), peak, json.loads(output))


def sample(pid: int, cpu: dict[int, float]) -> float:
    """The MiB of a process and its descendants; stores the CPU seconds of each in `cpu`."""
    total = 0
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    for process in tree:
        try:
            total += process.memory_full_info().pss
            times = process.cpu_times()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        cpu[process.pid] = times.user + times.system
    return total / MIB


def rows(runs: list[Run]) -> Iterator[tuple[str, list[str]]]:
    """The rows of the table: a label, and the value of each run."""
    yield "by", [each.summary["engine"] for each in runs] + [""]
    yield "records", [f"{each.summary['records']:,}" for each in runs] + [""]
    yield "windows of 10 s", [f"{each.summary['windows']['10s']:,}" for each in runs] + [""]
    yield "windows of 1 min", [f"{each.summary['windows']['1m']:,}" for each in runs] + [""]
    yield "windows of 1 d", [f"{each.summary['windows']['1d']:,}" for each in runs] + [""]
    yield "windows of 1 h", [f"{each.summary['windows']['1h']:,}" for each in runs] + [""]
    yield "seconds, all in all", [f"{each.seconds:.1f}" for each in runs] + [f"< {GOAL_S}"]
    yield "processor seconds", [f"{each.cpu_seconds:.1f}" for each in runs] + [""]
    yield "peak memory (PSS), MiB", [f"{each.pss_mib:,.0f}" for each in runs] + [f"< {GOAL_MIB}"]


if __name__ == "__main__":
    main()
