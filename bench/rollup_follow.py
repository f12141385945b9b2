"""Whether `rollup --follow` keeps up with many series of metric records, and what it takes.

    bin/test -- needs the development environment once; then:
    .venv/bin/python bench/rollup_follow.py [--series N] [--seconds N] [--interval 10s]

Starts a cluster of three brokers and the command, then produces a record of each series each
second, at that time. Prints each batch, how far the windows were behind at the end, how the time of
batches changed while the hour grew older, the processor seconds and the peak memory (PSS).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from confluent_kafka import Producer  # noqa: E402

from bench.rollup import SAMPLE_S, TOPIC, sample  # noqa: E402
from tests.support.metric_records import quota_record  # noqa: E402
from tests.support.running_cluster import Cluster  # noqa: E402

TICK_S = 0.1
PATIENCE_S = 120.0


def main() -> None:
    """Follow while records are produced; print a line for each batch and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=50_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--interval", default="10s")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="milena-bench-") as directory,
        Cluster(Path(directory) / "data") as cluster,
    ):
        create = ("topics", "--create", "--topic", TOPIC)
        cluster.command(*create, "--partitions", "3", "--replication-factor", "1")
        producing = Producing(cluster.bootstrap, options.series)
        producing.second()
        command = start(cluster.data_dir, options.interval)
        batches: list[dict[str, Any]] = []
        reading = threading.Thread(target=read_batches, args=(command, batches), daemon=True)
        reading.start()
        cpu: dict[int, float] = {}
        peaks: list[float] = []
        sampling = threading.Thread(target=watch, args=(command, cpu, peaks), daemon=True)
        sampling.start()
        wait_for(batches, 1)
        before = sum(cpu.values())
        began = time.monotonic()
        for number in range(options.seconds):
            producing.second()
            time.sleep(max(0.0, began + number + 1 - time.monotonic()))
        producing.end()
        produced_s = time.monotonic() - began
        wait_for(batches, options.series * (options.seconds + 1))
        caught_up_s = time.monotonic() - began
        used = sum(cpu.values()) - before
        merging = time.monotonic()
        command.terminate()
        command.wait(PATIENCE_S)
        merged_s = time.monotonic() - merging
    for each in batches:
        print(json.dumps(each))
    count = options.series * options.seconds
    print(f"{count / produced_s:,.0f} records/s produced, {count:,} in all")
    print(f"{caught_up_s - produced_s:.1f} s from the last record to the last window")
    for name, part in parts_of(batches):
        rate = sum(each["records"] for each in part) / max(0.001, sum(map(busy_s, part)))
        print(f"{name} third of the batches: {rate:,.0f} records per second of work")
    print(f"{used:.1f} processor seconds, {used / count * 1e6:.1f} us a record")
    print(f"{merged_s:.1f} s for the last merges and the end")
    print(f"{max(peaks):,.0f} MiB at most")


class Producing:
    """Writes a record of each series, again and again."""

    def __init__(self, bootstrap: str, series: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 1_000_000,
                "linger.ms": 20,
            }
        )
        self._texts = []
        for number in range(series):
            broker = number % 3
            record = quota_record(
                broker=broker, client_id=f"client-{number // 3}", ts=-1, rate=float(number)
            )
            before, after = json.dumps(record, separators=(",", ":")).split("-1", 1)
            self._texts.append((str(broker).encode(), before.encode(), after.encode()))

    def second(self) -> None:
        """Write the records of now."""
        now_ms = int(time.time() * 1000)
        now = b"%d" % now_ms
        for key, before, after in self._texts:
            self._producer.produce(TOPIC, before + now + after, key, timestamp=now_ms)
        self._producer.poll(0)

    def end(self) -> None:
        """Wait until all records are there."""
        assert self._producer.flush(PATIENCE_S) == 0


def parts_of(batches: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The batches that had records, but for the first, in three parts."""
    full = [each for each in batches[1:] if each["records"]]
    third = max(1, len(full) // 3)
    return [("first", full[:third]), ("last", full[-third:])]


def busy_s(batch: dict[str, Any]) -> float:
    """How long a batch was worked on."""
    return float(batch["work_seconds"])


def start(data_dir: Path, interval: str) -> "subprocess.Popen[str]":
    """The command."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster", "rollup", "--follow", "--json"),
            *("--data-dir", str(data_dir), "--topic", TOPIC, "--trigger-interval", interval),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_batches(command: "subprocess.Popen[str]", batches: list[dict[str, Any]]) -> None:
    """Collect what the command prints."""
    assert command.stdout is not None
    for line in command.stdout:
        batches.append(json.loads(line))  # noqa: PERF401  # seen by another thread one by one


def watch(command: "subprocess.Popen[str]", cpu: dict[int, float], peaks: list[float]) -> None:
    """Sample memory and processor time while the command runs."""
    while command.poll() is None:
        peaks.append(sample(command.pid, cpu))
        time.sleep(SAMPLE_S)


def wait_for(batches: list[dict[str, Any]], records: int) -> None:
    """Until so many records are in the windows."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(each["records"] for each in list(batches)) < records:
        assert time.monotonic() < deadline, "it does not keep up"
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
