"""Clients of every kind on a cluster, for as long as somebody looks: what dashboards show."""

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from cluster.records.builder import NewRecord, build_batch
from tests.support.kafka_wire import ClosedByPeer, WireClient, fetch_request, produce_request
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic

RECORD_BYTES = 10_000
PAUSE_S = 0.1
"""From one round of each client to the next: little work for the machine."""


class Load(NamedTuple):
    """Names of what is there. Limits are of each broker: bytes per second, percent of a thread."""

    topic: str
    group: str
    producer: str
    produce_limit: float
    reader: str
    fetch_limit: float
    asker: str
    request_limit: float


@contextlib.contextmanager
def running_load(cluster: Cluster) -> Iterator[Load]:
    """A producer, a reader and a client that asks often, all three above their limits; a group;
    transactions; and requests that are refused.
    """
    topic = create_topic(cluster, assignments=[[0, 1], [1, 0]])
    load = Load(
        *(topic, "readers", 'loader "1" <b>\N{BALLOON}', 100_000.0),
        *("reader", 60_000.0, "asker", 0.5),
    )
    for client_id, key, limit in (
        (load.producer, "producer-byte-rate", load.produce_limit),
        (load.reader, "consumer-byte-rate", load.fetch_limit),
        (load.asker, "request-percentage", load.request_limit),
    ):
        cluster.command("quotas", "set", "--client-id", client_id, f"--{key}", f"{limit:g}")
    is_over = threading.Event()
    rounds = (_producing, _reading, _in_a_group, _asking, _paying, _refused)
    threads = [threading.Thread(target=each, args=(cluster, load, is_over)) for each in rounds]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def _producing(cluster: Cluster, load: Load, is_over: threading.Event) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": load.producer, "linger.ms": 0}
    )
    while not is_over.wait(PAUSE_S):
        if len(producer) < 200:
            for partition in (0, 1) * 5:
                producer.produce(load.topic, b"x" * RECORD_BYTES, partition=partition)
        producer.poll(0)
    producer.purge()
    producer.flush(10)


def _consume(consumer: Consumer, is_over: threading.Event) -> None:
    while not is_over.wait(PAUSE_S):
        for message in consumer.consume(1_000, timeout=0.1):
            error = message.error()
            assert error is None or error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART, error
    consumer.close()


def _reading(cluster: Cluster, load: Load, is_over: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": load.reader,
            "group.id": "none",
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": 200_000,
        }
    )
    consumer.assign([TopicPartition(load.topic, partition, 0) for partition in (0, 1)])
    _consume(consumer, is_over)


def _in_a_group(cluster: Cluster, load: Load, is_over: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": "member",
            "group.id": load.group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )
    consumer.subscribe([load.topic])
    _consume(consumer, is_over)


def _asking(cluster: Cluster, load: Load, is_over: threading.Event) -> None:
    """One record in each request, and the next one when the answer is there."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": load.asker, "linger.ms": 0}
    )
    while not is_over.wait(PAUSE_S / 10):
        with contextlib.suppress(KafkaException):
            producer.produce(load.topic, b"x")
        producer.flush(1)
    producer.purge()
    producer.flush(10)


def _paying(cluster: Cluster, load: Load, is_over: threading.Event) -> None:
    """Transactions that are committed and aborted in turn."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "paying"})
    producer.init_transactions(30)
    while not is_over.wait(5 * PAUSE_S):
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce(load.topic, b"x" * RECORD_BYTES)
            producer.flush(10)
            end(10)


def _refused(cluster: Cluster, load: Load, is_over: threading.Event) -> None:
    """Partitions that do not exist, of a topic that does."""
    records = bytes(build_batch([NewRecord(b"x")]))
    while not is_over.wait(1):
        for address in cluster.addresses:
            with contextlib.suppress(OSError, ClosedByPeer), WireClient(address) as client:
                client.call(produce_request(load.topic, records, partition=99))
                client.call(fetch_request(load.topic, 0, partition=99))
