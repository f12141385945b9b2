"""What counting costs a saturated broker: two brokers side by side, one with metrics switched off.

    .venv/bin/python bench/metrics.py [--pairs N] [--rounds N] [--requests N]

Rounds alternate between the two, so that the machine's moods hit both; several pairs are started,
since two processes of the same program differ by some percent for no reason of its own. A saturated
broker is one busy thread, so its throughput is one over the CPU time per request: that is what the
ratio compares. Also times single updates of the stats file.
"""

import argparse
import json
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import MetricKind, QuotaRow
from cluster.metrics.stats_reader import read_stats
from cluster.records.builder import NewRecord, build_batch

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "load"
IN_FLIGHT = 200


def main() -> None:
    """Run every measurement and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="pairs of brokers")
    parser.add_argument("--rounds", type=int, default=4, help="rounds per broker and size")
    parser.add_argument("--requests", type=int, default=20_000, help="requests per round")
    options = parser.parse_args()
    rows = single_updates()
    costs: dict[int, list[tuple[float, float]]] = {100: [], 10_000: []}
    for _ in range(options.pairs):
        with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory, ExitStack() as stack:
            brokers = {
                name: stack.enter_context(broker(Path(directory) / name, is_on))
                for name, is_on in (("on", "true"), ("off", "false"))
            }
            for size_bytes, pairs in costs.items():
                pairs.append(compare(brokers, size_bytes, options.rounds, options.requests))
    for size_bytes, pairs in costs.items():
        on, off = (statistics.mean(side) for side in zip(*pairs, strict=True))
        rows += [
            (f"{size_bytes}-byte produce: CPU per request, on / off", f"{on:.2f} / {off:.2f} us"),
            ("  throughput on / off: ratio of the means", f"{off / on:.4f}"),
            ("  ratio of each pair", " ".join(f"{off / on:.3f}" for on, off in pairs)),
        ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


@contextmanager
def broker(data_dir: Path, metrics: str) -> Iterator[dict[str, Any]]:
    """A cluster of one broker; `status --json` with its broker."""
    cluster = [sys.executable, "-m", "cluster", "--data-dir", str(data_dir)]
    start = ["start", "--detach", "--brokers", "1", "--port", "0", "--registry-port", "0"]
    override = ["--override", f"milena.metrics.enable={metrics}"]
    subprocess.run([*cluster, *start, *override], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        status = subprocess.run(
            [*cluster, "status", "--json"], check=True, cwd=ROOT, capture_output=True
        )
        state: dict[str, Any] = json.loads(status.stdout)
        admin = AdminClient({"bootstrap.servers": state["bootstrap"]})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        yield state["brokers"][0]
    finally:
        subprocess.run(
            [*cluster, "stop", "--purge"], check=False, cwd=ROOT, stdout=subprocess.DEVNULL
        )


def compare(
    brokers: dict[str, dict[str, Any]], size_bytes: int, rounds: int, requests: int
) -> tuple[float, float]:
    """CPU microseconds per request of both: medians over the rounds."""
    frame = produce_frame(size_bytes)
    count = requests if size_bytes < 1000 else requests // 4
    cpu: dict[str, list[float]] = {name: [] for name in brokers}
    for number in range(rounds + 1):
        # The first round warms up; the order changes each time.
        for name in sorted(brokers, reverse=bool(number % 2)):
            cpu_seconds = load(brokers[name], frame, count)
            if number:
                cpu[name].append(cpu_seconds / count * 1e6)
    return statistics.median(cpu["on"]), statistics.median(cpu["off"])


def load(of: dict[str, Any], frame: bytes, count: int) -> float:
    """The broker's CPU seconds for `count` pipelined requests."""
    with socket.create_connection((of["host"], of["port"])) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(frame)
        answer = connection.recv(4096)
        error = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4)[0]
        if error:
            sys.exit(f"produce was answered with error {error}")
        before = cpu_seconds_of(of["pid"])
        sent = received = 0
        while received < count * len(answer):
            if sent < count and sent - received // len(answer) < IN_FLIGHT:
                part = min(IN_FLIGHT // 4, count - sent)
                connection.sendall(frame * part)
                sent += part
            else:
                received += len(connection.recv(1 << 16))
        return cpu_seconds_of(of["pid"]) - before


def cpu_seconds_of(pid: int) -> float:
    """CPU time of all threads: to the nanosecond on Linux, else as good as psutil's."""
    try:
        tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    except OSError:
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)


def produce_frame(size_bytes: int) -> bytes:
    """A Produce v7 request, acks=1, with one record."""
    batch = build_batch([NewRecord(b"x" * size_bytes, timestamp_ms=int(time.time() * 1000))])
    body = struct.pack(">hhih5s", 0, 7, 1, 5, b"bench") + struct.pack(">hhii", -1, 1, 30_000, 1)
    body += struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


def single_updates() -> list[tuple[str, str]]:
    """Nanoseconds of one update, and of one read of a whole file."""
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        path = Path(directory) / "stats"
        stats = MmapStats.create(path, "bench", 0)
        counts, slot = stats.counts, stats.slot("counter", MetricKind.COUNTER)
        row = QuotaRow("produce", "ANONYMOUS", "loader-1", "client", 1e6, rate=2e6)
        for index in range(100):
            stats.write_row(index, row)

        def count(counts: memoryview = counts, slot: int = slot) -> None:
            counts[slot] += 1

        return [
            ("one counter", f"{nanoseconds(count, 1_000_000):.0f} ns"),
            ("one quota row", f"{nanoseconds(lambda: stats.write_row(7, row), 100_000):.0f} ns"),
            (
                "reading a file with 100 rows",
                f"{nanoseconds(lambda: read_stats(path), 200) / 1e6:.2f} ms",
            ),
        ]


def nanoseconds(function: Any, number: int) -> float:
    """The best of five."""
    return min(timeit.repeat(function, number=number, repeat=5)) / number * 1e9


if __name__ == "__main__":
    main()
