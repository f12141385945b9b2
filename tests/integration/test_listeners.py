"""Brokers with two listeners: each client is told of addresses of the one it came in by.

Settings of one listener change in use, and passwords are nowhere to be read.
"""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kazoo.client import KazooClient

from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import DEADLINE_S

BROKERS = 2
ENCODER_SECRET = "blue-encoder-secret"
PASSWORD = "hunter2-of-the-key-store"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = {
        "listeners": "INTERNAL://:0,EXTERNAL://localhost:0",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "password.encoder.secret": ENCODER_SECRET,
    }
    path = tmp_path_factory.mktemp("listeners")
    with Cluster(path, brokers=BROKERS, overrides=overrides) as cluster:
        yield cluster


def addresses(cluster: Cluster, listener: str) -> dict[int, tuple[str, int]]:
    """Where each broker has that listener, as `status --json` says."""
    return {
        broker["id"]: (each["host"], each["port"])
        for broker in cluster.state()["brokers"]
        for each in broker["listeners"]
        if each["name"] == listener
    }


def bootstrap(cluster: Cluster, listener: str) -> str:
    return ",".join(f"{host}:{port}" for host, port in addresses(cluster, listener).values())


@pytest.mark.parametrize("listener", ["INTERNAL", "EXTERNAL"])
def test_metadata_gives_the_addresses_of_the_clients_listener(
    cluster: Cluster, listener: str
) -> None:
    expected = addresses(cluster, listener)
    assert len(expected) == BROKERS
    client = AdminClient({"bootstrap.servers": bootstrap(cluster, listener)})
    brokers = client.list_topics(timeout=DEADLINE_S).brokers
    assert {each.id: (each.host, each.port) for each in brokers.values()} == expected
    nodes = client.describe_cluster(request_timeout=DEADLINE_S).result(DEADLINE_S).nodes
    assert {each.id: (each.host, each.port) for each in nodes} == expected


def test_records_produced_on_one_listener_are_consumed_on_another(cluster: Cluster) -> None:
    topic = create_topic(cluster, partitions=2, replication_factor=BROKERS)
    producer = Producer({"bootstrap.servers": bootstrap(cluster, "EXTERNAL")})
    for number in range(20):
        producer.produce(topic, str(number), str(number))
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap(cluster, "INTERNAL"),
            "group.id": unique_name("readers"),
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        read = [message.value() for message in consumer.consume(20, DEADLINE_S)]
    finally:
        consumer.close()
    assert sorted(read) == sorted(str(number).encode() for number in range(20))


def test_brokers_register_every_listener_with_its_protocol(cluster: Cluster) -> None:
    client = KazooClient(cluster.state()["registry"])
    client.start(timeout=DEADLINE_S)
    try:
        documents = {n: json.loads(client.get(f"/brokers/ids/{n}")[0]) for n in range(BROKERS)}
    finally:
        client.stop()
        client.close()
    for broker, document in documents.items():
        assert document["endpoints"] == [
            "{}://{}:{}".format(name, *addresses(cluster, name)[broker])
            for name in ("INTERNAL", "EXTERNAL")
        ]
        assert document["listener_security_protocol_map"] == {
            "INTERNAL": "PLAINTEXT",
            "EXTERNAL": "PLAINTEXT",
        }


def test_status_shows_each_listener(cluster: Cluster) -> None:
    text = cluster.command("status").stdout
    for name in ("INTERNAL", "EXTERNAL"):
        for host, port in addresses(cluster, name).values():
            assert f"{name}://{host}:{port}" in text


def test_a_password_of_one_listener_changes_in_use_and_is_nowhere_to_be_read(
    cluster: Cluster,
) -> None:
    key = "listener.name.external.ssl.keystore.password"
    client = AdminClient({"bootstrap.servers": bootstrap(cluster, "INTERNAL")})
    entry = ConfigEntry(key, PASSWORD, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    (altered,) = client.incremental_alter_configs([changed]).values()
    altered.result(DEADLINE_S)
    asked = ConfigResource(ConfigResource.Type.BROKER, "1")
    (described,) = client.describe_configs([asked]).values()
    entries = described.result(DEADLINE_S)
    assert (entries[key].value, entries[key].is_sensitive) == (None, True)
    assert entries["password.encoder.secret"].value is None

    registry = KazooClient(cluster.state()["registry"])
    registry.start(timeout=DEADLINE_S)
    try:
        stored = json.loads(registry.get("/config/brokers/1")[0])["config"][key]
    finally:
        registry.stop()
        registry.close()
    assert stored.startswith("keyFactoryAlgorithm:PBKDF2WithHmacSHA512,")

    texts = [cluster.command("status", "--json").stdout]
    texts.append(cluster.command("configs", "--describe", "--broker", "1", "--all").stdout)
    texts += [
        path.read_bytes().decode("latin-1")
        for path in cluster.data_dir.rglob("*")
        if path.is_file()
    ]
    for secret in (PASSWORD, ENCODER_SECRET):
        assert not [text for text in texts if secret in text]
