"""Stock clients through TLS: who they are by their certificates, what is said of the wrong ones."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer, KafkaProducer

from cluster.runtime.certificates import Identity, name_of, trust_store_pkcs12
from tests.compat.kafka_process import run_tool
from tests.support.running_cluster import Cluster
from tests.support.tls import PASSWORD, a_client, a_server, authority, client_context, pem_store
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.compat

RECORDS = [b"one", b"two", b"x" * 300_000, b"the last"]
RULES = "RULE:^CN=([^,]*),O=Milena$/$1/U,DEFAULT"
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"


class Place(NamedTuple):
    """A running cluster, its listeners' addresses, and files of clients."""

    cluster: Cluster
    ports: dict[str, int]
    ca: Path
    directory: Path

    def at(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def log(self) -> str:
        return (self.cluster.data_dir / "logs" / "broker-0.log").read_text()

    def client_file(self, identity: Identity, name: str) -> str:
        path = self.directory / f"{name}.pem"
        path.write_bytes(identity.key_pem() + identity.chain_pem())
        return str(path)

    def librdkafka(self, listener: str, certificate: str | None = None) -> dict[str, str]:
        config = {
            "bootstrap.servers": self.at(listener),
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
        }
        if certificate is not None:
            config |= {"ssl.certificate.location": certificate, "ssl.key.location": certificate}
        return config


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("tls")
    source = pem_store(a_server(), directory / "server.pem")
    ca = directory / "ca.pem"
    ca.write_bytes(authority().identity.certificate_pem())
    overrides = {
        "listeners": "PLAINTEXT://:0,SSL://:0,MUTUAL://:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": source.location,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": RULES,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:ALICE",
        "password.encoder.secret": "an encoder's secret",
    }
    with Cluster(directory / "data", brokers=1, overrides=overrides) as cluster:
        (broker,) = cluster.state()["brokers"]
        ports = {each["name"]: each["port"] for each in broker["listeners"]}
        yield Place(cluster, ports, ca, directory)


@pytest.fixture(scope="module")
def alice(place: Place) -> str:
    return place.client_file(a_client(), "alice")


@pytest.fixture
def topic(place: Place) -> str:
    return create_topic(place.cluster, unique_name("tls"), replication_factor=1)


def produce(topic: str, config: dict[str, str]) -> list[KafkaError | None]:
    """What the delivery of each record came to."""
    errors: list[KafkaError | None] = []
    producer = Producer(config | {"message.timeout.ms": "20000"})
    for record in RECORDS:
        producer.produce(topic, record, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    return errors


def consume(topic: str, config: dict[str, str]) -> list[bytes]:
    consumer = Consumer(
        config | {"group.id": unique_name("readers"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        return [each.value() for each in consumer.consume(len(RECORDS), DEADLINE_S)]
    finally:
        consumer.close()


def test_confluent_kafka_exchanges_records_over_tls(place: Place, topic: str) -> None:
    config = place.librdkafka("SSL")
    assert produce(topic, config) == [None] * len(RECORDS)
    assert consume(topic, config) == RECORDS


def test_confluent_kafka_is_who_its_certificate_says(place: Place, topic: str, alice: str) -> None:
    config = place.librdkafka("MUTUAL", alice)
    assert produce(topic, config) == [None] * len(RECORDS)
    assert consume(topic, config) == RECORDS
    bob = place.client_file(a_client(name_of("bob", "Milena")), "bob")
    errors = produce(topic, place.librdkafka("MUTUAL", bob))
    assert {each.code() for each in errors} == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert "User:BOB" in place.log()


def test_kafka_python_exchanges_records_over_tls(place: Place, topic: str, alice: str) -> None:
    tls = {
        "bootstrap_servers": place.at("MUTUAL"),
        "security_protocol": "SSL",
        "ssl_cafile": str(place.ca),
        "ssl_certfile": alice,
        "ssl_keyfile": alice,
    }
    producer = KafkaProducer(**tls)
    for record in RECORDS:
        producer.send(topic, record)
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **tls)
    assert [next(consumer).value for _ in RECORDS] == RECORDS
    consumer.close()


def test_aiokafka_exchanges_records_over_tls(place: Place, topic: str, alice: str) -> None:
    context = client_context()
    context.load_cert_chain(alice)
    tls = {
        "bootstrap_servers": place.at("MUTUAL"),
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    async def both() -> list[bytes]:
        async with AIOKafkaProducer(**tls) as producer:
            for record in RECORDS:
                await producer.send_and_wait(topic, record)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **tls) as consumer:
            return [(await consumer.getone()).value for _ in RECORDS]

    assert asyncio.run(asyncio.wait_for(both(), DEADLINE_S)) == RECORDS


@pytest.mark.beyond_pypi
@pytest.mark.slow
def test_kafkas_tools_exchange_records_with_pkcs12_stores(place: Place, topic: str) -> None:
    trusted, own = place.directory / "trust.p12", place.directory / "alice.p12"
    trusted.write_bytes(trust_store_pkcs12([authority().identity.certificate], PASSWORD))
    own.write_bytes(a_client().pkcs12("alice", PASSWORD))
    config = place.directory / "java.properties"
    config.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PKCS12\nssl.truststore.location={trusted}\n"
        f"ssl.truststore.password={PASSWORD}\n"
        f"ssl.keystore.type=PKCS12\nssl.keystore.location={own}\n"
        f"ssl.keystore.password={PASSWORD}\nssl.key.password={PASSWORD}\n"
    )
    server = ("--bootstrap-server", place.at("MUTUAL"))
    produced = run_tool(
        "kafka.tools.ConsoleProducer",
        *(*server, "--producer.config", str(config), "--topic", topic),
        stdin="by Java\n",
    )
    assert "ERROR" not in produced
    read = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*server, "--consumer.config", str(config), "--topic", topic),
        *("--from-beginning", "--max-messages", "1"),
    )
    assert "by Java" in read


@pytest.mark.parametrize("version", ["1_2", "1_3"])
def test_openssl_completes_the_handshake(place: Place, version: str) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    done = subprocess.run(
        [
            *("openssl", "s_client", "-connect", place.at("SSL"), f"-tls{version}"),
            *("-CAfile", str(place.ca), "-verify_return_error", "-servername", "localhost"),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert "Verify return code: 0 (ok)" in done.stdout
    assert "Secure Renegotiation IS supported" in done.stdout or version == "1_3"


def test_clients_that_take_one_listener_for_the_other_are_named(place: Place) -> None:
    plain = AdminClient({"bootstrap.servers": place.at("SSL")})
    secure = AdminClient({"bootstrap.servers": place.at("PLAINTEXT"), "security.protocol": "SSL"})
    wait_until(
        lambda: (
            plain.poll(0),
            secure.poll(0),
            "plaintext on an SSL listener" in place.log()
            and "TLS on a plaintext listener" in place.log(),
        )[-1],
        "both lines in the log",
    )


def test_a_certificate_is_replaced_by_altering_its_listener(place: Place, topic: str) -> None:
    renewed = a_server()
    source = pem_store(renewed, place.directory / "renewed.pem")
    admin = AdminClient({"bootstrap.servers": place.at("PLAINTEXT")})
    change = ConfigEntry(
        "listener.name.ssl.ssl.keystore.location",
        source.location,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=[change])
    (result,) = admin.incremental_alter_configs([resource]).values()
    result.result(DEADLINE_S)
    address = ("localhost", place.ports["SSL"])

    def shown() -> bool:
        pem = ssl.get_server_certificate(address)
        return pem.encode() == renewed.certificate_pem()

    wait_until(shown, "the new certificate")
    assert produce(topic, place.librdkafka("SSL")) == [None] * len(RECORDS)
