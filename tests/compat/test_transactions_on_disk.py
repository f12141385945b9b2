"""Kafka brokers on our log directories with transactions, and ours on Kafka's."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cluster.log.producer_snapshots import snapshot_offsets
from tests.compat.confluent_records import TIMEOUT_S
from tests.compat.kafka_process import KafkaProcess, require_kafka, run_tool
from tests.compat.test_kafka_log_directories import (
    DUMP,
    joined,
    no_faults,
    offsets_of,
    transact,
    wait_for_leaders,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until
from tests.unit.log.transaction_log import indexed_in

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

NewCluster = Callable[..., Cluster]

OVERRIDES = {"transaction.state.log.num.partitions": "1", "transaction.state.log.min.isr": "1"}
STATE = "__transaction_state"


def begin(bootstrap: str, topic: str) -> Producer:
    """A transaction of one record that stays open."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "open",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, "pending", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    return producer


def read(bootstrap: str, topic: str) -> tuple[list[int], list[int]]:
    """The offsets that consumers with either isolation level are given."""
    return (
        offsets_of(bootstrap, topic, "read_uncommitted"),
        offsets_of(bootstrap, topic, "read_committed"),
    )


def aborts_of(directory: Path) -> list[tuple[int, int, int]]:
    """First, last and last stable offset of each entry of the indexes."""
    return [tuple(each[1:]) for each in indexed_in(directory)]


LONG_RECORDS = 30


def write_long(bootstrap: str, topic: str) -> None:
    """Enough bytes of an idempotent producer for snapshots within its segment."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for _ in range(LONG_RECORDS):
        producer.produce(topic, os.urandom(900_000), partition=0)
        assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("end", ["TERM", "KILL"])
def test_kafka_and_milena_open_each_others_transactions(new_cluster: NewCluster, end: str) -> None:
    require_kafka()
    cluster = new_cluster(brokers=1, overrides=OVERRIDES).start()
    address = cluster.addresses[0]
    ledger = create_topic(cluster, "ledger", replication_factor=1)
    transact(cluster.bootstrap, ledger)  # 2 ends the first transaction, 5 aborts the second
    pending = begin(cluster.bootstrap, ledger)
    assert read(cluster.bootstrap, ledger) == ([0, 1, 3, 4, 6], [0, 1])
    long = create_topic(cluster, "long", replication_factor=1)
    write_long(cluster.bootstrap, long)
    cluster.kill(0, end, stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")
    del pending
    directory = cluster.log_dir(0) / f"{ledger}-0"
    assert aborts_of(directory) == [(3, 5, 6)]
    long_directory = cluster.log_dir(0) / f"{long}-0"
    inner = [offset for offset in snapshot_offsets(long_directory) if 0 < offset < LONG_RECORDS]
    assert len(inner) in (2, 3)
    dumped = [
        *sorted([*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]),
        *sorted(long_directory.glob("*.snapshot")),
    ]
    text = run_tool(DUMP, "--files", joined(dumped))
    assert no_faults(text)
    assert "firstOffset: 3 lastOffset: 5 lastStableOffset: 6" in text

    with KafkaProcess(
        cluster.log_dir(0),
        broker_id=0,
        address=address,
        registry=cluster.state()["registry"],
        overrides={"zookeeper.session.timeout.ms": "6000"},
    ) as kafka:
        wait_for_leaders(address, ledger, STATE)
        assert read(kafka.bootstrap, ledger) == ([0, 1, 3, 4, 6], [0, 1])
        transact(kafka.bootstrap, ledger)  # 9 commits, 12 aborts
        assert read(kafka.bootstrap, ledger) == ([0, 1, 3, 4, 6, 7, 8, 10, 11], [0, 1])
        begin(kafka.bootstrap, ledger)  # 13 aborts the open one first
        everything = [0, 1, 3, 4, 6, 7, 8, 10, 11, 14]
        assert read(kafka.bootstrap, ledger) == (everything, [0, 1, 7, 8])
        if end == "TERM":
            kafka.stop()
        else:
            kafka.kill()
        assert " ERROR " not in kafka.log()
    assert not set(inner).intersection(snapshot_offsets(long_directory))  # Kafka deletes them

    assert cluster.command("verify").stdout.endswith(": no damage\n")
    cluster.restart(0)
    wait_for_leaders(address, ledger, STATE)
    assert read(cluster.bootstrap, ledger) == (everything, [0, 1, 7, 8])
    assert aborts_of(directory) == [(3, 5, 6), (10, 12, 6), (6, 13, 14)]
    assert read(cluster.bootstrap, long)[1] == list(range(LONG_RECORDS))
    producer = begin(cluster.bootstrap, ledger)  # 15 aborts, 16 is committed by 17
    producer.commit_transaction(TIMEOUT_S)
    assert read(cluster.bootstrap, ledger) == ([*everything, 16], [0, 1, 7, 8, 16])
    assert cluster.log_lines(0, "WARNING") == []
