"""Start-up, memory, throughput and latency of a cluster of three brokers, in one run.

Needs the environment that `bin/cluster` makes on first use:
    PYTHONPATH=. .venv/bin/python bench/broker.py [--records N] [--requests N]
        [--throughput-only] [--codec lz4] [--record-bytes 1024] [--vary]

Prints one table. Rates depend on the machine, so each row that moves bytes also gives the broker's
CPU seconds per GB, to be read beside the plain copy of a GB into a file that the run begins with.
"""

import argparse
import json
import os
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.model.errors import UserError
from cluster.records.builder import NewRecord, build_batch

ROOT = Path(__file__).resolve().parent.parent
GB = 1e9


def main() -> None:
    """Run every measurement and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--records", type=int, default=1_000_000, help="1 KB records per producer run"
    )
    parser.add_argument(
        "--requests", type=int, default=20_000, help="produce requests per latency run"
    )
    parser.add_argument("--throughput-only", action="store_true", help="one replica, acks=1")
    parser.add_argument("--codec", default="none", help="of the producers; records halve then")
    parser.add_argument("--record-bytes", type=int, default=1024)
    parser.add_argument("--vary", action="store_true", help="records of half to 1.5 times as much")
    options = parser.parse_args()
    values = make_values(options.record_bytes, varies=options.vary, codec=options.codec)
    if options.throughput_only:
        with (
            tempfile.TemporaryDirectory(prefix="milena-bench-") as directory,
            running_cluster(Path(directory) / "data") as (state, _),
        ):
            for name, value in throughput(state, 1, "1", options.records, values, options.codec):
                print(f"{name}  {value}")
        return
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        data_dir = Path(directory) / "data"
        rows = [("plain copy of 1 GB into a new file", f"{plain_copy(Path(directory)):.2f} s")]
        with running_cluster(data_dir) as (state, seconds):
            rows.append(("three brokers ready, environment exists", f"{seconds:.2f} s"))
            rows.append(("memory of all processes together, idle (PSS)", f"{pss_mb(state):.0f} MB"))
            rows.append(
                ("CPU of all processes together, idle", f"{idle_cpu(state):.1f} % of a core")
            )
            for factor, acks in ((1, "1"), (3, "1"), (3, "all")):
                rows += throughput(state, factor, acks, options.records, values, options.codec)
            rows.append(("memory after the load (PSS)", f"{pss_mb(state):.0f} MB"))
            for factor, required_acks in ((1, 1), (3, 1), (3, -1)):
                rows += latency(state, factor, required_acks, options.requests)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")


@contextmanager
def running_cluster(data_dir: Path) -> Iterator[tuple[dict[str, Any], float]]:
    """A detached cluster on free ports: its `status --json` and the seconds its start took."""
    cluster = [str(ROOT / "bin" / "cluster")]
    where = ["--data-dir", str(data_dir)]
    subprocess.run([*cluster, "status", *where], capture_output=True, check=False)  # makes .venv
    began = time.monotonic()
    subprocess.run(
        [*cluster, "start", "--detach", "--port", "0", "--registry-port", "0", *where],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.monotonic() - began
    try:
        status = subprocess.run(
            [*cluster, "status", "--json", *where], check=True, capture_output=True
        )
        yield json.loads(status.stdout), seconds
    finally:
        subprocess.run(
            [*cluster, "stop", "--purge", *where], check=False, stdout=subprocess.DEVNULL
        )


def plain_copy(directory: Path) -> float:
    """Seconds to write 1 GB, a MiB at a time, into a new file: what the machine can do at all."""
    block = os.urandom(1 << 20)
    path = directory / "copy"
    began = time.monotonic()
    with path.open("wb", buffering=0) as file:
        for _ in range(int(GB) >> 20):
            file.write(block)
    seconds = time.monotonic() - began
    path.unlink()
    return seconds


def cluster_processes(state: dict[str, Any]) -> list[psutil.Process]:
    """Supervisor, registry and brokers."""
    broker = psutil.Process(state["brokers"][0]["pid"])
    supervisor = broker.parent() or broker
    return [supervisor, *supervisor.children(recursive=True)]


def pss_mb(state: dict[str, Any]) -> float:
    """Proportional set size of all processes: shared pages are counted once."""
    return float(sum(p.memory_full_info().pss for p in cluster_processes(state))) / 1e6


def idle_cpu(state: dict[str, Any], seconds: float = 20.0) -> float:
    """CPU use of all processes in percent of a core, by the kernel's run time of each thread."""
    time.sleep(5.0)  # processes that have just started are not idle yet
    began = {process: run_ns(process) for process in cluster_processes(state)}
    time.sleep(seconds)
    return sum(run_ns(process) - before for process, before in began.items()) / seconds / 1e7


def run_ns(process: psutil.Process) -> int:
    """The CPU time of all threads of a process, in nanoseconds."""
    total = 0
    for thread in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            total += int(thread.read_text().split()[0])
    return total


def create_topic(state: dict[str, Any], name: str, factor: int) -> tuple[str, int, int]:
    """Create a topic with one partition. Returns host, port and broker id of its leader."""
    admin = AdminClient({"bootstrap.servers": state["bootstrap"]})
    admin.create_topics([NewTopic(name, 1, factor)])[name].result()
    metadata = admin.list_topics(name, timeout=10)
    leader: Any = metadata.brokers[metadata.topics[name].partitions[0].leader]
    return leader.host, leader.port, leader.id


def make_values(record_bytes: int, *, varies: bool, codec: str) -> list[bytes]:
    """Random values; hexadecimal digits where they are to be compressed."""
    dice = random.Random(1)
    sizes = [record_bytes] * 100
    if varies:
        sizes = [dice.randrange(record_bytes // 2, record_bytes * 3 // 2) for _ in range(1000)]
    if codec == "none":
        return [dice.randbytes(size) for size in sizes]
    return [dice.randbytes(size // 2).hex().encode() for size in sizes]


def throughput(
    state: dict[str, Any],
    factor: int,
    acks: str,
    records: int,
    values: list[bytes],
    codec: str,
) -> list[tuple[str, str]]:
    """One librdkafka producer, as fast as it can."""
    name = f"throughput-{factor}-{acks}"
    leader = create_topic(state, name, factor)[2]
    pid = next(broker["pid"] for broker in state["brokers"] if broker["id"] == leader)
    process = psutil.Process(pid)
    before, own = process.cpu_times(), time.process_time()
    seconds = produce_large_batches(state["bootstrap"], name, acks, records, values, codec)
    own = time.process_time() - own
    after = process.cpu_times()
    gigabytes = records * sum(map(len, values)) / len(values) / GB
    user, system = after.user - before.user, after.system - before.system
    label = f"replication factor {factor}, acks={acks}"
    return [
        (f"librdkafka, {label}", f"{gigabytes * 1000 / seconds:.0f} MB/s"),
        (
            "  leader: CPU user + system per GB",
            f"{user / gigabytes:.2f} + {system / gigabytes:.2f} s",
        ),
        ("  leader busy / client busy", f"{(user + system) / seconds:.0%} / {own / seconds:.0%}"),
    ]


def produce_large_batches(
    bootstrap: str, topic: str, acks: str, records: int, values: Sequence[bytes], codec: str
) -> float:
    """Produce by librdkafka in batches of up to 1 MB. Returns the seconds until the last ack."""
    problems = []

    def on_delivery(error: Any, _: Any) -> None:
        if error is not None:
            problems.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": acks,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "compression.type": codec,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": on_delivery,
        }
    )
    began = time.monotonic()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % len(values)])
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    seconds = time.monotonic() - began
    if problems:
        raise UserError(f"librdkafka could not deliver {len(problems)} records: {problems[0]}")
    return seconds


def latency(state: dict[str, Any], factor: int, acks: int, requests: int) -> list[tuple[str, str]]:
    """One connection, one 100-byte record per request: unpipelined, then pipelined."""
    name = f"latency-{factor}-{acks}"
    host, port, _ = create_topic(state, name, factor)
    frame = produce_frame(name, acks)
    with socket.create_connection((host, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for _ in range(requests):
            began = time.perf_counter()
            connection.sendall(frame)
            answer = connection.recv(4096)
            times.append((time.perf_counter() - began) * 1e6)
        error = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(name) + 4 + 4)[0]
        if error:
            sys.exit(f"{name}: produce was answered with error {error}")
        cuts = statistics.quantiles(times, n=1000)
        batches, per_batch = max(1, requests // 200), 200
        began = time.monotonic()
        for _ in range(batches):
            connection.sendall(frame * per_batch)
            expected = per_batch * len(answer)
            while expected > 0:
                expected -= len(connection.recv(min(expected, 1 << 16)))
        rate = batches * per_batch / (time.monotonic() - began)
    label = f"replication factor {factor}, acks={'all' if acks == -1 else acks}"
    return [
        (
            f"100-byte produce, {label}: p50 / p99 / p99.9",
            f"{cuts[499]:.0f} / {cuts[989]:.0f} / {cuts[998]:.0f} us",
        ),
        ("  200 requests in flight on one connection", f"{rate:,.0f} requests/s"),
    ]


def produce_frame(
    topic: str, acks: int, partition: int = 0, values: Sequence[bytes] = (b"x" * 100,)
) -> bytes:
    """A Produce v7 request with a batch of records, by default one of 100 bytes."""
    now_ms = int(time.time() * 1000)
    batch = build_batch([NewRecord(value=value, timestamp_ms=now_ms) for value in values])
    name = topic.encode()
    body = struct.pack(">hhih5s", 0, 7, 1, 5, b"bench") + struct.pack(">hhii", -1, acks, 30_000, 1)
    body += struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


if __name__ == "__main__":
    main()
