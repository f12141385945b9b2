"""Whether `rollup --follow` keeps up with a rate of metric records, and what memory it takes.

    bin/test -- needs the development environment once; then:
    .venv/bin/python bench/rollup_follow.py [--rate N] [--seconds N] [--clients N]

Starts a cluster of three brokers and the command, then produces generated records at an even rate.
Of few clients these are of hours, written faster than they pass; with `--clients 2800` a second's
records come each second, from so many clients that 20,000 records a second are theirs. Prints how
far the windows were behind after each batch, the processor seconds and the peak memory (PSS).
"""

import argparse
import itertools
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
from tests.support.metric_records import generated_records  # noqa: E402
from tests.support.running_cluster import Cluster  # noqa: E402

TICK_S = 0.1
PATIENCE_S = 120.0


def main() -> None:
    """Follow while records are produced; print a line for each batch and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=20_000, help="records a second")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--interval", default="5s")
    options = parser.parse_args()
    count = options.rate * options.seconds
    generated = generated_records(1, seconds=count, clients=options.clients)
    values = [
        (str(each["broker"]), json.dumps(each).encode())
        for each in itertools.islice(generated, count)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="milena-bench-") as directory,
        Cluster(Path(directory) / "data") as cluster,
    ):
        create = ("topics", "--create", "--topic", TOPIC)
        cluster.command(*create, "--partitions", "3", "--replication-factor", "1")
        produce_evenly(cluster.bootstrap, values[:1], options.rate)
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
        produce_evenly(cluster.bootstrap, values[1:], options.rate)
        produced_s = time.monotonic() - began
        wait_for(batches, count)
        caught_up_s = time.monotonic() - began
        used = sum(cpu.values()) - before
        command.terminate()
        command.wait(PATIENCE_S)
    for each in batches:
        print(json.dumps(each))
    print(f"{count / produced_s:,.0f} records/s produced, {count:,} in all")
    print(f"{caught_up_s - produced_s:.1f} s from the last record to the last window")
    print(f"{used:.1f} processor seconds, {used / count * 1e6:.1f} us a record")
    print(f"{max(peaks):,.0f} MiB at most")


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


def produce_evenly(bootstrap: str, values: list[tuple[str, bytes]], rate: int) -> None:
    """Write the values at a rate a second, or as fast as this process can."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    began = time.monotonic()
    size = max(1, int(rate * TICK_S))
    for number, at in enumerate(range(0, len(values), size)):
        for key, value in values[at : at + size]:
            producer.produce(TOPIC, value, key)
        producer.poll(0)
        time.sleep(max(0.0, began + (number + 1) * TICK_S - time.monotonic()))
    assert producer.flush(PATIENCE_S) == 0


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
