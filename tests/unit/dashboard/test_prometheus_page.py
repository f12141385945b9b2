"""docs/prometheus.md names all exported families, and Grafana's dashboards query nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.dashboard.prometheus import exposition
from cluster.dashboard.prometheus_page import page
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.addresses import DASHBOARD_PORT
from cluster.views.cluster_health import NOT_RUNNING
from tests.support.broker_stats import broker_stats, counted
from tests.support.pushing_clients import pushed_answer, pushed_value, pushing_client
from tests.unit.dashboard.test_prometheus import GROUP, LAGS, LIMITED, PROCESS, families

ROOT = Path(__file__).parents[3]
PUSHED = pushed_answer(pushing_client(pushed_value("a", 1), pushed_value("b", 1, is_counter=True)))
DASHBOARDS = sorted((ROOT / "etc" / "grafana" / "dashboards").glob("*.json"))
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|", re.MULTILINE)
NAME = re.compile(r"\b(?:kafka|milena|process)_\w+")
PARTS = {"summary": ("", "_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}
TIMERS = {
    f"kafka_{timer}{part}"
    for timer in (
        "controller_controllerstats_leaderelectionrateandtimems",
        "log_logflushstats_logflushrateandtimems",
        "server_addpartitionstotxnmanager_verificationfailurerate",
    )
    for part in ("", "_sum")
}
"""Only the number of these is known."""


def documented() -> set[tuple[str, str]]:
    """The name in the table, and its type."""
    return set(ROW.findall(page()))


def sample_names() -> set[str]:
    """The names of all samples in the page."""
    return {name + part for name, kind in documented() for part in PARTS.get(kind, ("",))}


def expressions(node: Any) -> Iterator[str]:
    """Every query of a dashboard, and those of its variables."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "query") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def test_the_page_is_current():
    assert (ROOT / "docs" / "prometheus.md").read_text() == page()


def test_the_page_names_what_is_exported_and_nothing_else():
    rows = [
        LIMITED,
        *(QuotaRow(quota=quota, user="u", client_id="c") for quota in ("fetch", "request")),
        QuotaRow(quota="mutation", user="u", client_id="c"),
    ]
    brokers = [broker_stats(**counted(), rows=rows, groups=[GROUP, *LAGS])]
    exported = {
        (sample.name, family.type)
        for family in families(
            exposition(
                brokers,
                processes={0: PROCESS},
                health=NOT_RUNNING,
                pushed=[PUSHED],
                openmetrics=False,
            )
        )
        for sample in family.samples
    }
    by_type = {
        (name + part, kind) for name, kind in documented() for part in PARTS.get(kind, ("",))
    }
    assert exported == {each for each in by_type if each[0] not in TIMERS}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_query_what_is_exported(path):
    asked = {
        name for text in expressions(json.loads(path.read_text())) for name in NAME.findall(text)
    }
    assert asked
    assert asked - sample_names() == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards_are_valid_for_grafana(path):
    board = json.loads(path.read_text())
    assert (board["uid"], board["schemaVersion"] >= 36) == (path.stem, True)
    declared = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", path.read_text()))
    assert used - {name for name in used if name.startswith("__")} <= declared
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        fields = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not fields & taken, f"{panel['title']} lies on another panel"
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= fields
        targets = panel.get("targets", [])
        assert (panel["type"] == "row") == (not targets)
        assert len({target["refId"] for target in targets}) == len(targets)
        assert all(target["datasource"] == panel["datasource"] for target in targets)


def test_the_quota_dashboard_has_the_panels_that_people_know():
    board = json.loads((ROOT / "etc" / "grafana" / "dashboards" / "kafka-quotas.json").read_text())
    titles = [panel["title"] for panel in board["panels"] if panel["type"] == "timeseries"]
    assert titles[:6] == [
        *("Produce Byte Rate", "Fetch Byte Rate", "Request Time"),
        *("Produce Throttle Time", "Fetch Throttle Time", "Request Throttle Time"),
    ]
    limited = [
        panel["title"]
        for panel in board["panels"]
        if any("milena_quota_limit" in text for text in expressions(panel))
    ]
    assert limited == titles[:3]


def test_the_configuration_asks_the_port_where_the_dashboard_listens():
    text = (ROOT / "etc" / "prometheus.yml").read_text()
    ports = set(re.findall(r'targets: \["localhost:(\d+)"\]', text))
    assert ports == {str(DASHBOARD_PORT)}
