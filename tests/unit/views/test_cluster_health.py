"""Up, degraded or down, and what is the matter: every kind, in the words that people see."""

from pathlib import Path
from typing import Any

import pytest

from cluster.metrics.broker_metrics import BY_KEY
from cluster.views.client_states import DEAD, SILENT, BrokerStats
from cluster.views.cluster_health import (
    DEGRADED,
    DOWN,
    KINDS,
    NOT_RUNNING,
    STATES,
    UP,
    Disk,
    cluster_health,
)
from tests.support.broker_stats import broker_stats

MIB = 1 << 20


def a_state(*processes: str, **fields: Any) -> dict[str, Any]:
    """The supervisor's answer: the states of brokers 0, 1, ..."""
    return {
        "state": "up",
        "data_dir": "/var",
        "controller": 0,
        "registry_process": {"state": "running"},
        "brokers": [
            {"id": number, "state": process, "log_dirs": [f"/var/broker-{number}"]}
            for number, process in enumerate(processes)
        ],
        **fields,
    }


def figures(broker: int, state: str = "alive", age_ms: int = 40, **values: int) -> BrokerStats:
    made = broker_stats(
        broker, state=state, values={BY_KEY[key].name: value for key, value in values.items()}
    )
    return BrokerStats(made.broker, made.state, age_ms, made.stats)


def test_a_cluster_whose_brokers_all_serve_is_up() -> None:
    health = cluster_health(a_state("running", "running"), [figures(0), figures(1)], {})
    assert (health.state, health.problems) == (UP, ())
    assert health.text == "2 of 2 brokers serve"


def test_a_cluster_without_a_serving_broker_is_down() -> None:
    state = a_state("restarting", "paused", controller=None)
    health = cluster_health(state, [], {})
    assert health.state == DOWN
    assert health.text == (
        "0 of 2 brokers serve; broker 0 is restarting; broker 1 is paused; no broker is the"
        " controller"
    )
    assert cluster_health(None, [], {}) == NOT_RUNNING
    assert NOT_RUNNING.state == DOWN


@pytest.mark.parametrize("phase", ["starting", "stopping", "stopped"])
def test_while_it_starts_or_stops_the_state_says_so(phase: str) -> None:
    assert cluster_health(a_state("starting", "running", state=phase), [], {}).state == phase
    assert phase in STATES


@pytest.mark.parametrize(
    ("state", "stats", "disks", "kind", "text"),
    [
        (
            a_state("running", "stopped (stays down)"),
            [],
            {},
            "broker_down",
            "broker 1 is stopped (stays down)",
        ),
        (a_state("running", "recovering"), [], {}, "broker_down", "broker 1 is recovering"),
        (a_state("running", "paused"), [], {}, "broker_paused", "broker 1 is paused"),
        (
            a_state("running", "running"),
            [figures(0), figures(1, SILENT, 5_400)],
            {},
            "broker_paused",
            "broker 1 is paused or stuck: no figures for 5 s",
        ),
        (
            a_state("running", registry_process={"state": "restarting"}),
            [],
            {},
            "registry_down",
            "the registry is restarting",
        ),
        (
            a_state("running"),
            [],
            {"/var/registry": Disk(3 * MIB, 128 * MIB)},
            "registry_disk_full",
            "the registry's disk is full: 3.0 MiB of 128.0 MiB are free in /var/registry",
        ),
        (
            a_state("running", controller=None),
            [],
            {},
            "no_controller",
            "no broker is the controller",
        ),
        (
            a_state("running"),
            [figures(0, OfflinePartitionsCount=2)],
            {},
            "partitions_offline",
            "2 partitions have no leader",
        ),
        (
            a_state("running", "running"),
            [figures(0, UnderMinIsrPartitionCount=1), figures(1)],
            {},
            "below_min_isr",
            "1 partition is below min.insync.replicas",
        ),
        (
            a_state("running"),
            [figures(0, OfflineLogDirectoryCount=1)],
            {},
            "log_dir_failed",
            "1 log directory of broker 0 failed",
        ),
        (
            a_state("running"),
            [figures(0, FullLogDirectoryCount=1)],
            {"/var/broker-0": Disk(10 * MIB, 120 * MIB)},
            "log_dir_full",
            "a log directory of broker 0 is full: 10.0 MiB of 120.0 MiB are free in /var/broker-0",
        ),
    ],
)
def test_each_thing_that_is_the_matter_degrades_it(
    state: dict[str, Any], stats: list[BrokerStats], disks: dict[str, Disk], kind: str, text: str
) -> None:
    health = cluster_health(state, stats, disks)
    assert health.state == DEGRADED
    assert [(problem.kind, problem.text) for problem in health.problems] == [(kind, text)]
    assert kind in KINDS


def test_brokers_that_share_a_full_disk_are_told_of_together() -> None:
    stats = [figures(number, FullLogDirectoryCount=1) for number in range(3)]
    shared, own = Disk(10 * MIB, 120 * MIB, 7), Disk(1 * MIB, 90 * MIB, 8)
    disks = {"/var/broker-0": shared, "/var/broker-1": own, "/var/broker-2": shared}
    health = cluster_health(a_state("running", "running", "running"), stats, disks)
    assert [problem.text for problem in health.problems] == [
        "log directories of brokers 0 and 2 are full: 10.0 MiB of 120.0 MiB are free in"
        " /var/broker-0 and 1 more",
        "a log directory of broker 1 is full: 1.0 MiB of 90.0 MiB are free in /var/broker-1",
    ]


def test_figures_of_dead_brokers_and_short_silence_do_not_count() -> None:
    stats = [figures(0, SILENT, 2_000), figures(1, DEAD, OfflinePartitionsCount=4)]
    assert cluster_health(a_state("running", "running"), stats, {}).state == UP


def test_json_holds_the_whole_health() -> None:
    health = cluster_health(a_state("running", "paused"), [], {})
    assert health.to_json() == {
        "state": "degraded",
        "text": "1 of 2 brokers serve; broker 1 is paused",
        "brokers_serving": 1,
        "brokers": 2,
        "problems": [{"kind": "broker_paused", "text": "broker 1 is paused", "broker": 1}],
    }


def test_the_page_of_states_names_every_kind() -> None:
    page = (Path(__file__).parents[3] / "docs" / "status.md").read_text()
    for kind, text in KINDS.items():
        assert f"| `{kind}` | {text} |" in page
