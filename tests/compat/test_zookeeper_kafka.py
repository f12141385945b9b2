"""Apache Kafka in ZooKeeper mode runs unmodified on the built-in registry, and over its restart."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.kafka_jvm import class_path, fetch
from tests.compat.zookeeper_server import HOST, free_port, may_install
from tests.integration.registry_process import RegistryProcess
from tests.support.waiting import wait_until

RECORDS = 200


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry", tick_time_ms=2_000) as process:
        yield process


@pytest.fixture
def bootstrap(registry: RegistryProcess, tmp_path: Path) -> Iterator[str]:
    """A Kafka broker, id 7, registered under /kafka."""
    jars = class_path()
    if jars is None and may_install():
        problem = fetch()
        if problem:
            pytest.skip(problem)
        jars = class_path()
    if jars is None:
        pytest.skip("no Apache Kafka; `python -m tests.compat.kafka_jvm` fetches it")
    address = f"{HOST}:{free_port()}"
    config = tmp_path / "server.properties"
    config.write_text(
        f"""broker.id=7
listeners=PLAINTEXT://{address}
log.dirs={tmp_path}/kafka
zookeeper.connect={HOST}:{registry.port}/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
    )
    with (tmp_path / "kafka.log").open("w") as log:
        process = subprocess.Popen(
            [
                "java",
                "-Xmx512m",
                "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.showDateTime=true",
                "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
                "-cp",
                jars,
                "kafka.Kafka",
                str(config),
            ],
            stdout=log,
            stderr=log,
        )
    yield address
    process.terminate()
    process.wait(30)


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


def knows_its_controller(bootstrap: str) -> bool:
    """Kafka answers Metadata before it knows itself, and librdkafka asks again only much later.

    So each look is a new client's.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        return admin.list_topics(timeout=5).controller_id == 7
    except KafkaException:
        return False


def test_kafka_runs_on_the_registry(registry: RegistryProcess, bootstrap: str) -> None:
    client = registry.client()
    wait_until(lambda: client.exists("/kafka/brokers/ids/7"), "the registration", 90)
    wait_until(lambda: knows_its_controller(bootstrap), "Kafka's start", 90)
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
