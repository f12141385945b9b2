"""Consumers with `client.rack` read from the follower in their rack, through deaths of brokers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from cluster.brokers.fetching.read_replicas import RACK_AWARE
from cluster.client.missing_offsets import assign_again, lacks_offsets
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.stats_reader import read_stats
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import compiled, java_command
from tests.compat.member_hosts import MemberHost
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name, wait_for_isr
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

BYTES_OUT = BY_KEY["BytesOutPerSec"].name
SESSIONS = BY_KEY["NumIncrementalFetchSessions"].name
RACK = "b"
LEADER, NEAR = 0, 1
RECORDS = 20
VALUE = b"x" * 1_000


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers in racks a, b and c; leadership comes back only when somebody asks for it."""
    overrides = {
        "replica.selector.class": RACK_AWARE,
        "auto.leader.rebalance.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Cluster(tmp_path_factory.mktemp("racks"), overrides=overrides, racks="a,b,c") as made:
        yield made


class Written:
    """Records in partition 0 of a topic, by offset."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1})
        self._topic = topic
        self.count = 0

    def write(self) -> None:
        """Some more, all of them acknowledged."""
        delivered: list[Any] = []
        for _ in range(RECORDS):
            self._producer.produce(
                self._topic, VALUE, partition=0, on_delivery=lambda *told: delivered.append(told)
            )
        self._producer.flush(60)
        assert [error for error, _ in delivered] == [None] * RECORDS
        self.count += RECORDS


@contextmanager
def librdkafka(cluster: Cluster, topic: str) -> Iterator[Callable[[], list[int]]]:
    """Reads by librdkafka; returns the offsets of what it has read so far."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"of {topic}",
            "client.rack": RACK,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
    )
    consumer.subscribe([topic])
    offsets: list[int] = []
    ends = threading.Event()

    def read() -> None:
        while not ends.is_set():
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                offsets.append(int(message.offset() or 0))
            elif lacks_offsets(error):
                assign_again(consumer)
        consumer.close()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lambda: list(offsets)
    finally:
        ends.set()
        reader.join()


@contextmanager
def java(cluster: Cluster, topic: str, directory: Path) -> Iterator[Callable[[], list[int]]]:
    """Reads by Kafka's own client, which also tells the replica that it prefers."""
    classes = compiled("GroupMembers", directory, NEWEST)
    with MemberHost([*java_command(classes, NEWEST), "GroupMembers"]) as host:
        member = host.start(cluster.bootstrap, f"of {topic}", [topic], client="reader", rack=RACK)
        yield lambda: [offset for _, _, offset in member.read]
        wait_until(lambda: counted(cluster, NEAR, SESSIONS) >= 1, "a session in the figures")
        assert NEAR in [event["replica"] for event in member.of_kind("replica")]
        member.leave()


def counted(cluster: Cluster, broker: int, name: str) -> float:
    """A figure of a broker, which is at most a second old."""
    return read_stats(cluster.data_dir / "run" / f"broker-{broker}.stats").values[name]


CLIENTS = ["librdkafka", pytest.param("java", marks=pytest.mark.beyond_pypi)]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_reads_near_it_through_deaths(
    racks: Cluster, client: str, tmp_path: Path
) -> None:
    topic = create_topic(racks, unique_name("near"), assignments=[[LEADER, NEAR, 2]])
    written = Written(racks, topic)
    reads = librdkafka(racks, topic) if client == "librdkafka" else java(racks, topic, tmp_path)
    with reads as offsets:

        def pass_records() -> None:
            written.write()
            wait_until(lambda: len(offsets()) >= written.count, "the records")
            assert offsets() == list(range(written.count))

        def reads_from(broker: int) -> bool:
            before = counted(racks, broker, BYTES_OUT)
            pass_records()
            return counted(racks, broker, BYTES_OUT) - before >= RECORDS * len(VALUE)

        def wait_for_reads_from(broker: int) -> None:
            wait_until(partial(reads_from, broker), f"records from broker {broker}")

        wait_for_reads_from(NEAR)
        racks.kill(NEAR, stay_down=True)
        wait_for_reads_from(LEADER)

        racks.restart(NEAR)
        wait_for_isr(racks, topic, 3)
        wait_for_reads_from(NEAR)

        racks.kill(LEADER, stay_down=True)
        pass_records()
        assert leader(racks, topic, asked=2) == NEAR
        racks.restart(LEADER)
        wait_for_isr(racks, topic, 3)
