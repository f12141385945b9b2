"""A real Prometheus scrapes a cluster, and answers what Grafana's dashboards ask.

It looks for some ten seconds; for longer with MILENA_TEST_PROMETHEUS_S.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from cluster.dashboard.prometheus import exposition
from cluster.metrics.stats_reader import read_stats
from cluster.supervisor.plan import DataDir
from tests.compat.prometheus_server import (
    INTERVAL_S,
    PrometheusServer,
    program,
    running_prometheus,
)
from tests.support.broker_stats import broker_stats, counted
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic
from tests.support.waiting import DEADLINE_S, wait_until
from tests.unit.dashboard.test_prometheus import GROUP, LAGS, LIMITED
from tests.unit.dashboard.test_prometheus_page import DASHBOARDS, ROOT, expressions

pytestmark = pytest.mark.compat

SECONDS = int(os.environ.get("MILENA_TEST_PROMETHEUS_S", "10"))
ESTABLISHED = ('"_count" suffix', '"_sum" suffix', "not 'camelCase'")
"""What promtool says of names and labels that it would choose otherwise."""


class Scene(NamedTuple):
    """A cluster of two brokers with a limited producer, and a Prometheus that scrapes it."""

    cluster: Cluster
    prometheus: PrometheusServer
    client_id: str


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    client_id = 'loader "1" <b>\N{BALLOON}'
    with Cluster(folder / "cluster", brokers=2, dashboard=True) as cluster:
        cluster.command(
            *("quotas", "set", "--client-id", client_id, "--producer-byte-rate", "1000000")
        )
        topic = create_topic(cluster, assignments=[[0, 1]])
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": client_id})
        for _ in range(500):
            producer.produce(topic, b"x" * 100)
        producer.flush(60)
        with running_prometheus(folder, cluster.dashboard_port) as prometheus:
            yield Scene(cluster, prometheus, client_id)


def test_there_is_no_gap(scene):
    ask, span = scene.prometheus, f"[{SECONDS}s]"
    wait_until(
        # The brokers are up for as long: other tests kill one of them.
        lambda: (
            (ask.value(f"sum(sum_over_time(kafka_up{span}))") or 0) >= 2 * SECONDS // INTERVAL_S
        ),
        "scrapes to be made",
        SECONDS + DEADLINE_S,
    )
    assert ask.value(f"min_over_time(up{span})") == 1
    for broker in range(2):
        # In one query, so that both sides look at the same moment.
        told = f'count_over_time(kafka_up{{broker="{broker}"}}{span})'
        assert ask.value(f"count_over_time(up{span}) - on() {told}") == 0


def test_figures_are_those_of_the_brokers(scene):
    ask = scene.prometheus
    wait_until(
        lambda: ask.value('sum(kafka_server_brokertopicmetrics_messagesin_total{topic=""})') == 500,
        "the records that were produced",
    )
    wait_until(
        lambda: ask.value("sum(kafka_controller_kafkacontroller_activecontrollercount)") == 1,
        "one controller",
    )
    run = DataDir(scene.cluster.data_dir).run
    name = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
    bytes_in = sum(read_stats(run / f"broker-{each}.stats").values[name] for each in range(2))
    found = ask.value('sum(kafka_server_brokertopicmetrics_bytesin_total{topic=""})')
    assert found == bytes_in
    limits = ask.ask('milena_quota_limit{quota="produce"}')
    assert {each["metric"]["client_id"] for each in limits} == {scene.client_id}
    assert {float(each["value"][1]) for each in limits} == {1_000_000.0}
    assert {each["metric"]["rule"] for each in limits} == {"client"}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_query_of_a_dashboard_is_understood(scene, path):
    board = json.loads(path.read_text())
    asked = [text for text in expressions(board["panels"]) if text != "prometheus"]
    variables = [each["name"] for each in board["templating"]["list"]]
    for text in asked:
        for name in variables:
            text = text.replace(f"${name}", ".*")
        scene.prometheus.ask(text)


def test_a_broker_alone_and_both_formats(scene):
    url = f"http://{HOST}:{scene.cluster.dashboard_port}/metrics/broker/1"
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    assert 'broker="1"' in text
    assert 'broker="0"' not in text
    accepts = {"accept": "application/openmetrics-text; version=1.0.0"}
    asked = urllib.request.Request(url, headers=accepts)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert answer.read().endswith(b"# EOF\n")


@pytest.fixture
def without_broker_1(scene: Scene) -> Iterator[None]:
    scene.cluster.kill_now(1)
    yield
    scene.cluster.restart(1)
    wait_until(lambda: scene.prometheus.value("min(kafka_up)") == 1, "the broker to be back")


@pytest.mark.usefixtures("without_broker_1")
def test_a_dead_brokers_series_end(scene):
    ask = scene.prometheus
    wait_until(lambda: ask.value('kafka_up{broker="1"}') == 0, "the broker to be down")
    assert ask.ask('kafka_server_replicamanager_leadercount{broker="1"}') == []
    assert ask.value('kafka_up{broker="0"}') == 1
    wait_until(
        lambda: ask.value("sum(kafka_controller_kafkacontroller_activecontrollercount)") == 1,
        "one controller",
    )


def test_promtool_finds_no_fault_but_established_names():
    brokers = [
        broker_stats(number, **counted(), rows=[LIMITED], groups=[GROUP, *LAGS])
        for number in range(2)
    ]
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=exposition(brokers, openmetrics=False),
        capture_output=True,
        check=False,
    )
    complaints = checked.stderr.decode().splitlines()
    assert [line for line in complaints if not line.endswith(ESTABLISHED)] == []


def test_promtool_understands_our_configuration():
    subprocess.run(
        [program("promtool"), "check", "config", Path("etc/prometheus.yml")], cwd=ROOT, check=True
    )
