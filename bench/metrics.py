"""What metrics cost a saturated broker: its CPU time per request, counting and not counting.

    PYTHONPATH=. .venv/bin/python bench/metrics.py [--blocks N] [--requests N]

Two processes of the same program differ by some percent for no reason of their own, so one broker
does both: a signal, which only this benchmark's brokers know, switches its counting off and on, and
blocks of requests alternate. A saturated broker is one busy thread, so its throughput is one over
the CPU time per request: that is what the ratio compares. What is done once a second whether or not
anything was counted (rows, records of the topic) is measured on its own, on brokers without clients
with and without `milena.metrics.enable`. Also times single updates of the stats file.
"""

import argparse
import gc
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from cluster.brokers.dispatch.pipeline import Pipeline
from cluster.brokers.network.channel import Channel
from cluster.launch.options import StartOptions
from cluster.launch.start import start
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import MetricKind, QuotaRow
from cluster.metrics.stats_reader import read_stats
from cluster.records.builder import NewRecord, build_batch

TOPIC = "load"
IN_FLIGHT = 200


def main() -> None:
    """Run every measurement and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=300, help="pairs of blocks per size")
    parser.add_argument("--requests", type=int, default=1_000, help="requests per block")
    parser.add_argument("--idle-seconds", type=int, default=20, help="without clients, per broker")
    parser.add_argument("--start", nargs=2, metavar=("DIR", "METRICS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        sys.exit(start_switchable(Path(options.start[0]), options.start[1]))
    rows = single_updates()
    with broker("true") as state:
        for size_bytes, count in ((100, options.requests), (10_000, options.requests // 4)):
            rows += compared(state, size_bytes, options.blocks, count)
        idle_on = idle_share(state, options.idle_seconds)
    with broker("false") as state:
        idle_off = idle_share(state, options.idle_seconds)
    rows.append(
        (
            "CPU without clients, metrics on / off",
            f"{idle_on * 100:.2f} % / {idle_off * 100:.2f} % of a core",
        )
    )
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


def switchable(pipeline: Any) -> None:
    """Patch the class so that brokers forked later switch counting off and on at SIGUSR1."""
    initialise = pipeline.__init__

    def with_switch(self: Any, handlers: Any, services: Any, *others: Any) -> None:
        initialise(self, handlers, services, *others)
        spare = [None, services.data.counters]

        def switch(*_: object) -> None:
            spare.reverse()
            self._counters = spare[1]
            object.__setattr__(services.data, "counters", spare[1])
            for channel in [one for one in gc.get_objects() if isinstance(one, Channel)]:
                channel.routes.clear()  # they remember whether to count

        signal.signal(signal.SIGUSR1, switch)

    pipeline.__init__ = with_switch


@contextmanager
def broker(metrics: str) -> Iterator[dict[str, Any]]:
    """A cluster of one switchable broker with one topic; the broker as `status` describes it."""
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        data_dir = Path(directory) / "data"
        # In a process of its own, which the daemon is forked from.
        starting = [sys.executable, __file__, "--start", str(data_dir), metrics]
        subprocess.run(starting, check=True, stdout=subprocess.DEVNULL)
        command = [sys.executable, "-m", "cluster", "--data-dir", str(data_dir)]
        try:
            asked = subprocess.run([*command, "status", "--json"], check=True, capture_output=True)
            state: dict[str, Any] = json.loads(asked.stdout)
            topics = ["topics", "--create", "--topic", TOPIC, "--replication-factor", "1"]
            subprocess.run([*command, *topics], check=True, stdout=subprocess.DEVNULL)
            yield state["brokers"][0]
        finally:
            stop = [*command, "stop", "--purge"]
            subprocess.run(stop, check=False, stdout=subprocess.DEVNULL)


def start_switchable(data_dir: Path, metrics: str) -> int:
    """Start it in the background; the exit status."""
    switchable(Pipeline)
    options = StartOptions(
        data_dir,
        brokers=1,
        port=0,
        registry_port=0,
        overrides=(f"milena.metrics.enable={metrics}",),
        detach=True,
    )
    return start(options, time.monotonic_ns() // 1_000_000, print)


def compared(
    state: dict[str, Any], size_bytes: int, blocks: int, count: int
) -> list[tuple[str, str]]:
    """Rows about blocks of `count` requests in the order on, off, off, on."""
    frame = produce_frame(size_bytes)
    pairs = []
    with socket.create_connection((state["host"], state["port"])) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        load(connection, state["pid"], frame, 5 * count)
        for _ in range(blocks // 2):
            on_off = []
            for is_switched in (False, True, False, True):
                if is_switched:
                    os.kill(state["pid"], signal.SIGUSR1)
                    load(connection, state["pid"], frame, 10)
                on_off.append(load(connection, state["pid"], frame, count) / count * 1e6)
            pairs += [(on_off[0], on_off[1]), (on_off[3], on_off[2])]
    # Keep the faster half of the pairs: the others were disturbed by other work of the machine.
    kept = sorted(pairs, key=sum)[: max(4, len(pairs) // 2)]
    on, off = (statistics.mean(side) for side in zip(*kept, strict=True))
    error = statistics.stdev(on - off for on, off in kept) / len(kept) ** 0.5
    return [
        (f"{size_bytes}-byte produce: CPU per request, on / off", f"{on:.2f} / {off:.2f} us"),
        ("  counting costs", f"{on - off:.2f} us (standard error {error:.2f})"),
        ("  throughput on / off", f"{off / on:.4f} (standard error {error / on:.4f})"),
    ]


def load(connection: socket.socket, pid: int, frame: bytes, count: int) -> float:
    """The broker's CPU seconds for `count` pipelined requests."""
    connection.sendall(frame)
    answer = connection.recv(4096)
    error = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4)[0]
    if error:
        sys.exit(f"produce was answered with error {error}")
    before = cpu_seconds_of(pid)
    sent = received = 0
    while received < count * len(answer):
        if sent < count and sent - received // len(answer) < IN_FLIGHT:
            part = min(IN_FLIGHT // 4, count - sent)
            connection.sendall(frame * part)
            sent += part
        else:
            received += len(connection.recv(1 << 16))
    return cpu_seconds_of(pid) - before


def idle_share(state: dict[str, Any], seconds: int) -> float:
    """CPU seconds per second of a broker that gets no requests."""
    before = cpu_seconds_of(state["pid"])
    time.sleep(seconds)
    return (cpu_seconds_of(state["pid"]) - before) / seconds


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
        row = QuotaRow(
            quota="produce",
            user="ANONYMOUS",
            client_id="loader-1",
            rule="client",
            limit=1e6,
            rate=2e6,
        )
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
    """The shortest time of one call, in nanoseconds, of five runs."""
    return min(timeit.repeat(function, number=number, repeat=5)) / number * 1e9


if __name__ == "__main__":
    main()
