"""Client metrics (KIP-714): real clients push them, and Kafka's own tool subscribes to them."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from cluster.client.admin import Admin
from cluster.client.pushed_metrics_requests import pushed_metrics
from cluster.client.security import Servers
from cluster.protocol.peer.pushed_metrics import (
    VALUES_MAX,
    PushedMetricsQuestion,
    PushingClient,
)
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import ToolShell, compiled, java_command
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
PRODUCED = "org.apache.kafka.producer.node.request.latency.avg"
FETCHED = "org.apache.kafka.consumer.node.request.latency.avg"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that asks every client for its latencies twice a second."""
    with Cluster(tmp_path_factory.mktemp("pushes"), brokers=1, dashboard=True) as cluster:
        wanted = "org.apache.kafka.producer.,org.apache.kafka.consumer."
        options = ("--name", "all", "--interval", "500", "--metrics", wanted)
        cluster.command("client-metrics", "--alter", *options)
        create_topic(cluster, "pushed", replication_factor=1)
        yield cluster


def clients(own: Cluster) -> dict[str, PushingClient]:
    """The clients that have pushed, by client id."""
    with Admin(Servers(own.addresses), "test") as admin:
        answers, _ = pushed_metrics(admin, PushedMetricsQuestion(None, (), VALUES_MAX))
    return {each.client_id: each for answer in answers for each in answer.clients}


def names(client: PushingClient) -> set[str]:
    return {each.name for each in client.values}


def test_librdkafka_pushes_and_its_latency_is_shown_beside_the_brokers(own: Cluster) -> None:
    servers = {"bootstrap.servers": own.bootstrap}
    producer = Producer({**servers, "client.id": "rd-producer"})
    consumer = Consumer(
        {**servers, "client.id": "rd-consumer", "group.id": "rd", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["pushed"])

    def have_pushed() -> bool:
        producer.produce("pushed", b"x")
        producer.flush(10)
        consumer.poll(0.1)
        found = clients(own)
        return (
            {"rd-producer", "rd-consumer"} <= found.keys()
            and PRODUCED in names(found["rd-producer"])
            and FETCHED in names(found["rd-consumer"])
        )

    wait_until(have_pushed, "metrics of librdkafka")
    shown = own.command("client-metrics", "--show", "--json", "--client-id", "rd-consumer").stdout
    assert [each["client_id"] for each in json.loads(shown)["clients"]] == ["rd-consumer"]
    found = clients(own)
    assert found["rd-consumer"].software_name == "confluent-kafka-python"
    assert ("group_id", "rd") in found["rd-consumer"].labels

    def shown_latency() -> list[str] | None:
        """The broker's own figures are up to a second old."""
        lines = own.command("client-metrics", "--show").stdout.splitlines()
        rows = [line.split() for line in lines if line.startswith("rd-producer ")]
        return next((row for row in rows if row[1:3] == ["0", "Produce"] and len(row) == 8), None)

    average, _, measured, p50, p99 = wait_until(shown_latency, "both sides' latencies")[3:]
    assert float(average) > 0
    assert float(measured) > 0
    assert float(p50) <= float(p99)
    dashboard = own.state()["dashboard"]
    row = next(
        each
        for each in httpx.get(f"{dashboard}api/pushed").json()["latencies"]
        if each["client_id"] == "rd-producer"
    )
    assert (row["broker"], row["api"]) == (0, "Produce")
    assert row["avg_ms"] > 0
    exported = httpx.get(f"{dashboard}metrics").text.splitlines()
    begin = 'milena_client_pushed_gauge{broker="0",client_id="rd-producer",'
    assert any(line.startswith(begin) and PRODUCED in line for line in exported)
    consumer.close()
    producer.flush(10)


@pytest.mark.beyond_pypi
def test_javas_clients_push_until_they_are_closed(own: Cluster, tmp_path: Path) -> None:
    classes = compiled("PushingClients", tmp_path, NEWEST)
    command = [*java_command(classes, NEWEST), "PushingClients", own.bootstrap, "pushed"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as program:

        def have_pushed() -> bool:
            assert program.poll() is None
            found = clients(own)
            return (
                {"java-producer", "java-consumer"} <= found.keys()
                and PRODUCED in names(found["java-producer"])
                and FETCHED in names(found["java-consumer"])
            )

        wait_until(have_pushed, "metrics of Java's clients")
        program.communicate(b"stop\n", timeout=30)
    found = clients(own)
    assert ("group_id", "java-group") in found["java-consumer"].labels
    assert found["java-consumer"].software_name == "apache-kafka-java"
    assert found["java-consumer"].is_closed
    counters = {each.name: each.value for each in found["java-producer"].values if each.is_counter}
    assert counters["org.apache.kafka.producer.record.send.total"] > 0


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools"), version=NEWEST) as running:
        yield running


Manage = Callable[..., str]


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.beyond_pypi), "ours"])
def manage(request: pytest.FixtureRequest, own: Cluster) -> Manage:
    """Runs kafka-client-metrics, or our command, with the same options; what it prints."""
    if request.param == "ours":
        return lambda *options: own.command("client-metrics", *options).stdout
    shell = request.getfixturevalue("shell")
    return lambda *options: shell.run(TOOL, "--bootstrap-server", own.bootstrap, *options)


def test_the_command_is_kafkas(manage: Manage) -> None:
    match = "client_id=nobody,client_software_name=none.*"
    settings = ("--metrics", "a.,b.", "--interval", "60000", "--match", match)
    assert manage("--alter", "--name", "some", *settings) == (
        "Altered client metrics config for some.\n"
    )
    assert set(manage("--list").split()) == {"all", "some"}
    described = manage("--describe", "--name", "some")
    assert described.splitlines()[0] == "Client metrics configs for some are:"
    assert set(described.splitlines()[1:]) == {
        "  interval.ms=60000",
        f"  match={match}",
        "  metrics=a.,b.",
    }
    manage("--alter", "--name", "some", "--interval", "")
    assert "  interval.ms=300000\n" in manage("--describe", "--name", "some")
    assert manage("--delete", "--name", "some") == "Deleted client metrics config for some.\n"
    assert manage("--describe", "--name", "some") == (
        "The client metric resource some doesn't exist and doesn't have dynamic config.\n"
    )
