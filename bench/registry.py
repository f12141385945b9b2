"""How fast the built-in registry is, compared with ZooKeeper if that is installed.

    python -m bench.registry [--seconds 5] [--clients 8]

Columns: creates and reads per second of pipelined kazoo clients, each in a process of its own; the
fsyncs that the disk itself does; memory; and the longest wait of one pinging client while 10,000
znodes are made, 1,000 sessions live and 5,000 watches go off. Nothing here passes or fails: numbers
of one run compare with each other, not with those of another machine.
"""

import argparse
import multiprocessing
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
from kazoo.client import KazooClient

from tests.compat import zookeeper_wire as z
from tests.compat.zookeeper_server import ZooKeeperProcess, is_installed
from tests.integration.registry_process import RegistryProcess

PIPELINE = 100
ZNODES, SESSIONS, WATCHES = 10_000, 1_000, 5_000


class Pause(NamedTuple):
    """The waits of one pinging client, in ms."""

    longest_ms: float
    median_ms: float


def fsyncs_per_second(directory: Path, seconds: float) -> float:
    """How many small appends, each with an fdatasync, the disk does per second."""
    descriptor = os.open(directory / "probe", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        os.write(descriptor, b"x" * 200)
        os.fdatasync(descriptor)
        count += 1
    os.close(descriptor)
    return count / (time.perf_counter() - began)


def _work(
    port: int, kind: str, number: int, seconds: float, results: "multiprocessing.Queue[int]"
) -> None:
    client = KazooClient(f"127.0.0.1:{port}")
    client.start()
    path = f"/bench-{kind}-{number}"
    client.create(path, b"x" * 100)
    pending: deque[object] = deque()
    done = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        while len(pending) < PIPELINE:
            if kind == "create":
                pending.append(client.create_async(f"{path}/n{done + len(pending)}", b"x" * 100))
            else:
                pending.append(client.get_async(path))
        pending.popleft().get()  # type: ignore[attr-defined]
        done += 1
    results.put(done)
    client.stop()


def per_second(port: int, kind: str, clients: int, seconds: float) -> float:
    """Operations per second of all clients together."""
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    workers = [
        context.Process(target=_work, args=(port, kind, number, seconds, results))
        for number in range(clients)
    ]
    for worker in workers:
        worker.start()
    total = sum(results.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total / seconds


def longest_wait(port: int) -> Pause:
    """The waits of a pinging client while others create many znodes, sessions and watches."""
    waits: list[float] = []
    stop = threading.Event()
    prober = z.WireClient(port)
    prober.connect(timeout_ms=40_000)

    def probe() -> None:
        while not stop.is_set():
            began = time.perf_counter()
            prober.call(z.PING)
            waits.append((time.perf_counter() - began) * 1000)
            time.sleep(0.001)

    sessions = [z.WireClient(port) for _ in range(SESSIONS)]
    for session in sessions:
        session.connect(timeout_ms=40_000)
    thread = threading.Thread(target=probe)
    thread.start()
    writer = sessions[0]
    writer.call(z.CREATE, z.create("/many"))
    _pipelined(writer, z.CREATE, ZNODES, lambda n: z.create(f"/many/n{n}", b"x" * 100))
    for number, session in enumerate(sessions):
        for step in range(WATCHES // SESSIONS):
            path = f"/many/n{(number * 7 + step * 1_777) % ZNODES}"
            session.call(z.GET_DATA, z.watchable(path, watch=True))
    _pipelined(writer, z.SET_DATA, ZNODES, lambda n: z.set_data(f"/many/n{n}", b"y"))
    stop.set()
    thread.join()
    for session in (*sessions, prober):
        session.drop()
    ordered = sorted(waits)
    return Pause(ordered[-1], ordered[len(ordered) // 2])


def _pipelined(
    client: z.WireClient, operation: int, count: int, record: Callable[[int], bytes]
) -> None:
    sent = done = 0
    while done < count:
        while sent < count and sent - done < PIPELINE:
            client.send(operation, record(sent))
            sent += 1
        if client.receive(0) is not None:
            done += 1


def measure(name: str, port: int, pid: int, clients: int, seconds: float) -> None:
    """One row of the table."""
    process = psutil.Process(pid)
    idle_mib = process.memory_info().rss / 2**20
    pause = longest_wait(port)
    full_mib = process.memory_info().rss / 2**20
    creates = per_second(port, "create", clients, seconds)
    reads = per_second(port, "get", clients, seconds)
    print(
        f"{name:<12}{creates:>11.0f}{reads:>11.0f}{idle_mib:>11.0f}{full_mib:>11.0f}"
        f"{pause.median_ms:>12.2f}{pause.longest_ms:>12.1f}",
        flush=True,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--clients", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        print(f"the disk: {fsyncs_per_second(directory, 1.0):.0f} fsyncs/s, one after the other")
        print(
            f"{'':<12}{'creates/s':>11}{'reads/s':>11}{'MiB idle':>11}{'MiB full':>11}"
            f"{'ping ms':>12}{'longest ms':>12}"
        )
        with RegistryProcess(directory / "registry", tick_time_ms=2_000) as registry:
            measure("built-in", registry.port, registry.pid, chosen.clients, chosen.seconds)
        if is_installed():
            with ZooKeeperProcess(
                directory / "zookeeper", tick_time_ms=2_000, heap_mib=512
            ) as zookeeper:
                measure("ZooKeeper", zookeeper.port, zookeeper.pid, chosen.clients, chosen.seconds)


if __name__ == "__main__":
    main()
