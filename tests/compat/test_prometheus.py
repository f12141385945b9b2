"""A real Prometheus scrapes a cluster under load for a minute, in which a broker is killed.

What Grafana's dashboards ask is answered with what their panels say.
"""

import contextlib
import itertools
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from cluster.dashboard.prometheus import exposition
from cluster.datadir.paths import DataDir
from cluster.metrics.stats_reader import read_stats
from tests.compat.dashboard_panels import PANELS, Board, Sample, queries_of
from tests.compat.prometheus_load import Load, running_load
from tests.compat.prometheus_server import (
    CONFIGURATION,
    INTERVAL_S,
    PrometheusServer,
    program,
    running_prometheus,
)
from tests.support.broker_stats import broker_stats, counted
from tests.support.running_cluster import HOST, Cluster
from tests.support.waiting import DEADLINE_S, wait_until
from tests.unit.dashboard.test_prometheus import GROUP, LAGS, LIMITED, PROCESS, families
from tests.unit.dashboard.test_prometheus_page import DASHBOARDS, PARTS, documented

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

MINUTE_S = 60
ESTABLISHED = ('"_count" suffix', '"_sum" suffix', "not 'camelCase'")
"""What promtool says of names and labels that it would choose otherwise."""


class Scene(NamedTuple):
    """A cluster of two brokers under load, and a Prometheus that scrapes it."""

    cluster: Cluster
    prometheus: PrometheusServer
    load: Load
    began_s: float
    """When Prometheus was ready."""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    overrides = {"milena.metrics.group.interval.ms": "1000"}
    with (
        Cluster(folder / "cluster", brokers=2, dashboard=True, overrides=overrides) as cluster,
        running_load(cluster) as load,
        running_prometheus(folder, cluster.dashboard_port) as prometheus,
    ):
        yield Scene(cluster, prometheus, load, time.time())


def samples_of(found: Sequence[Mapping[str, Any]]) -> list[Sample]:
    return [Sample(each["metric"], float(each["value"][1])) for each in found]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_shows_what_it_says(scene, path):
    dashboard = json.loads(path.read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    checks = PANELS[path.stem]
    assert {panel["title"] for panel in panels} == checks.keys()
    queries = queries_of(panels)
    for variable in dashboard["templating"]["list"]:
        queries = {key: text.replace(f"${variable['name']}", ".*") for key, text in queries.items()}
    wrong: list[str] = []

    def is_right() -> bool:
        at_s = time.time()
        answers = {
            key: samples_of(scene.prometheus.ask(text, at_s)) for key, text in queries.items()
        }
        wrong[:] = [
            f"{title}, query {number}" for (title, number), told in answers.items() if not told
        ]
        if not wrong:
            board = Board(answers, scene.load)
            wrong[:] = [title for title, check in checks.items() if not check(board)]
            wrong[:] = [f"{title}: {answers[title, 0]}" for title in wrong]
        return not wrong

    with contextlib.suppress(AssertionError):
        # Rates need two scrapes, and a client is throttled at some moments only.
        wait_until(is_right, "data in every panel")
    assert wrong == []


def raw(prometheus: PrometheusServer, name: str, end_s: float) -> dict[str, list[float]]:
    """For each broker, the times of a series' samples in the minute before."""
    found = prometheus.ask(f"{name}[{MINUTE_S}s]", end_s)
    return {
        each["metric"].get("broker", ""): [moment for moment, _ in each["values"]] for each in found
    }


def falls(scene: Scene, broker: int, end_s: float) -> dict[str, int]:
    """Which counters of a broker fell in the minute before, by name, and how often at most."""
    names = "|".join(
        name + part
        for name, kind in documented()
        if kind != "gauge"
        for part in PARTS.get(kind, ("",))
        if part or kind == "counter"  # a quantile may fall
    )
    selector = f'{{__name__=~"{names}",broker="{broker}"}}[{MINUTE_S}s]'
    found = scene.prometheus.ask(selector, end_s)
    assert len(found) > 200
    fallen: dict[str, int] = {}
    for each in found:
        values = [float(value) for _, value in each["values"]]
        count = sum(later < one for one, later in itertools.pairwise(values))
        if count:
            name = each["metric"]["__name__"]
            fallen[name] = max(count, fallen.get(name, 0))
    return fallen


def test_a_minute_has_no_gap_though_a_broker_is_killed(scene):
    """Scrapes succeed all the time; only the killed broker's counters begin again, once."""
    ask, run = scene.prometheus, DataDir(scene.cluster.data_dir).run
    bytes_in = 'kafka_server_brokertopicmetrics_bytesin_total{broker="1",topic=""}'
    leaders = 'kafka_server_replicamanager_leadercount{broker="1"}'
    wait_until(lambda: (ask.value(bytes_in) or 0) > 0, "traffic of the broker")
    begin_s = max(scene.began_s, time.time() - MINUTE_S / 2)
    before = read_stats(run / "broker-1.stats").pid
    scene.cluster.kill(1, stay_down=True)
    wait_until(lambda: ask.value('kafka_up{broker="1"}') == 0, "the broker to be down")
    assert ask.ask(leaders) == [], "the series of a dead broker end"
    assert ask.value('kafka_up{broker="0"}') == 1
    wait_until(
        lambda: ask.value("sum(kafka_controller_kafkacontroller_activecontrollercount)") == 1,
        "one controller",
    )
    scene.cluster.restart(1)
    wait_until(lambda: ask.value('kafka_up{broker="1"}') == 1, "the broker to be back")
    assert read_stats(run / "broker-1.stats").pid != before
    wait_until(lambda: time.time() >= begin_s + MINUTE_S, "a minute", MINUTE_S + DEADLINE_S)
    end_s = time.time()
    scrapes = raw(ask, "up", end_s)[""]
    assert len(scrapes) >= MINUTE_S // INTERVAL_S - 1
    assert max(later - one for one, later in itertools.pairwise(scrapes)) < 2 * INTERVAL_S
    (up,) = ask.ask(f"min_over_time(up[{MINUTE_S}s])", end_s)
    assert float(up["value"][1]) == 1
    assert raw(ask, "kafka_up", end_s) == {"0": scrapes, "1": scrapes}
    assert falls(scene, 0, end_s) == {}
    fallen = falls(scene, 1, end_s)
    assert set(fallen.values()) == {1}, "twice"
    assert "process_cpu_seconds_total" in fallen
    told = "kafka_server_brokertopicmetrics_bytesin_total"
    grown = ask.value(f'sum(increase({told}{{topic=""}}[{MINUTE_S}s]))')
    assert grown is not None
    most = 20 * scene.load.produce_limit * MINUTE_S
    assert 0 < grown < most, "what was before the restart counts once more"


def test_figures_are_those_of_the_brokers(scene):
    """Everything that one scrape tells of a broker is what its stats file says at that time."""
    path = DataDir(scene.cluster.data_dir).run / "broker-0.stats"
    name = "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec"
    told = "kafka_server_brokertopicmetrics_bytesin_total"
    before = read_stats(path).values[name]
    text = scrape(scene, "/metrics/broker/0").decode()
    after = read_stats(path).values[name]
    (value,) = (
        sample.value
        for family in families(text.encode())
        for sample in family.samples
        if sample.name == told and sample.labels == {"broker": "0"}
    )
    assert before <= value <= after
    ask = scene.prometheus
    limits = wait_until(lambda: ask.ask('milena_quota_limit{quota="produce"}'), "the limit")
    assert {each["metric"]["client_id"] for each in limits} == {scene.load.producer}
    assert {float(each["value"][1]) for each in limits} == {scene.load.produce_limit}
    assert {each["metric"]["rule"] for each in limits} == {"client"}


def scrape(scene: Scene, path: str, accept: str = "") -> bytes:
    url = f"http://{HOST}:{scene.cluster.dashboard_port}{path}"
    asked = urllib.request.Request(url, headers={"accept": accept})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        expected = "application/openmetrics-text" if accept else "text/plain; version=0.0.4"
        assert answer.headers["content-type"].startswith(expected)
        text: bytes = answer.read()
    return text


def test_metrics_of_one_broker_are_served_in_both_formats(scene):
    """The readers are prometheus_client's parsers of the two formats, and promtool."""
    texts = [
        scrape(scene, "/metrics/broker/1"),
        scrape(scene, "/metrics/broker/1", "application/openmetrics-text; version=1.0.0"),
    ]
    assert texts[1].endswith(b"# EOF\n")
    for text in texts:
        found = families(text)
        assert [family.name for family in found if not family.documentation] == []
        brokers = {sample.labels["broker"] for family in found for sample in family.samples}
        assert brokers == {"1"}
    assert b" # {" not in texts[1], "an exemplar"
    assert complaints(scrape(scene, "/metrics")) == []


def complaints(text: bytes) -> list[str]:
    """What promtool finds wrong, besides established names."""
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False
    )
    lines = checked.stderr.decode().splitlines()
    return [line for line in lines if not line.endswith(ESTABLISHED)]


def test_promtool_finds_no_fault_but_established_names():
    brokers = [
        broker_stats(number, **counted(), rows=[LIMITED], groups=[GROUP, *LAGS])
        for number in range(2)
    ]
    assert complaints(exposition(brokers, processes={0: PROCESS}, openmetrics=False)) == []


@pytest.mark.parametrize("is_all", [False, True])
def test_promtool_understands_our_configuration(tmp_path, is_all):
    """`is_all` enables what is commented out: a target for each broker, and the password."""
    text = CONFIGURATION.read_text()
    if is_all:
        text = re.sub(r"^  # (?=- job_name|  )", "  ", text, flags=re.MULTILINE)
        text = text.replace("# basic_auth", "basic_auth")
        assert text.count("- job_name") == 2
        assert text.count("__metrics_path__: /metrics/broker/") == 3
    for folder in ("etc", "var"):  # as in the checkout
        (tmp_path / folder).mkdir()
    (tmp_path / "var" / "dashboard-password").write_text("secret")
    config = tmp_path / "etc" / "prometheus.yml"
    config.write_text(text)
    subprocess.run([program("promtool"), "check", "config", config], check=True)
