"""Transactions of clients that stay open, and ones that no coordinator knows."""

import time

from confluent_kafka import Producer

from cluster.model.errors import ErrorCode
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from tests.support.kafka_wire import WireClient, produce_to
from tests.support.running_cluster import Cluster
from tests.support.topics import leader

TIMEOUT_S = 30.0
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""Settings of a cluster in which `hang` works."""


def begin(
    cluster: Cluster, transactional_id: str, topic: str, partition: int = 0, *, records: int = 1
) -> Producer:
    """A producer with an open transaction of so many records."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "client.id": f"client-of-{transactional_id}",
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    go_on(producer, topic, partition, records=records)
    return producer


def go_on(producer: Producer, topic: str, partition: int = 0, *, records: int = 1) -> None:
    """Begin a transaction and wait until its records are written."""
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, b"v%d" % number, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def hang(
    cluster: Cluster,
    topic: str,
    partition: int = 0,
    *,
    producer_id: int,
    epoch: int = 0,
    age_ms: int = 0,
    records: int = 1,
) -> int:
    """Begin a transaction in a partition without its coordinator; where it begins.

    The cluster is one that does not verify transactions.
    """
    written_ms = time.time_ns() // 1_000_000 - age_ms
    batch = build_batch(
        [NewRecord(b"v%d" % number, None, written_ms) for number in range(records)],
        producer=ProducerIdentity(producer_id, epoch, 0),
        is_transactional=True,
    )
    asked = produce_to((topic, partition, bytes(batch)), transactional_id="nobody's")
    with WireClient(cluster.addresses[leader(cluster, topic, partition)]) as client:
        ((answer,),) = (each.partition_responses for each in client.call(asked).responses)
    assert answer.error_code == ErrorCode.none
    return int(answer.base_offset)
