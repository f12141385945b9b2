"""The page's answer to another size equals the command's, and names its command line."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.capacity.scenario import ImpossibleScenario, Scenario
from cluster.analytics.capacity.supposed import scenario_of, written_scenario
from cluster.dashboard.recent_history import NoHistory
from cluster.dashboard.what_if_view import what_if_command, what_if_view
from cluster.model.finite_json import finite
from cluster.tools.arguments import with_signed_values
from cluster.tools.capacity.command import add_parser
from cluster.tools.command_parser import CommandParser
from cluster.tools.main import main
from tests.support.capacity_history import Truth, written

TRUTH = Truth(days=0.1)
EVERYTHING = written_scenario(
    *("+1", "30%", ["3d", "orders=90m"], ["producer_byte_rate=2MB", "request_percentage=12.5"])
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("history") / "rollup"
    written(made, TRUTH.rows(), is_merged=False)
    return made


def view(place: Path, scenario: Scenario) -> dict[str, Any]:
    return what_if_view(place, scenario, (TRUTH.end_s + 3600) * 1000, "bin/cluster")


@pytest.mark.slow
def test_the_figures_are_those_of_the_command(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = view(place, EVERYTHING)
    words = shlex.split(told["command"])[1:]
    assert main([*words, "--rollup", str(place), "--json"]) == 0
    assert json.loads(json.dumps(finite(told["what_if"]))) == json.loads(capsys.readouterr().out)
    assert main([*words, "--rollup", str(place)]) == 0
    text = capsys.readouterr().out
    assert told["supposed"] in text
    assert told["first"] in text
    for table in told["tables"]:
        assert table["title"] in text
        assert table["how"]
        for row in table["rows"]:
            assert len(row) == len(table["columns"])
            assert all(cell in text for cell in row)


@pytest.mark.slow
def test_view_covers_cpu_network_disks_and_clients(place: Path) -> None:
    told = view(place, EVERYTHING)
    tables = {table["title"]: table for table in told["tables"]}
    assert list(tables) == ["Processors", "Network", "Final size of logs", "Throttled client ids"]
    assert [row[0] for row in tables["Processors"]["rows"]] == ["0", "1", "2", "3 (new)"]
    assert tables["Throttled client ids"]["rows"][0][0] == "loader"
    alone = view(place, Scenario(growth=0.3))
    assert "Throttled client ids" not in [table["title"] for table in alone["tables"]]


@pytest.mark.parametrize(
    "scenario",
    [
        EVERYTHING,
        Scenario("-1"),
        Scenario("4", -0.2),
        Scenario(growth=0.123456789),
        Scenario(retention_s=90.0, topic_retention_s={"it's": 3600.0, "a=b": 60.0}),
        Scenario(quotas={"fetch": 1e12, "request": 0.01}),
    ],
)
def test_command_line_has_the_same_scenario(scenario: Scenario) -> None:
    parser = CommandParser()
    add_parser(parser.add_subparsers())
    line = what_if_command("bin/cluster", scenario)
    given = parser.parse_args(with_signed_values(shlex.split(line)[1:]))
    found = scenario_of(given.brokers, given.growth, given.retention, given.quotas)
    assert found == scenario


def test_impossible_scenario_names_its_field(place: Path) -> None:
    for scenario, field in (
        (Scenario("-3"), "brokers"),
        (Scenario(topic_retention_s={"nope": 60.0}), "retention"),
    ):
        with pytest.raises(ImpossibleScenario) as problem:
            view(place, scenario)
        assert problem.value.field == field


def test_view_is_empty_without_a_history(tmp_path: Path) -> None:
    with pytest.raises(NoHistory, match="not written any window yet"):
        view(tmp_path / "rollup", EVERYTHING)
    (tmp_path / "rollup").mkdir()
    with pytest.raises(NoHistory, match="no window of the last 28 days"):
        view(tmp_path / "rollup", EVERYTHING)
