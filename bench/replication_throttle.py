"""How closely throttled replication is held to its rate, and what it costs other partitions.

    PYTHONPATH=. .venv/bin/python -m bench.replication_throttle [rates | latency]

`rates`: followers are stopped, records are written, and the followers return under a throttle: of
their leader, or of their own. The bytes of their logs are read twice a second (DescribeLogDirs);
the figures are the least and the most that any 10 s got, as a share of the rate.

`latency`: one client with one acks=all record in flight to a partition of three in-sync replicas,
while one of the followers catches up in another topic of the same leader.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.beside_table import quantile
from bench.broker import produce_frame
from bench.raw_client import RawConnection, drive
from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.socket_client import SocketClient
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, wait_for_isr
from tests.support.waiting import wait_until

_SPAN_S: Final = 10.0
_MEASURED_S: Final = 14.0
_SETTLED_S: Final = 1.0
_RECORD_BYTES: Final = 4 * 1024


class Case(NamedTuple):
    """One row: who is throttled, to how many bytes per second, and what catches up."""

    side: str
    rate: int
    partitions: int = 1
    followers: int = 1
    by_file: bool = True
    leaders: int = 1

    @property
    def batch_bytes(self) -> int:
        """Clients' default, or what fits the rate: 64 KiB would be 6 % of 10 s of the lowest."""
        return 16 * 1024 if self.rate < 1_000_000 else 64 * 1024


CASES: Final = (
    *(Case("leader", rate) for rate in (100_000, 1_000_000, 10_000_000, 50_000_000)),
    *(Case("follower", rate) for rate in (100_000, 1_000_000, 10_000_000, 50_000_000)),
    Case("leader", 1_000_000, partitions=8, followers=3),
    Case("leader", 50_000_000, partitions=8, followers=3),
    Case("follower", 1_000_000, partitions=8, followers=3),
    Case("follower", 10_000_000, partitions=8, followers=3),
    Case("follower", 1_000_000, partitions=9, leaders=3),
    Case("follower", 50_000_000, partitions=9, leaders=3),
    Case("leader", 10_000_000, partitions=8, followers=3, by_file=False),
    Case("follower", 10_000_000, partitions=8, followers=3, by_file=False),
)


class Reading(NamedTuple):
    """The bytes of a topic's logs on the following brokers at one time."""

    at_s: float
    sizes: tuple[int, ...]


def main() -> None:
    """Print Markdown tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("rates", "latency"), nargs="?", default="rates")
    parser.add_argument("--cases", default="", help="numbers of rows, separated by commas")
    options = parser.parse_args()
    if options.what == "latency":
        measure_latency()
        return
    chosen = [int(number) for number in options.cases.split(",") if number]
    print("| throttled | rate | partitions | leaders | followers | any 10 s | in all |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for number, case in enumerate(CASES):
        if not chosen or number in chosen:
            print(measured(case), flush=True)


def measured(case: Case) -> str:
    """The row of one case, in a cluster of its own."""
    settings = {
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.shared.memory": str(case.by_file).lower(),
        "default.replication.factor": "1",
        "milena.metrics.topic.enable": "false",
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder), brokers=case.leaders + case.followers, overrides=settings) as cluster,
    ):
        followers = range(case.leaders, case.leaders + case.followers)
        replicas = [[number % case.leaders, *followers] for number in range(case.partitions)]
        topic = create_topic(cluster, assignments=replicas)
        for follower in followers:
            cluster.kill(follower, stay_down=True)
        moved = case.rate * (_MEASURED_S + _SETTLED_S + 1)
        copies = case.followers if case.side == "leader" else 1
        preload(cluster, topic, case, round(moved / copies) + (4 << 20))
        throttle(cluster, topic, case)
        for follower in followers:
            cluster.restart(follower)
        readings = watch(cluster, topic, list(followers))
    if case.side == "leader":
        series = [[(each.at_s, sum(each.sizes)) for each in readings]]
    else:
        series = [
            [(each.at_s, each.sizes[at]) for each in readings] for at in range(case.followers)
        ]
    tens = [share for one in series for share in spans(one, case.rate)]
    whole = [(one[-1][1] - one[0][1]) / (one[-1][0] - one[0][0]) / case.rate for one in series]
    way = "" if case.by_file else ", bytes by ZeroMQ"
    cells = (
        f"{case.side}{way}",
        f"{case.rate / 1e6:g} MB/s",
        str(case.partitions),
        str(case.leaders),
        str(case.followers),
        f"{min(tens):.2%} - {max(tens):.2%}",
        f"{statistics.mean(whole):.2%}",
    )
    return f"| {' | '.join(cells)} |"


def spans(readings: Sequence[tuple[float, int]], rate: int) -> list[float]:
    """The share of the rate in each span of ten seconds."""
    return [
        (last - first) / (until - since) / rate
        for since, first in readings
        for until, last in readings
        if _SPAN_S <= until - since <= _SPAN_S + 0.6
    ]


def preload(cluster: Cluster, topic: str, case: Case, size_bytes: int) -> None:
    """Write so many bytes to a topic, spread over its partitions."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "batch.size": case.batch_bytes,
            "linger.ms": 20,
            "acks": 1,
        }
    )
    value = os.urandom(_RECORD_BYTES)
    for number in range(size_bytes // _RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, value, partition=number % case.partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def throttle(cluster: Cluster, topic: str, case: Case) -> None:
    """Limit one direction of every broker."""
    cluster.command(
        *("configs", "--alter", "--topic", topic),
        *("--add-config", f"{case.side}.replication.throttled.replicas=*"),
    )
    cluster.command(
        *("configs", "--alter", "--entity-type", "brokers", "--entity-default"),
        *("--add-config", f"{case.side}.replication.throttled.rate={case.rate}"),
    )


def watch(cluster: Cluster, topic: str, followers: Sequence[int]) -> list[Reading]:
    """Read sizes twice a second, once every follower has begun to catch up."""
    readings: list[Reading] = []
    clients = [
        SocketClient.connect([cluster.addresses[follower]], "bench") for follower in followers
    ]

    def read() -> Reading:
        sizes = [
            sum(replica.size_bytes for found in dirs for replica in found.replicas)
            for dirs in (describe_log_dirs(client, [topic]) for client in clients)
        ]
        return Reading(time.monotonic(), tuple(sizes))

    wait_until(lambda: all(read().sizes), "the followers to fetch", 60.0)
    time.sleep(_SETTLED_S)
    until = time.monotonic() + _MEASURED_S
    while time.monotonic() < until:
        readings.append(read())
        time.sleep(0.5)
    return readings


_ROUNDS: Final = 2
_LATENCY_S: Final = 6.0


def measure_latency() -> None:
    """Print one row without a catch-up, and one for each throttle."""
    settings = {"replica.lag.time.max.ms": "2000", "milena.metrics.topic.enable": "false"}
    rates = (None, 1_000_000, 10_000_000, 50_000_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder), brokers=3, overrides=settings) as cluster,
    ):
        quiet = create_topic(cluster, assignments=[[0, 1, 2]])
        print("| catch-up | p50 ms | p99 ms | p99.9 ms |")
        print("| --- | --- | --- | --- |")
        waits: dict[int | None, list[float]] = {rate: [] for rate in rates}
        for _ in range(_ROUNDS):
            for rate in rates:
                waits[rate] += one_round(cluster, quiet, rate)
        for rate in rates:
            ordered = sorted(waits[rate])
            name = "none" if rate is None else f"at {rate / 1e6:g} MB/s"
            figures = (quantile(ordered, share) / 1_000 for share in (0.5, 0.99, 0.999))
            print(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")


def one_round(cluster: Cluster, quiet: str, rate: int | None) -> list[float]:
    """Microseconds until each record was acknowledged, while broker 2 catches up."""
    topic = ""
    if rate is not None:
        topic = create_topic(cluster, assignments=[[0, 2]])
        cluster.kill(2, stay_down=True)
        case = Case("leader", rate)
        preload(cluster, topic, case, round(rate * (_LATENCY_S + 6)) + (4 << 20))
        throttle(cluster, topic, case)
        cluster.restart(2)
    wait_for_isr(cluster, quiet, 3)
    time.sleep(2.0)
    frame = produce_frame(quiet, -1)
    with RawConnection(cluster.addresses[0], quiet, frame) as connection:
        waits = drive([connection], 1, _LATENCY_S).waits_us
    if topic:
        cluster.command("topics", "--delete", "--topic", topic)
    return waits


if __name__ == "__main__":
    main()
