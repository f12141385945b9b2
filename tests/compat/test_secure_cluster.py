"""Unmodified clients against `start --secure`, each with the file that it made for them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from cluster.datadir.paths import DataDir
from tests.compat.debian_packages import kcat
from tests.compat.kafka_process import ToolShell
from tests.support.running_cluster import Cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

TIMEOUT_S = 30.0
KAFKA_TOPICS = "org.apache.kafka.tools.TopicCommand"
KAFKA_CONFIGS = "kafka.admin.ConfigCommand"
KAFKA_ACLS = "kafka.admin.AclCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    data_dir = tmp_path_factory.mktemp("secure") / "data"
    with Cluster(data_dir, brokers=2, secure=True) as running:
        yield running


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools")) as running:
        yield running


def client_file(cluster: Cluster, name: str) -> Path:
    return DataDir(cluster.data_dir).clients / name


def of_java(cluster: Cluster) -> list[str]:
    """How Kafka's tools connect."""
    config = client_file(cluster, "java.properties")
    return ["--bootstrap-server", cluster.bootstrap, "--command-config", str(config)]


def made_topic(cluster: Cluster, name: str) -> str:
    cluster.command("topics", "--create", "--topic", name, "--replication-factor", "2")
    return name


def settings_of_librdkafka(cluster: Cluster, name: str) -> dict[str, str]:
    """Read the file like librdkafka's own programs."""
    lines = client_file(cluster, name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("name", ["librdkafka.properties", "kcat.conf"])
def test_librdkafka_connects_with_the_file_of_the_cluster(cluster: Cluster, name: str) -> None:
    topic = made_topic(cluster, f"of-{name}")
    settings = settings_of_librdkafka(cluster, name)
    producer = Producer(settings)
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = consumer.consume(1, TIMEOUT_S)
        assert message.value() == b"value"
    finally:
        consumer.close()


@pytest.mark.beyond_pypi
def test_kcat_connects_with_the_file_of_the_cluster(cluster: Cluster) -> None:
    program = kcat()
    topic, config = made_topic(cluster, "of-the-program-kcat"), client_file(cluster, "kcat.conf")

    def run(*words: str, records: str = "") -> str:
        command = [program.path, "-F", str(config), *words]
        return subprocess.run(
            command,
            env=program.environment,
            input=records,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    run("-P", "-t", topic, "-K:", "-X", "acks=all", records="k1:first\nk2:second\n")
    read = run("-C", "-t", topic, "-o", "beginning", "-e", "-f", "%k=%s of partition %p\n")
    assert sorted(line.split(" of ")[0] for line in read.splitlines()) == ["k1=first", "k2=second"]
    assert f'topic "{topic}"' in run("-L", "-t", topic)


def test_kafka_python_connects_with_the_files_of_the_cluster(cluster: Cluster) -> None:
    topic = made_topic(cluster, "of-kafka-python")
    settings = json.loads(client_file(cluster, "kafka-python.json").read_text())
    producer = KafkaProducer(**settings)
    try:
        producer.send(topic, b"value", partition=0).get(TIMEOUT_S)
    finally:
        producer.close()
    consumer = KafkaConsumer(
        topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=int(TIMEOUT_S * 1000)
    )
    try:
        assert next(consumer).value == b"value"
    finally:
        consumer.close()
    admin = KafkaAdminClient(**settings)
    try:
        assert topic in admin.list_topics()
    finally:
        admin.close()


@pytest.mark.beyond_pypi
def test_kafkas_tools_connect_with_the_file_of_the_cluster(
    cluster: Cluster, shell: ToolShell
) -> None:
    java = of_java(cluster)
    shell.run(KAFKA_TOPICS, *java, "--create", "--topic", "of-java", "--partitions", "1")
    wait_until(
        lambda: "of-java" in shell.run(KAFKA_TOPICS, *java, "--list").splitlines(),
        "the brokers to know the topic",
    )
    set_password = "SCRAM-SHA-256=[iterations=8192,password=of java]"
    alice = ("--entity-type", "users", "--entity-name", "alice")
    shell.run(KAFKA_CONFIGS, *java, "--alter", *alice, "--add-config", set_password)
    wait_until(
        lambda: (
            "SCRAM-SHA-256=iterations=8192"
            in shell.run(KAFKA_CONFIGS, *java, "--describe", *alice)
            == cluster.command("configs", "--describe", *alice).stdout
        ),
        "both tools to describe the user alike",
    )


def listed(cluster: Cluster) -> str:
    return cluster.command("acls", "--list").stdout


def entries(text: str) -> list[str]:
    """The lines of a listing in an order of their own: Kafka's are those of a hash table."""
    return sorted(line.strip() for line in text.splitlines() if line.strip())


@pytest.mark.beyond_pypi
@pytest.mark.parametrize(
    "rule",
    [
        "--allow-principal User:alice --producer --topic t1 --idempotent --transactional-id x",
        "--allow-principal User:bob --consumer --topic t2 --group g2",
        "--deny-principal User:eve --deny-host 10.0.0.1 --operation All --topic *",
        "--allow-principal User:* --operation Read --group g- --resource-pattern-type prefixed",
        "--allow-principal User:carol --operation Describe --cluster",
    ],
)
def test_acls_of_kafkas_tool_are_ours_and_said_alike(
    cluster: Cluster, shell: ToolShell, rule: str
) -> None:
    java = of_java(cluster)
    words = rule.split()
    theirs = shell.run(KAFKA_ACLS, *java, "--add", *words)
    added = {line for line in entries(theirs) if line.startswith("(")}
    wait_until(lambda: added <= {*entries(listed(cluster))}, "every broker to know the rules")
    wait_until(
        lambda: entries(shell.run(KAFKA_ACLS, *java, "--list")) == entries(listed(cluster)),
        "both tools to list the same",
    )
    shell.run(KAFKA_ACLS, *java, "--remove", *words, "--force")
    wait_until(lambda: listed(cluster) == "", "every broker to know no rule")
    assert entries(cluster.command("acls", "--add", *words).stdout) == entries(theirs)
    shell.run(KAFKA_ACLS, *java, "--remove", *words, "--force")


@pytest.mark.beyond_pypi
@pytest.mark.parametrize(
    ("protocol", "reason"),
    [("PLAINTEXT", "Timed out"), ("SASL_SSL", "Authentication failed")],
)
def test_a_client_without_what_it_needs_gets_nothing(
    cluster: Cluster, tmp_path: Path, shell: ToolShell, protocol: str, reason: str
) -> None:
    text = client_file(cluster, "java.properties").read_text()
    config = tmp_path / "wrong.properties"
    if protocol == "PLAINTEXT":
        config.write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n")
    else:
        config.write_text(text.replace('password\\="', 'password\\="wrong'))
    told = shell.run(
        KAFKA_TOPICS,
        *("--bootstrap-server", cluster.bootstrap, "--command-config", str(config), "--list"),
        fails=True,
    )
    assert reason in told or "TimeoutException" in told
