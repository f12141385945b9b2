"""What muted channels cost a broker and its other clients: `python -m bench.muted`.

    PYTHONPATH=. .venv/bin/python -m bench.muted [--channels 10000] [--seconds 5]

One broker. Many connections of one client send a request each, and the next one as soon as they
are answered, whatever throttle time they are told. Printed are the broker's processor time while
all are muted beside that of as many idle connections; how late each is let go after its throttle
time; how long it takes to let all go when the limit is lifted; and, all that time, how long a
neighbour without a limit waits for its answers. Then the neighbour of a client that is held to its
limit over some connections, in turns with no other client at all.
"""

import argparse
import resource
import select
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from bench.broker import produce_frame
from cluster.model.quotas import QuotaEntity
from tests.support.client_quotas import KIB, NamedClient, batch, set_quota
from tests.support.kafka_wire import frame_of, produce_request
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import create_topic

CLIENT: Final = QuotaEntity(None, "bench")
"""That of `produce_frame`."""
TINY: Final = 1_000.0
LASTING_S: Final = 15.0
"""The last of the connections is let go after so long."""
NOISY_LIMIT: Final = 4e6
_SIZE: Final = struct.Struct(">i")


class Crowd:
    """Connections that ask again as soon as they are answered."""

    def __init__(self, address: Address, count: int, frame: bytes) -> None:
        self._frame = frame
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        for _ in range(count):
            connection = socket.create_connection(address, 30)
            connection.setblocking(False)
            self._sockets[connection.fileno()] = connection
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def ask(self) -> None:
        """Send a request on every connection."""
        for connection in self._sockets.values():
            connection.send(self._frame)

    def ask_in_turn(self) -> dict[int, tuple[float, int]]:
        """One after the other, so that none waits for the others' answers; what `answers` tells.

        Each has asked again.
        """
        found = {}
        for number, connection in self._sockets.items():
            connection.setblocking(True)
            connection.send(self._frame)
            data = connection.recv(4 * KIB)
            found[number] = (time.monotonic(), _SIZE.unpack_from(data, len(data) - 4)[0])
            connection.send(self._frame)
            connection.setblocking(False)
        return found

    def answers(
        self, count: int, then: Callable[[socket.socket], object]
    ) -> dict[int, tuple[float, int]]:
        """Wait for so many; when each connection's came and the throttle time (ms) that it told."""
        found: dict[int, tuple[float, int]] = {}
        while len(found) < count:
            for number, _ in self._poll.poll(120):
                data = self._sockets[number].recv(4 * KIB)
                if len(data) < 8 or len(data) != 4 + _SIZE.unpack_from(data)[0]:
                    raise SystemExit("an answer has not come whole")
                found[number] = (time.monotonic(), _SIZE.unpack_from(data, len(data) - 4)[0])
                then(self._sockets[number])
        return found

    def ask_again(self, connection: socket.socket) -> None:
        connection.send(self._frame)

    def close(self) -> None:
        for connection in self._sockets.values():
            connection.close()
        self._poll.close()


def main() -> None:
    """Print what was measured, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, default=10_000)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 20, 50])
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), brokers=1) as cluster:
        topic = create_topic(cluster, replication_factor=1)
        crowd(cluster, topic, chosen.channels, chosen.seconds)
        for connections in chosen.connections:
            noisy(cluster, topic, connections, chosen.seconds)


# -- many muted connections ------------------------------------------------------------------------


def crowd(cluster: Cluster, topic: str, channels: int, seconds: float) -> None:
    frame = produce_frame(topic, 1)
    with neighbour(cluster.addresses[0], topic) as alone:
        time.sleep(seconds)
    people = Crowd(cluster.addresses[0], channels, frame)
    idle = busy(cluster, seconds)
    set_quota(cluster, CLIENT, producer_byte_rate=TINY)
    people.ask()
    people.answers(channels, people.ask_again)
    muted = busy(cluster, seconds)
    print(f"{channels} channels: {idle:.2%} of a processor while idle, {muted:.2%} while muted")
    with neighbour(cluster.addresses[0], topic) as meanwhile:
        time.sleep(seconds)
    with neighbour(cluster.addresses[0], topic) as lifted:
        set_quota(cluster, CLIENT, producer_byte_rate=None)
        began = time.monotonic()
        people.answers(channels, lambda _: None)
        print(f"all let go when the limit is lifted: {time.monotonic() - began:.2f} s")
    used = channels * len(frame)
    set_quota(cluster, CLIENT, producer_byte_rate=used / LASTING_S)
    first = people.ask_in_turn()
    listening = time.monotonic()
    with neighbour(cluster.addresses[0], topic) as going:
        second = people.answers(channels, lambda _: None)
    late = [
        (second[each][0] - first[each][0]) * 1_000 - first[each][1]
        for each in first
        # Of who was let go while others still asked it is not known when that was.
        if first[each][1] > 0 and first[each][0] + first[each][1] / 1_000 > listening
    ]
    print(f"let go after the throttle time by: {told(late)}")
    set_quota(cluster, CLIENT, producer_byte_rate=None)
    people.close()
    for name, waits in (
        ("nobody else", alone),
        ("all muted", meanwhile),
        ("all let go at once", lifted),
        ("let go one by one", going),
    ):
        print(f"a neighbour's waits, {name}: {told(waits)}")


def busy(cluster: Cluster, seconds: float) -> float:
    """The share of a processor that the broker takes."""
    process = psutil.Process(cluster.pid(0))
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - before) / seconds


def told(waits_ms: list[float]) -> str:
    """Median, 99th percentile and maximum."""
    waits = sorted(waits_ms)
    p99 = waits[int(len(waits) * 0.99)]
    return f"p50 {statistics.median(waits):.2f} ms, p99 {p99:.2f} ms, at most {waits[-1]:.2f} ms"


@contextmanager
def neighbour(address: Address, topic: str) -> Iterator[list[float]]:
    """Another client's waits in ms, each request after the answer to the one before."""
    waits: list[float] = []
    over = threading.Event()

    def run() -> None:
        with NamedClient(address, "neighbour") as client:
            frame = frame_of(produce_request(topic, batch(100)), 1, "neighbour")
            while not over.wait(0.001):
                began = time.perf_counter()
                client.send_bytes(frame)
                client.receive_bytes(_SIZE.unpack(client.receive_bytes(4))[0])
                waits.append((time.perf_counter() - began) * 1e3)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


# -- a noisy client --------------------------------------------------------------------------------


def noisy(cluster: Cluster, topic: str, connections: int, seconds: float) -> None:
    """Batches of 16 KiB over so many connections, held to 4 MB/s."""
    set_quota(cluster, CLIENT, producer_byte_rate=NOISY_LIMIT)
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(3):
        with neighbour(cluster.addresses[0], topic) as waits:
            time.sleep(seconds)
        alone += waits
        with load(cluster.addresses[0], topic, connections):
            time.sleep(2)  # the first second's worth goes at once
            with neighbour(cluster.addresses[0], topic) as waits:
                time.sleep(seconds)
        beside += waits
    set_quota(cluster, CLIENT, producer_byte_rate=None)
    print(f"beside nobody: {told(alone)}")
    print(f"beside {connections} connections that are held to 4 MB/s: {told(beside)}")


@contextmanager
def load(address: Address, topic: str, connections: int) -> Iterator[None]:
    over = threading.Event()
    frame = frame_of(produce_request(topic, batch(16 * KIB)), 1, "bench")

    def run() -> None:
        people = Crowd(address, connections, frame)
        people.ask()
        while not over.is_set():
            people.answers(1, people.ask_again)
        people.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
