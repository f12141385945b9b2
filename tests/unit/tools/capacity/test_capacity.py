"""`capacity` over directories of windows, through the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.tools.main import main
from tests.support.capacity_history import DAY_S, MIB, Truth, written

WEEK = Truth()


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("week") / "rollup"
    written(place, WEEK.rows(), is_merged=False)
    return place


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hour") / "rollup"
    written(place, Truth(days=1 / 24).rows(), is_merged=False)
    return place


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in an empty data directory; gives status, stdout and stderr."""

    def command(*words: str) -> tuple[int, str, str]:
        try:
            status = main(["capacity", *words, "--data-dir", str(tmp_path / "data")])
        except SystemExit as ended:
            status = int(ended.code or 0)
        return status, *capsys.readouterr()

    return command


def test_a_week_is_reported_as_it_was(week, run, tmp_path):
    html = tmp_path / "page.html"
    status, out, err = run("report", "--rollup", str(week), "--json", "--html", str(html))
    assert (status, err.split(" to ")[0]) == (0, "Page written")
    told = json.loads(out)
    assert told["growth"]["trend"]["percent_per_day"] == pytest.approx(5, abs=0.1)
    assert told["disks"]["first_full"] == told["headroom"]["bottleneck"] == 0
    assert told["disks"]["brokers"][0]["days_until_full"] == pytest.approx(12, abs=0.1)
    assert told["latencies"]["apis"][0]["p99_ratio"] == pytest.approx(2, rel=0.01)
    paces = {each["group"]: each["verdict"] for each in told["lags"]["groups"]}
    assert paces["behind"] == "falls behind"
    assert paces["catching"] == "catches up"
    assert len(told["events"]["rows"]) == 5
    busiest = [(each["weekday"], each["hour"]) for each in told["busy_hours"]["busiest"]]
    assert busiest[0] == (2, 14)
    assert "in 12.0 days" in html.read_text()


def test_a_week_is_supposed_otherwise(week, run):
    status, out, _ = run(
        *("what-if", "--rollup", str(week), "--json", "--brokers", "+1", "--growth", "30%"),
        *("--retention", "2d", "--retention", "held=1h", "--quota", "producer_byte_rate=2MB"),
    )
    assert status == 0
    told = json.loads(out)
    assert told["brokers"] == 4
    assert told["scenario"]["topic_retention_s"] == {"held": 3600}
    assert told["throttled"][0]["client_id"] == "loader"
    first = told["busy"][0]
    assert first["client_bytes_per_s"] == pytest.approx(
        1.3 * 0.75 * first["client_bytes_per_s_now"]
    )
    assert first["model"]["r2"] > 0.99


def test_a_part_of_the_time_can_be_chosen(week, run):
    status, out, _ = run("report", "--rollup", str(week), "--json", "--last", "2h")
    assert status == 0
    told = json.loads(out)
    assert told["period"]["end_s"] - told["period"]["first_s"] <= 2 * 3600
    rates = [WEEK.rate(at) for at in WEEK.steps if at >= told["period"]["first_s"]]
    assert told["growth"]["bytes_in_per_day"] == pytest.approx(
        DAY_S * sum(rates) / len(rates), rel=0.01
    )
    assert told["growth"]["trend"]["verdict"] == "unknown"
    assert len(told["lags"]["groups"]) == 4
    status, out, _ = run(
        *("report", "--rollup", str(week), "--json"),
        *("--since", "2025-01-03", "--until", "2025-01-04"),
    )
    day = sum(WEEK.rate(at) * 600 for at in WEEK.steps if 0 <= at - WEEK.first_s - DAY_S < DAY_S)
    assert json.loads(out)["growth"]["bytes_in_per_day"] == pytest.approx(day, rel=0.01)


def test_text_says_how_figures_were_reached_if_asked(hour, run):
    for words in (["report"], ["what-if", "--growth", "-20%"]):
        status, out, _ = run(*words, "--rollup", str(hour))
        assert status == 0
        assert "How each figure was reached: --explain" in out
        _, explained, _ = run(*words, "--rollup", str(hour), "--explain")
        assert "  How: " in explained


@pytest.mark.parametrize(
    ("words", "brokers", "growth"),
    [
        (["--growth", "-20%"], None, -0.2),
        (["--growth", "-.5%"], None, -0.005),
        (["--growth=-20%"], None, -0.2),
        (["--growth", "30 %"], None, 0.3),
        (["--brokers", "-1"], "-1", 0.0),
        (["--brokers", "-1", "--growth", "-20"], "-1", -0.2),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_a_value_may_begin_with_a_dash(hour, run, words, brokers, growth):
    status, out, err = run("what-if", *words, "--rollup", str(hour), "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)["scenario"]
    assert (told["brokers"], told["growth"]) == (brokers, pytest.approx(growth))


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (["what-if"], 2, "name at least one of"),
        (["what-if", "--brokers", "-3"], 1, "there are 3 brokers in the history"),
        (["what-if", "--brokers", "0"], 2, "must be like +1, -1 or 4"),
        (["what-if", "--brokers", "+1001"], 2, "at most 1,000"),
        (["what-if", "--brokers", "few"], 2, "must be like +1"),
        (["what-if", "--growth", "-json"], 2, "expected one argument"),
        (["what-if", "--growth=-100%"], 2, "must be more than -100%"),
        (["what-if", "--growth", "-120"], 2, "must be more than -100%"),
        (["what-if", "--growth", "nan"], 2, "must be more than -100%"),
        (["what-if", "--growth", "much"], 2, "must be a percentage"),
        (["what-if", "--retention", "long"], 2, "must be like 90s"),
        (["what-if", "--retention", "=3d"], 2, "must be like 3d or orders=3d"),
        (["what-if", "--retention", "3d", "--retention", "2d"], 2, "give one time"),
        (["what-if", "--retention", "nope=3d"], 1, "no windows of topic nope"),
        (["what-if", "--quota", "producer_byte_rate"], 2, "must be KEY=AMOUNT"),
        (["what-if", "--quota", "connection_creation_rate=5"], 2, "limits addresses"),
        (["what-if", "--growth", "5", "--json", "--explain"], 2, "--json has everything"),
        (["report", "--json", "--explain"], 2, "--explain is for the text"),
        (["report", "--until", "2022-01-01"], 1, "there are no windows before 2022"),
        (["report", "--html", "/nonexistent/page.html"], 1, "cannot write"),
        ([], 2, "say what to do: report, what-if"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_invalid_options_are_reported_in_one_line(hour, run, words, status, problem):
    place = ["--rollup", str(hour)] if words else []
    found, _, err = run(*words, *place)
    assert found == status
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert problem in err


def test_without_a_rollup_the_command_that_makes_one_is_named(run, tmp_path):
    status, _, err = run("report")
    assert status == 1
    assert "there are no windows in" in err
    assert "rollup` first" in err
    (tmp_path / "data" / "rollup").mkdir(parents=True)
    status, _, err = run("report")
    assert (status, "there are no windows in" in err) == (1, True)


def test_a_broken_directory_is_one_line(run, tmp_path):
    place = tmp_path / "rollup"
    written(place, Truth(days=0.02).rows())
    for path in place.rglob("*.parquet"):
        path.write_bytes(b"nothing")
    status, _, err = run("report", "--rollup", str(place))
    assert status == 1
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_merged_windows_tell_the_same_as_those_that_wait(run, tmp_path):
    truth = Truth(days=0.1, in_per_s=5 * MIB)
    told = []
    for is_merged in (False, True):
        place = tmp_path / str(is_merged)
        written(place, truth.rows(), is_merged=is_merged)
        told.append(run("report", "--rollup", str(place), "--json")[1])
    assert told[0] == told[1]
