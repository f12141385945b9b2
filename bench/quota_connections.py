"""How closely many connections of one client are held: `python -m bench.quota_connections`.

Raw clients that send their next request as soon as the last is answered, whatever throttle time
they are told. Per broker: what it charged in any 10 s once warm, as a share of the limit. For
mutations they create topics of one partition, at the controller only.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

from bench.broker import produce_frame
from cluster.client.quota_requests import alter_quotas
from cluster.client.socket_client import SocketClient
from cluster.datadir.paths import DataDir
from cluster.model.quotas import KEY_OF_KIND, QuotaEntity, QuotaKind
from cluster.views.client_states import client_states, read_running
from tests.support.client_quotas import KIB, NamedClient, batch
from tests.support.kafka_wire import fetch_request, frame_of, produce_request, request
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import create_topic, leader, unique_name

CLIENT_ID = "bench"
CREATE_TOPICS = 19
WARM_UP_S = 13
LIMITS = {
    QuotaKind.PRODUCE: 4e6,
    QuotaKind.FETCH: 4e6,
    QuotaKind.REQUEST: 20.0,
    QuotaKind.MUTATION: 5.0,
}


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description="Many connections of one limited client.")
    kinds = [kind.value for kind in LIMITS]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 20, 50])
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--seconds", type=int, default=20)
    chosen = parser.parse_args()
    print("| quota | brokers | connections to each | any 10 s |")
    print("| --- | --- | --- | --- |")
    for brokers in chosen.brokers:
        with (
            tempfile.TemporaryDirectory() as folder,
            Cluster(Path(folder), brokers=brokers) as cluster,
        ):
            topics: dict[int, str] = {}
            while len(topics) < brokers:
                topic = create_topic(cluster, replication_factor=1)
                topics.setdefault(leader(cluster, topic), topic)
            for kind in map(QuotaKind, chosen.kinds):
                for connections in chosen.connections:
                    low, high = _measure(cluster, topics, kind, connections, chosen.seconds)
                    cells = (kind, f"{brokers}", f"{connections}", f"{low:.1%} - {high:.1%}")
                    print(f"| {' | '.join(cells)} |", flush=True)


def _measure(
    cluster: Cluster, topics: dict[int, str], kind: QuotaKind, connections: int, seconds: int
) -> tuple[float, float]:
    """The lowest and highest share of the limit in 10 s, over all brokers."""
    client_id = CLIENT_ID if kind is QuotaKind.REQUEST else f"{CLIENT_ID}-{kind}-{connections}"
    with SocketClient.connect(cluster.addresses, "admin") as admin:
        alter_quotas(admin, QuotaEntity(None, client_id), {KEY_OF_KIND[kind]: LIMITS[kind]})
    stop = threading.Event()
    if kind is QuotaKind.MUTATION:
        controller = cluster.status()["controller"]
        topics = {controller: topics[controller]}
    threads = [
        threading.Thread(
            target=_send,
            args=(cluster.addresses[broker], topic, kind, client_id, stop),
            daemon=True,
        )
        for broker, topic in topics.items()
        for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    stop.wait(WARM_UP_S)
    used: dict[int, list[tuple[float, float]]] = {broker: [] for broker in topics}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for state in client_states(read_running(DataDir(cluster.data_dir))):
            if (state.row.quota, state.row.client_id) == (kind, client_id):
                used[state.source.broker].append(
                    (state.row.written_wall_ms / 1_000, state.row.usage)
                )
        stop.wait(0.5)
    stop.set()
    for thread in threads:
        thread.join(15)
    shares = []
    for samples in used.values():
        for begin, earlier in samples:
            end, later = next((each for each in samples if each[0] >= begin + 10), (begin, 0.0))
            if end > begin:
                shares.append((later - earlier) / (end - begin) / LIMITS[kind])
    return min(shares), max(shares)


def _send(
    address: Address, topic: str, kind: QuotaKind, client_id: str, stop: threading.Event
) -> None:
    with NamedClient(address, client_id) as client:
        if kind in (QuotaKind.REQUEST, QuotaKind.MUTATION):
            frame = produce_frame(topic, 1)
        elif kind is QuotaKind.PRODUCE:
            frame = frame_of(produce_request(topic, batch(16 * KIB)), 1, client_id)
        else:
            client.call(produce_request(topic, batch(16 * KIB)))
            frame = frame_of(fetch_request(topic, 0, max_bytes=16 * KIB), 1, client_id)
        while not stop.is_set():
            if kind is QuotaKind.MUTATION:
                frame = _creation(client_id)
            client.send_bytes(frame)
            client.receive_bytes(int.from_bytes(client.receive_bytes(4), "big"))


def _creation(client_id: str) -> bytes:
    """A CreateTopics request that is refused above the limit."""
    topic = {
        "name": unique_name("made"),
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    made = request(CREATE_TOPICS, 6, topics=[topic], timeout=10_000, validate_only=False)
    return frame_of(made, 1, client_id)


if __name__ == "__main__":
    main()
