"""How closely a saturating client is held to a byte quota: `python -m bench.quota_accuracy`.

One broker; four clients at once, each with a quota of 1 MiB/s of its own and nothing else to do.
What the broker counted is read from its stats file once a second, after a warm-up of 12 s: its
windowed rate (the last 10-11 s, what the quota compares with its limit) and the bytes themselves.
`--credit kafka` measures Kafka's arithmetic instead (`milena.quota.window.credit`).
"""

import argparse
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cluster.client.quota_requests import alter_quotas
from cluster.client.socket_client import SocketClient
from cluster.datadir.paths import DataDir
from cluster.model.quotas import QuotaEntity
from cluster.views.client_states import client_states, read_running
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic

LIMIT = 1_048_576
WARM_UP_S = 12
MEASURED_S = 33
"""Three times 11 s, the period of the bursts that Kafka's credit allows."""
RECORD_BYTES = 8 * 1024
FETCH_BYTES = 64 * 1024
PRELOADED_BYTES = 120 << 20
KEYS = {"produce": "producer_byte_rate", "fetch": "consumer_byte_rate"}


class Sample(NamedTuple):
    """One client's rate and usage as the broker counted them at one time."""

    at_s: float
    rate: float
    usage: float


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description="How near to a byte quota clients are kept.")
    parser.add_argument("--credit", choices=("elapsed", "kafka"), default="elapsed")
    settings = {
        "compression.type": "producer",
        "milena.quota.window.credit": parser.parse_args().credit,
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder), brokers=1, overrides=settings) as cluster,
    ):
        stop = threading.Event()
        source = create_topic(cluster, replication_factor=1)
        _preload(cluster.bootstrap, source)
        clients: list[tuple[str, str, Callable[[str, str, str, threading.Event], None]]] = [
            ("librdkafka", "produce", _librdkafka_producer),
            ("kafka-python", "produce", _kafka_python_producer),
            ("librdkafka", "fetch", _librdkafka_consumer),
            ("kafka-python", "fetch", _kafka_python_consumer),
        ]
        threads = []
        for library, quota, run in clients:
            client_id = f"{library}-{quota}"
            with SocketClient.connect(cluster.addresses, "bench") as client:
                alter_quotas(client, QuotaEntity(None, client_id), {KEYS[quota]: float(LIMIT)})
            topic = source if quota == "fetch" else create_topic(cluster, replication_factor=1)
            threads.append(
                threading.Thread(
                    target=run, args=(cluster.bootstrap, client_id, topic, stop), daemon=True
                )
            )
        for thread in threads:
            thread.start()
        stop.wait(WARM_UP_S)
        samples = _watch(DataDir(Path(folder)), {f"{a}-{b}": b for a, b, _ in clients}, stop)
        stop.set()
        print("| client | quota | windowed rate: mean | range | bytes in 10 s: range | in 33 s |")
        print("| --- | --- | --- | --- | --- | --- |")
        for library, quota, _ in clients:
            print(_row(library, quota, samples[f"{library}-{quota}"]))
        for thread in threads:
            thread.join(15)


def _watch(
    data_dir: DataDir, quota_of: dict[str, str], stop: threading.Event
) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {client_id: [] for client_id in quota_of}
    for _ in range(MEASURED_S + 1):
        for state in client_states(read_running(data_dir)):
            row = state.row
            if quota_of.get(row.client_id) == row.quota:
                samples[row.client_id].append(
                    Sample(row.written_wall_ms / 1_000, row.rate, row.usage)
                )
        stop.wait(1.0)
    return samples


def _row(library: str, quota: str, samples: list[Sample]) -> str:
    shares = [sample.rate / LIMIT for sample in samples]
    tens = [_used(first, last) for first, last in zip(samples, samples[10:], strict=False)]
    cells = (
        library,
        quota,
        f"{sum(shares) / len(shares):.1%}",
        f"{min(shares):.1%} - {max(shares):.1%}",
        f"{min(tens):.1%} - {max(tens):.1%}",
        f"{_used(samples[0], samples[-1]):.1%}",
    )
    return f"| {' | '.join(cells)} |"


def _used(first: Sample, last: Sample) -> float:
    """Bytes between two samples, as a share of what the quota allows in that time."""
    return (last.usage - first.usage) / (last.at_s - first.at_s) / LIMIT


def _preload(bootstrap: str, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": FETCH_BYTES})
    for _ in range(PRELOADED_BYTES // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, os.urandom(16) * (RECORD_BYTES // 16))
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def _librdkafka_producer(bootstrap: str, client_id: str, topic: str, stop: threading.Event) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": FETCH_BYTES,
            "queue.buffering.max.messages": 1_000,
            "message.timeout.ms": 60_000,
        }
    )
    while not stop.is_set():
        try:
            producer.produce(topic, bytes(RECORD_BYTES))
        except BufferError:
            producer.poll(0.05)
    producer.purge()


def _librdkafka_consumer(bootstrap: str, client_id: str, topic: str, stop: threading.Event) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": "none",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": FETCH_BYTES,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while not stop.is_set():
        consumer.consume(1_000, 0.1)
    consumer.close()


def _kafka_python_producer(
    bootstrap: str, client_id: str, topic: str, stop: threading.Event
) -> None:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError
    from kafka.producer.future import FutureRecordMetadata

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        batch_size=FETCH_BYTES,
        max_block_ms=60_000,
    )
    waiting = deque[FutureRecordMetadata]()
    with suppress(KafkaError):  # what was not sent by the end is of no interest
        while not stop.is_set():
            waiting.append(producer.send(topic, bytes(RECORD_BYTES)))
            if len(waiting) > 256:  # its own buffer has no end
                waiting.popleft().get(60)
        producer.close(timeout=5)


def _kafka_python_consumer(
    bootstrap: str, client_id: str, topic: str, stop: threading.Event
) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        group_id=None,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    consumer.assign([TopicPartition(topic, 0)])
    while not stop.is_set():
        consumer.poll(100)
    consumer.close()


if __name__ == "__main__":
    main()
