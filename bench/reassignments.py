"""What it costs to move leaders and replicas, for those who use the partitions and for bystanders.

    PYTHONPATH=. .venv/bin/python -m bench.reassignments [--partitions 10000] [--megabytes 4000]

First table: the leaders of so many partitions with three replicas move. A bystander goes on
producing and fetching at each broker; its longest wait is the last column. Second table: partitions
with so many bytes get other followers, while an unpipelined producer with acks=all writes to each
in turn; beside it what `cp` and `sync` of the same files take on the same disk.
"""

import argparse
import itertools
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.partitions import (
    TOPIC,
    VERSIONS,
    BenchCluster,
    Bystander,
    bystander_topic,
    poll,
    read_whole,
)
from cluster.protocol.api import ApiKey
from cluster.records.builder import NewRecord, build_batch

VERSIONS |= {
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
_MOVED = 8
"""Partitions that hold the bytes."""
_RECORD_BYTES = 100_000
_QUIET_S = 10.0
_THROTTLE_MB = 100
_RETURNED = re.compile(r"leadership of (\d+) partitions returns to preferred replicas")


def reassign(cluster: BenchCluster, targets: Sequence[Sequence[int]]) -> None:
    """Begin to move the partitions of TOPIC, each to the replicas at its number."""
    partitions = [
        {"partition_index": number, "replicas": tuple(target)}
        for number, target in enumerate(targets)
    ]
    answer = cluster.call(
        cluster.controller(),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        topics=[{"name": TOPIC, "partitions": partitions}],
        timeout=120_000,
    )
    codes = {int(each.error_code) for each in answer.responses[0].partitions}
    assert codes == {0}, codes


def is_moved(cluster: BenchCluster) -> bool:
    """Whether no partition is being moved."""
    answer = cluster.call(
        cluster.controller(), ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None, timeout=60_000
    )
    return not answer.topics


def leaders(cluster: BenchCluster, broker: int) -> dict[int, int]:
    """The leader of each partition, as this broker knows it."""
    partitions = cluster.metadata(broker).topics[0].partitions
    return {each.partition_index: each.leader_id for each in partitions}


# -- leaders ---------------------------------------------------------------------------------------


class Leaders:
    """All partitions of a topic, whose leaders move from broker 0 to broker 1 in three ways."""

    def __init__(self, cluster: BenchCluster, bystander: Bystander, count: int) -> None:
        self._cluster = cluster
        self._bystander = bystander
        self._count = count

    def step(self, name: str, act: Callable[[], Any]) -> None:
        time.sleep(3.0)
        began = time.monotonic()
        act()
        ended = time.monotonic()
        longest = self._bystander.longest_ms(began, ended + 0.1)
        print(f"| {self._count} x 3 | {name} | {ended - began:.2f} | {longest:.1f} |", flush=True)

    def reorder(self) -> None:
        reassign(self._cluster, [[1, 0, 2]] * self._count)

    def elect(self) -> None:
        answer = self._cluster.call(
            self._cluster.controller(),
            ApiKey.ELECT_LEADERS,
            election_type=0,
            topic_partitions=None,
            timeout=120_000,
        )
        assert int(answer.error_code) == 0, answer

    def wait_until_returned(self) -> None:
        """Read the controller's log: Metadata of so many partitions would be most of the load."""

        def returned() -> int:
            logs = (self._cluster.data_dir / "logs").glob("broker-*.log")
            found = (re.findall(_RETURNED, log.read_text()) for log in logs)
            return sum(map(int, itertools.chain.from_iterable(found)))

        poll(lambda: returned() >= self._count, "the leaders to move")

    def is_moved(self) -> bool:
        return all(set(leaders(self._cluster, one).values()) == {1} for one in range(3))


def measure_leaders(root: Path, count: int, *, by_themselves: bool) -> None:
    """Make another replica the preferred one, and let it lead by order or by itself."""
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        overrides = {"auto.leader.rebalance.enable": str(by_themselves).lower()}
        cluster = BenchCluster(root, Path(directory) / "data", 3, overrides)
        with cluster.running():
            for broker in range(3):
                cluster.create_topic(bystander_topic(broker), [[broker]])
            cluster.create_topic(TOPIC, [[0, 1, 2]] * count)
            cluster.wait_served(range(3), count)
            with Bystander(cluster.addresses) as bystander:
                run = Leaders(cluster, bystander, count)
                if by_themselves:
                    run.step(
                        "another replica becomes the preferred one, and leads (100 at a time)",
                        lambda: (run.reorder(), run.wait_until_returned()),
                    )
                else:
                    run.step("quiet cluster, 5 s", lambda: time.sleep(5.0))
                    run.step("another replica becomes the preferred one", run.reorder)
                    run.step("ElectLeaders for all partitions", run.elect)
                poll(run.is_moved, "every broker to know")


# -- replicas --------------------------------------------------------------------------------------


class Producer:
    """Writes one small record after the other with acks=all, to each partition in turn."""

    def __init__(self, address: tuple[str, int]) -> None:
        batch = build_batch([NewRecord(value=b"x" * 100, timestamp_ms=int(time.time() * 1000))])
        self._frames = [
            produce_frame(TOPIC.encode(), number, bytes(batch)) for number in range(_MOVED)
        ]
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waits: list[tuple[float, float]] = []
        """When a request left, and the milliseconds until its answer."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def quantiles(self, began: float, ended: float) -> str:
        """Median, 99th percentile and maximum in milliseconds."""
        waits = sorted(wait for at, wait in self.waits if began <= at < ended)
        at = [waits[int(share * (len(waits) - 1))] for share in (0.5, 0.99, 1.0)]
        return " / ".join(f"{each:.2f}" for each in at)

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            began = time.monotonic()
            self._socket.sendall(self._frames[number])
            (size,) = struct.unpack(">i", read_whole(self._socket, 4))
            answer = read_whole(self._socket, size)
            # correlation id, count of topics, name, count of partitions, index, error
            (code,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPIC) + 4 + 4)
            assert code == 0, code
            self.waits.append((began, (time.monotonic() - began) * 1e3))
            number = (number + 1) % _MOVED
            time.sleep(0.001)


def produce_frame(name: bytes, partition: int, batch: bytes) -> bytes:
    """A Produce v7 request of one batch, acks=all."""
    body = struct.pack(">hhih5s", 0, 7, 1, 5, b"bench") + struct.pack(">hhii", -1, -1, 30_000, 1)
    body += struct.pack(">h", len(name)) + name
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


def fill(address: tuple[str, int], megabytes: int) -> None:
    """Write so many bytes in all to the partitions."""
    record = NewRecord(value=bytes(_RECORD_BYTES), timestamp_ms=int(time.time() * 1000))
    batch = bytes(build_batch([record] * 9))
    with socket.create_connection(address) as connection:
        for sent in range(megabytes * 1_000_000 // len(batch)):
            connection.sendall(produce_frame(TOPIC.encode(), sent % _MOVED, batch))
            (size,) = struct.unpack(">i", read_whole(connection, 4))
            read_whole(connection, size)


def throttle(cluster: BenchCluster) -> None:
    """Limit what followers of the topic copy."""
    rate = f"follower.replication.throttled.rate={_THROTTLE_MB * 1_000_000}"
    brokers = ["--entity-type", "brokers", "--entity-default", "--add-config", rate]
    cluster.command("configs", "--alter", *brokers)
    replicas = ["--topic", TOPIC, "--add-config", "follower.replication.throttled.replicas=*"]
    cluster.command("configs", "--alter", *replicas)


def moved(
    cluster: BenchCluster, producer: Producer, target: list[int], name: str, megabytes: int
) -> str:
    """Move every partition to these replicas; returns the row of the table."""
    began = time.monotonic()
    reassign(cluster, [target] * _MOVED)
    poll(lambda: is_moved(cluster), "the replicas to move")
    ended = time.monotonic()
    seconds = ended - began
    return (
        f"| {name}, {_MOVED} partitions, {megabytes} MB | {seconds:.1f} |"
        f" {megabytes / seconds:.0f} | {producer.quantiles(began, ended)} |"
    )


def measure_replicas(root: Path, megabytes: int) -> None:
    """Give partitions other followers while a producer writes to them."""
    print("| step | seconds | MB/s | producer: p50 / p99 / max, ms |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as directory:
        cluster = BenchCluster(root, Path(directory) / "data", 3)
        with cluster.running():
            cluster.create_topic(TOPIC, [[0, 1]] * _MOVED)
            fill(cluster.addresses[0], megabytes)
            with Producer(cluster.addresses[0]) as producer:
                began = time.monotonic()
                time.sleep(_QUIET_S)
                ended = time.monotonic()
                print(f"| quiet cluster | {_QUIET_S:.0f} | | {producer.quantiles(began, ended)} |")
                for target, name in (([0, 2], "replica 1 -> 2"), ([0, 1], "replica 2 -> 1")):
                    print(moved(cluster, producer, target, name, megabytes), flush=True)
                throttle(cluster)
                name = f"replica 1 -> 2, throttled to {_THROTTLE_MB} MB/s"
                print(moved(cluster, producer, [0, 2], name, megabytes), flush=True)
                began = time.monotonic()
                copied = Path(directory) / "copied"
                copied.mkdir()
                logs = [cluster.data_dir / f"broker-0/{TOPIC}-{number}" for number in range(_MOVED)]
                files = [str(file) for log in logs for file in log.glob("*.log")]
                assert files
                subprocess.run(["cp", *files, "--backup=numbered", str(copied)], check=True)
                os.sync()
                seconds = time.monotonic() - began
                print(
                    f"| `cp` and `sync` of the same files | {seconds:.1f} |"
                    f" {megabytes / seconds:.0f} | {producer.quantiles(began, began + seconds)} |",
                    flush=True,
                )
                shutil.rmtree(copied)


def main() -> None:
    """Run both and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--partitions", type=int, default=10_000, help="0: without that table")
    parser.add_argument("--megabytes", type=int, default=4_000, help="0: without that table")
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    if options.partitions:
        print("| partitions x replicas | step | seconds | bystander's longest wait, ms |")
        print("| --- | --- | --- | --- |")
        measure_leaders(root, options.partitions, by_themselves=False)
        measure_leaders(root, options.partitions, by_themselves=True)
    if options.megabytes:
        measure_replicas(root, options.megabytes)


if __name__ == "__main__":
    main()
