"""How far a follower's reader is behind the leader's acknowledgment, and what that costs (KIP-392).

    PYTHONPATH=. .venv/bin/python bench/follower_readers.py [--rates 20,200,0] [--seconds 5]

Three brokers, one partition with three replicas. A raw client produces 100 bytes with acks=all, one
request at a time, at a rate or (0) as fast as it is answered; another one fetches from a follower,
whose answers wait for records. The lag of a record is the time from its acknowledgment to its
arrival there; a negative one is counted as 0. With the selector, leaders tell followers each high
watermark at once; without it, with the next records or after 500 ms. CPU is that of all brokers.
"""

import argparse
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from cluster.brokers.fetching.read_replicas import RACK_AWARE  # noqa: E402 - after the path is set
from tests.support.handler_requests import a_batch  # noqa: E402
from tests.support.kafka_wire import WireClient, fetch_from, produce_to, wanted  # noqa: E402
from tests.support.running_cluster import Cluster  # noqa: E402
from tests.support.topics import create_topic  # noqa: E402

_WARM: Final = 50
"""The first records of a run are not counted."""
_END_S: Final = 1.2
_batch_head: Final = struct.Struct(">qi").unpack_from


class Run(NamedTuple):
    """One rate, with or without the selector."""

    lags_ms: list[float]
    """Sorted."""
    records: int
    cpu_s: float


class Reader(threading.Thread):
    """Fetches from one broker until it is stopped; notes when each offset has arrived."""

    def __init__(self, client: WireClient, topic: str) -> None:
        super().__init__()
        self._client = client
        self._topic = topic
        self._ends = threading.Event()
        self.arrived: dict[int, float] = {}

    def run(self) -> None:
        """Until `stop`."""
        offset = 0
        while not self._ends.is_set():
            asked = fetch_from((self._topic, [wanted(0, offset)]), max_wait_ms=500)
            found = self._client.call(asked).responses[0].partitions[0]
            now = time.perf_counter()
            records, at = bytes(found.records or b""), 0
            while at < len(records):
                base, size = _batch_head(records, at)
                at += 12 + size
                self.arrived[base] = now
                offset = base + 1

    def stop(self) -> None:
        """Return when the last records have had time to arrive."""
        time.sleep(_END_S)
        self._ends.set()
        self.join()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="20,200,0", help="records per second; 0: no pause")
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    print("| selector | records/s | lag p50 | p99 | longest | CPU per record |")
    print("| --- | --- | --- | --- | --- | --- |")
    for selector in ("", RACK_AWARE):
        with tempfile.TemporaryDirectory() as directory, cluster_in(directory, selector) as cluster:
            for rate in map(float, asked.rates.split(",")):
                show(selector, asked.seconds, measure(cluster, rate, asked.seconds))


@contextmanager
def cluster_in(directory: str, selector: str) -> Iterator[Cluster]:
    overrides = {"replica.selector.class": selector}
    with Cluster(Path(directory) / "data", overrides=overrides, racks="a,b,c") as cluster:
        yield cluster


def measure(cluster: Cluster, rate: float, seconds: float) -> Run:
    """Produce to the leader, and read from a follower."""
    topic = create_topic(cluster, assignments=[[0, 1, 2]])
    brokers = [psutil.Process(cluster.pid(number)) for number in range(3)]
    with WireClient(cluster.addresses[0]) as writer, WireClient(cluster.addresses[1]) as client:
        reader = Reader(client, topic)
        reader.start()
        asked = produce_to((topic, 0, a_batch(b"x" * 100)), acks=-1)
        acknowledged: list[float] = []
        cpu = cpu_of(brokers)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            answer = writer.call(asked)
            acknowledged.append(time.perf_counter())
            assert answer.responses[0].partition_responses[0].error_code == 0
            if rate:
                time.sleep(1 / rate)
        cpu = cpu_of(brokers) - cpu
        reader.stop()
    lags = sorted(
        max(0.0, reader.arrived[offset] - acked) * 1e3
        for offset, acked in enumerate(acknowledged)
        if offset >= _WARM or rate < _WARM
    )
    return Run(lags, len(acknowledged), cpu)


def cpu_of(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def show(selector: str, seconds: float, run: Run) -> None:
    lags = run.lags_ms
    cells = [lags[len(lags) // 2], lags[int(len(lags) * 0.99)], lags[-1]]
    words = " | ".join(f"{each:.2f} ms" for each in cells)
    name = "rack-aware" if selector else "none"
    cpu_us = run.cpu_s / run.records * 1e6
    print(f"| {name} | {run.records / seconds:,.0f} | {words} | {cpu_us:.0f} us |", flush=True)


if __name__ == "__main__":
    main()
