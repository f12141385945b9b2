"""What many partitions cost, and how long another client waits while they are made and deleted.

Needs the environment that `bin/test` makes on first use:
    PYTHONPATH=. .venv/bin/python bench/partitions.py [--counts 1000,2000] [--brokers 1,3]

For each count of partitions: create (CreatePartitions), an idle while, one Metadata answer, a
broker that is killed and comes back (several brokers), deletion, creation anew, and a clean restart
of the cluster. Several brokers: as many replicas of each partition. A bystander, a process of its
own, goes on producing 100 bytes and fetching them on one connection to each broker; its longest
wait in each phase is the last column. `--root` measures another source tree with this same script.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from kio.index import load_response_schema

from cluster.model.errors import UserError
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, build_batch
from tests.support.kafka_wire import WireClient, frame_of, request

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "many"
DEADLINE_S = 180.0
VERSIONS = {
    ApiKey.METADATA: 9,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.LIST_OFFSETS: 5,
}


def main() -> None:
    """Run every scenario and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", default="1000,2000,5000,10000", help="partitions")
    parser.add_argument("--brokers", default="1,3", help="cluster sizes, also numbers of replicas")
    parser.add_argument("--root", type=Path, default=ROOT, help="source tree of the cluster")
    parser.add_argument("--bystander", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bystander:
        be_bystander(json.loads(options.bystander))
        return
    print("| brokers x replicas | partitions | phase | seconds | each, ms | longest wait, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    for brokers in map(int, options.brokers.split(",")):
        for count in map(int, options.counts.split(",")):
            try:
                measure(options.root, brokers, count)
            except UserError as problem:
                sys.exit(str(problem))


# -- scenario --------------------------------------------------------------------------------------


def measure(root: Path, brokers: int, count: int) -> None:
    """All phases with one number of partitions, on a cluster of their own."""
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        cluster = BenchCluster(root, Path(directory) / "data", brokers)
        with cluster.running():
            for broker in range(brokers):
                cluster.create_topic(bystander_topic(broker), [[broker]])
            cluster.create_topic(TOPIC, [list(range(brokers))])
            bystander = Bystander(cluster.addresses)
            phases = Phases(cluster, bystander, brokers, count)
            with bystander:
                phases.run()
            phases.restart()
            for row in phases.rows:
                print(row, flush=True)


class Phases:
    """The phases of a measurement, in order; each is a row of the table."""

    def __init__(
        self, cluster: "BenchCluster", bystander: "Bystander", brokers: int, count: int
    ) -> None:
        self.cluster = cluster
        self.bystander = bystander
        self.brokers = brokers
        self.count = count
        self.rows: list[str] = []

    def run(self) -> None:
        """All phases but the restart, while the bystander measures its waits."""
        cluster = self.cluster
        time.sleep(1.0)
        self.phase("quiet cluster, 2 s", lambda: time.sleep(2.0))
        self.phase("create, every leader serves", self.create)
        size = sum(p.memory_info().rss for p in cluster.broker_processes()) / 1e6 / self.brokers
        files = max(p.num_fds() for p in cluster.broker_processes())
        self.row("memory (RSS) of a broker, MB / open files", f"{size:.0f} / {files}", "", "")
        self.phase("idle for 6 s", lambda: time.sleep(6.0))
        self.phase("one Metadata answer", lambda: cluster.metadata(0))
        if self.brokers > 1:
            self.phase("leader killed, every leader serves", self.kill)
            self.phase("it comes back, every replica in sync", self.come_back)
        self.phase("delete, until Metadata forgets it", self.delete)
        self.phase("2 s after it", lambda: time.sleep(2.0))
        self.rows_of_warnings()

    def create(self) -> None:
        self.cluster.create_partitions(self.count)
        self.cluster.wait_served(range(self.brokers), self.count)

    def kill(self) -> None:
        victim = self.victim()
        self.bystander.forget(victim)
        pid = self.cluster.pids()[victim]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # both at once: it must not come back
        self.cluster.command("kill", str(victim), "--stay-down")
        self.cluster.wait_served([b for b in range(self.brokers) if b != victim], self.count)

    def victim(self) -> int:
        return next(b for b in range(self.brokers) if b != self.cluster.controller())

    def come_back(self) -> None:
        down = [b["id"] for b in self.cluster.status()["brokers"] if b["pid"] is None]
        self.cluster.command("restart", str(down[0]))
        up = next(b for b in range(self.brokers) if b not in down)
        poll(lambda: self.cluster.is_in_sync(up, self.brokers), "every replica in sync")

    def delete(self) -> None:
        self.cluster.delete_topic(TOPIC)
        poll(lambda: self.cluster.partition_count(0) == 0, "the topic to be gone")

    def restart(self) -> None:
        """Create the partitions again, stop the cluster and start it, until all leaders serve."""
        cluster = self.cluster
        cluster.create_topic(TOPIC, [list(range(self.brokers))])
        cluster.create_partitions(self.count)
        cluster.wait_served(range(self.brokers), self.count)
        began = time.monotonic()
        cluster.command("stop")
        self.timed("clean stop", began)
        began = time.monotonic()
        cluster.start()
        self.timed("start, until `start` returns", began)
        cluster.wait_served(range(self.brokers), self.count)
        self.timed("start, every leader serves", began)

    def phase(self, name: str, act: Callable[[], Any]) -> None:
        began = time.monotonic()
        act()
        ended = time.monotonic()
        longest = self.bystander.longest_ms(began, ended + 0.1)
        seconds = ended - began
        self.row(name, f"{seconds:.2f}", f"{seconds * 1000 / self.count:.2f}", f"{longest:.1f}")

    def timed(self, name: str, began: float) -> None:
        seconds = time.monotonic() - began
        self.row(name, f"{seconds:.2f}", f"{seconds * 1000 / self.count:.2f}", "")

    def row(self, name: str, seconds: str, each: str, longest: str) -> None:
        self.rows.append(
            f"| {self.brokers} x {self.brokers} | {self.count} | {name} | {seconds} | {each} |"
            f" {longest} |"
        )

    def rows_of_warnings(self) -> None:
        lines = [
            line
            for path in (self.cluster.data_dir / "logs").glob("broker-*.log")
            for line in path.read_text().splitlines()
            if "no answer from leader" in line or "did not acknowledge" in line
        ]
        self.row("warnings of missing answers", str(len(lines)), "", "")


# -- cluster ---------------------------------------------------------------------------------------


class ClusterRequests:
    """Raw requests to brokers at known addresses, whoever made them."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self.addresses = addresses

    def call(self, broker: int, key: ApiKey, **fields: Any) -> Any:
        """The answer to a request with these fields (see `kafka_wire.request`)."""
        version = VERSIONS[key]
        with socket.create_connection(self.addresses[broker], DEADLINE_S) as connection:
            connection.sendall(frame_of(request(key, version, **fields), 7))
            (size,) = struct.unpack(">i", read_whole(connection, 4))
            frame = read_whole(connection, size)
        return WireClient.parse(frame, load_response_schema(key, version), 7)

    def metadata(self, broker: int) -> Any:
        return self.call(
            broker,
            ApiKey.METADATA,
            topics=[{"name": TOPIC}],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    def partition_count(self, broker: int) -> int:
        return len(self.metadata(broker).topics[0].partitions)

    def is_in_sync(self, broker: int, replicas: int) -> bool:
        partitions = self.metadata(broker).topics[0].partitions
        return all(len(partition.isr_nodes) == replicas for partition in partitions)

    def controller(self) -> int:
        found: int = self.metadata(0).controller_id
        return found

    def create_topic(self, name: str, assignment: list[list[int]]) -> None:
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": number, "broker_ids": tuple(replicas)}
                for number, replicas in enumerate(assignment)
            ],
            "configs": [],
        }
        self.on_controller(
            ApiKey.CREATE_TOPICS, topics=[topic], timeout=60_000, validate_only=False
        )

    def create_partitions(self, count: int) -> None:
        topic = {"name": TOPIC, "count": count, "assignments": None}
        self.on_controller(
            ApiKey.CREATE_PARTITIONS, topics=[topic], timeout=120_000, validate_only=False
        )

    def delete_topic(self, name: str) -> None:
        self.on_controller(ApiKey.DELETE_TOPICS, topic_names=[name], timeout=120_000)

    def on_controller(self, key: ApiKey, **fields: Any) -> None:
        def attempt() -> bool:
            answer = self.call(self.controller(), key, **fields)
            results = getattr(answer, "results", None) or getattr(answer, "topics", None)
            results = results or answer.responses
            codes = {int(result.error_code) for result in results}
            if codes - {0, 41, 7}:  # 41: not the controller; 7: timed out waiting for brokers
                raise UserError(f"{key.name}: {answer}")
            return 41 not in codes

        poll(attempt, f"{key.name} to be done")

    def wait_served(self, brokers: Any, count: int) -> None:
        """Wait until Metadata has `count` partitions, and each is served by its leader."""
        waiting = [*brokers]
        poll(lambda: self.partition_count(waiting[0]) == count, f"{count} partitions")
        served: set[int] = set()

        def all_serve() -> bool:
            by_leader: dict[int, list[int]] = {}
            for partition in self.metadata(waiting[0]).topics[0].partitions:
                by_leader.setdefault(partition.leader_id, []).append(partition.partition_index)
            if not by_leader.keys() <= set(waiting):
                return False
            return all(self.serves(b, numbers, served) for b, numbers in by_leader.items())

        poll(all_serve, "every leader to serve")

    def serves(self, broker: int, numbers: list[int], served: set[int]) -> bool:
        numbers = [number for number in numbers if number not in served]
        for start in range(0, len(numbers), 100):
            partitions = [
                {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
                for number in numbers[start : start + 100]
            ]
            answer = self.call(
                broker,
                ApiKey.LIST_OFFSETS,
                replica_id=-1,
                isolation_level=0,
                topics=[{"name": TOPIC, "partitions": partitions}],
            )
            for partition in answer.topics[0].partitions:
                if int(partition.error_code) == 0:
                    served.add(partition.partition_index)
            if len(served & set(numbers[start : start + 100])) < len(numbers[start : start + 100]):
                return False
        return True


class BenchCluster(ClusterRequests):
    """A detached cluster of a source tree, with the same ports after a restart."""

    def __init__(
        self, root: Path, data_dir: Path, size: int, overrides: Mapping[str, str] | None = None
    ) -> None:
        self.root = root
        self.overrides = overrides or {}
        self.data_dir = data_dir
        self.size = size
        self.port = free_ports(size + 1)
        super().__init__([("127.0.0.1", self.port + broker) for broker in range(size)])

    @contextmanager
    def running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self.command("stop", "--purge", check=False)
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def start(self) -> None:
        self.command(
            "start",
            "--detach",
            f"--brokers={self.size}",
            f"--port={self.port}",
            f"--registry-port={self.port + self.size}",
            *(f"--override={key}={value}" for key, value in self.overrides.items()),
        )

    def command(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cluster", *arguments, "--data-dir", str(self.data_dir)],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            sys.exit(f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self.command("status", "--json"))
        return status

    def pids(self) -> dict[int, int | None]:
        return {b["id"]: b["pid"] for b in self.status()["brokers"]}

    def broker_processes(self) -> list[psutil.Process]:
        return [psutil.Process(pid) for pid in self.pids().values() if pid is not None]


def poll(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true, polling it. Raises UserError."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise UserError(f"waited {DEADLINE_S:g} s for {what}")
        time.sleep(0.05)


def read_whole(connection: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes. Raises ConnectionError if the connection is closed before."""
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def free_ports(count: int) -> int:
    """The first of some consecutive free ports."""
    for first in range(21_001, 32_000, 97):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                probe = held.enter_context(socket.socket())
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
            return first
    sys.exit("no free ports")


# -- bystander -------------------------------------------------------------------------------------


def bystander_topic(broker: int) -> str:
    return f"bystander-{broker}"


class Bystander:
    """The bystander's process, and its reports: (start of a request, its duration in ms)."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--bystander", json.dumps(addresses)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._waits: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> "Bystander":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def forget(self, broker: int) -> None:
        """Ignore a broker that is about to be killed."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{broker}\n")
        self._process.stdin.flush()
        time.sleep(0.2)

    def longest_ms(self, began: float, ended: float) -> float:
        """The longest wait, in ms, of any request in flight between the two times."""
        return max(self.waits_ms(began, ended))

    def waits_ms(self, began: float, ended: float) -> list[float]:
        """The waits, in ms, of all requests in flight between the two times, which may be ahead."""
        while time.monotonic() < ended or not self._waits or self._waits[-1][0] < ended:
            time.sleep(0.02)
            if self._process.poll() is not None:
                sys.exit("the bystander has died")
        return [wait for at, wait in self._waits if at + wait / 1000 >= began and at <= ended]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at, wait = line.split()
            self._waits.append((float(at), float(wait)))


def be_bystander(addresses: list[tuple[str, int]]) -> None:
    """Produce and fetch in turn at every broker, hundreds of times a second; print the times."""
    batch = build_batch([NewRecord(value=b"x" * 100, timestamp_ms=int(time.time() * 1000))])
    exchanges = {}
    for broker, address in enumerate(addresses):
        connection = socket.create_connection(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = bystander_topic(broker).encode()
        exchanges[broker] = connection, (produce_frame(name, batch), fetch_frame(name))
    gone: list[int] = []
    threading.Thread(
        target=lambda: gone.extend(int(line) for line in sys.stdin), daemon=True
    ).start()
    while True:
        for broker in [b for b in gone if b in exchanges]:
            exchanges.pop(broker)[0].close()
        for connection, frames in exchanges.values():
            for frame in frames:
                began = time.monotonic()
                connection.sendall(frame)
                (size,) = struct.unpack(">i", read_whole(connection, 4))
                read_whole(connection, size)
                print(f"{began:.6f} {(time.monotonic() - began) * 1000:.3f}")
        sys.stdout.flush()
        time.sleep(0.002)


def produce_frame(name: bytes, batch: bytes | bytearray) -> bytes:
    """A Produce v7 request of one batch, acks=1."""
    body = struct.pack(">hhih5s", 0, 7, 1, 5, b"bench") + struct.pack(">hhii", -1, 1, 30_000, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iii", 1, 0, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


def fetch_frame(name: bytes) -> bytes:
    """A Fetch v4 request for the first batch."""
    body = struct.pack(">hhih5s", 1, 4, 2, 5, b"bench")
    body += struct.pack(">iiiibi", -1, 0, 1, 1 << 20, 0, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iiqi", 1, 0, 0, 200)
    return struct.pack(">i", len(body)) + body


if __name__ == "__main__":
    main()
