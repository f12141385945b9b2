"""What `request_percentage` holds, measured from outside: `python -m bench.request_time`.

Clients with a quota of their own send small produce requests, each as soon as it may, whatever
throttle times they are told. The time of the broker's thread that the kernel counts is compared
with the limit, and with what the broker says: what it charged, what it exempts, how busy it was.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import psutil

from bench.broker import produce_frame
from cluster.client.quota_requests import alter_quotas
from cluster.client.socket_client import SocketClient
from cluster.datadir.paths import DataDir
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_reader import read_stats
from cluster.model.quotas import QuotaEntity, QuotaKind
from tests.support.kafka_wire import WireClient
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader

WARM_UP_S = 3
CLIENT_ID = "bench"
"""That of `produce_frame`."""


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description="How busy a limited client keeps the thread.")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 4, 20])
    parser.add_argument("--percent", type=float, nargs="+", default=[10.0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--acks", type=int, default=1)
    chosen = parser.parse_args()
    print(
        "| connections | limit | requests/s | thread, by the kernel | by the broker | charged |"
        " exempt | idle before |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder), brokers=chosen.brokers) as cluster,
    ):
        topic = create_topic(cluster, replication_factor=chosen.brokers)
        stop_idle_s = 3.0
        idle = _busy_seconds(cluster, topic)
        time.sleep(stop_idle_s)
        idle_share = (_busy_seconds(cluster, topic) - idle) / stop_idle_s
        for percent in chosen.percent:
            with SocketClient.connect(cluster.addresses, "admin") as client:
                alter_quotas(client, QuotaEntity(None, CLIENT_ID), {"request_percentage": percent})
            for connections in chosen.connections:
                row = _measure(cluster, topic, connections, chosen.acks, chosen.seconds)
                cells = (f"{connections}", f"{percent:g} %", *row, f"{idle_share:.1%}")
                print(f"| {' | '.join(cells)} |", flush=True)


def _measure(
    cluster: Cluster, topic: str, connections: int, acks: int, seconds: float
) -> list[str]:
    stop = threading.Event()
    counts = [0] * connections
    address = cluster.addresses[leader(cluster, topic)]

    def run(number: int) -> None:
        frame = produce_frame(topic, acks)
        with WireClient(address) as client:
            while not stop.is_set():
                client.send_bytes(frame)
                size = int.from_bytes(client.receive_bytes(4), "big")
                client.receive_bytes(size)
                counts[number] += 1

    threads = [
        threading.Thread(target=run, args=(number,), daemon=True) for number in range(connections)
    ]
    for thread in threads:
        thread.start()
    stop.wait(WARM_UP_S)
    before, began = _figures(cluster, topic), time.monotonic()
    requests = sum(counts)
    stop.wait(seconds)
    after, elapsed = _figures(cluster, topic), time.monotonic() - began
    requests = sum(counts) - requests
    stop.set()
    for thread in threads:
        thread.join(15)
    kernel, busy, exempt, charged = (
        (now - then) / elapsed for now, then in zip(after, before, strict=True)
    )
    return [
        f"{requests / elapsed:,.0f}",
        f"{kernel:.1%}",
        f"{busy:.1%}",
        f"{charged:.1%}",
        f"{exempt:.1%}",
    ]


def _figures(cluster: Cluster, topic: str) -> tuple[float, float, float, float]:
    """Seconds since the start: by the kernel, by the broker, exempt, charged to the clients."""
    broker = leader(cluster, topic)
    stats = read_stats(DataDir(cluster.data_dir).run / f"broker-{broker}.stats")
    charged = sum(
        row.usage / 100
        for row in stats.rows
        if row.quota == QuotaKind.REQUEST and row.client_id == CLIENT_ID
    )
    return (
        _busy_seconds(cluster, topic),
        stats.values[BY_KEY["BusyTimeUs"].name] / 1e6,
        stats.values[BY_KEY["ExemptRequestTimeUs"].name] / 1e6,
        charged,
    )


def _busy_seconds(cluster: Cluster, topic: str) -> float:
    """CPU time of the broker's first thread, its loop's."""
    pid = cluster.pid(leader(cluster, topic))
    assert pid is not None
    schedstat = Path(f"/proc/{pid}/task/{pid}/schedstat")
    if schedstat.exists():
        return int(schedstat.read_text("ascii").split()[0]) / 1e9
    thread = next(each for each in psutil.Process(pid).threads() if each.id == pid)
    return float(thread.user_time + thread.system_time)


if __name__ == "__main__":
    main()
