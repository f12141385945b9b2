"""Apache Kafka in ZooKeeper mode runs unmodified on the built-in registry, and over its restart."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.kafka_process import KafkaProcess, require_kafka
from tests.compat.zookeeper_server import HOST, free_port
from tests.integration.registry_process import RegistryProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

RECORDS = 200


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry", tick_time_ms=2_000) as process:
        yield process


@pytest.fixture
def kafka(registry: RegistryProcess, tmp_path: Path) -> Iterator[KafkaProcess]:
    """A Kafka broker, id 7, registered under /kafka."""
    require_kafka()
    with KafkaProcess(
        tmp_path / "kafka",
        broker_id=7,
        address=(HOST, free_port()),
        registry=f"{HOST}:{registry.port}/kafka",
    ) as process:
        yield process


def produce(bootstrap: str, first: int) -> None:
    failures = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for number in range(first, first + RECORDS):
        producer.produce(
            "orders",
            str(number).encode(),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def test_kafka_runs_on_the_registry(registry: RegistryProcess, kafka: KafkaProcess) -> None:
    client = registry.client()
    bootstrap = kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("orders", 2, 1)], request_timeout=90)["orders"].result(90)
    produce(bootstrap, 0)
    before = client.exists("/kafka/brokers/ids/7").ephemeralOwner
    registry.kill()
    registry.start()
    produce(bootstrap, RECORDS)
    admin.create_topics([NewTopic("later", 1, 1)], request_timeout=90)["later"].result(90)
    wait_until(lambda: client.connected, "the client's connection")
    assert client.exists("/kafka/brokers/ids/7").ephemeralOwner == before
    assert {"orders", "later"} <= set(client.get_children("/kafka/brokers/topics"))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(["orders"])
    read: set[int] = set()

    def is_read() -> bool:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            read.add(int(message.value()))
        return len(read) == 2 * RECORDS

    wait_until(is_read, "every record", 60)
    consumer.close()
    assert registry.log() == ""
