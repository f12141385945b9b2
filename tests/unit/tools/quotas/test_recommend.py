"""What `quotas recommend` says of a history; `test_demand.py` is about the history itself."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cluster.tools.main import main

pytest.importorskip("pyarrow", reason="needs the extra `rollup`")

from cluster.analytics.reports import recommendations
from cluster.analytics.reports.recommendations import Demand, Findings, Question
from cluster.analytics.windows.store import LocalStore
from tests.support.metric_records import quota_record
from tests.support.window_directories import written

MIB = 1 << 20
NOISY = Demand(
    level="client",
    quota="produce",
    user=None,
    client_id="noisy",
    rate_max=1.9 * MIB,
    rate_p95=1.0 * MIB,
    seconds=40,
    windows=4,
    seconds_over=10,
    windows_over=1,
    rule="client",
    limit_now=2.0 * MIB,
    windows_throttled=2,
    throttle_ms=2_500,
    names_over=(),
    is_held=True,
)
START = datetime(2026, 11, 20, 10, tzinfo=UTC)


@pytest.fixture
def recommend(monkeypatch, tmp_path, capsys):
    """Runs the command on these demands, and gives what it prints and what it asked."""
    (tmp_path / "rollup").mkdir()
    monkeypatch.setattr("cluster.tools.quotas.recommend.need_java", lambda: None)

    def run(demands, *options: str, status: int = 0):
        asked: list[Question] = []

        def look_back(question, *_):
            asked.append(question)
            own = 0 if question.with_own else 3
            return demands and Findings(START, START, tuple(demands), own)

        monkeypatch.setattr(recommendations, "look_back", look_back)
        words = ["--data-dir", str(tmp_path), "quotas", "recommend", *options]
        assert main(words) == status
        printed = capsys.readouterr()
        return (printed.out or printed.err), (asked or [None])[0]

    return run


def test_the_limit_leaves_the_headroom_and_its_command_is_told(recommend):
    out, _ = recommend([NOISY])
    line = next(line for line in out.splitlines() if line.startswith("client"))
    assert line.split()[:3] == ["client", "noisy", "produce"]
    assert "50 % of windows, 2.5 s" in line
    assert line.endswith(" 2.00 MiB/s *")
    assert "held back by a limit now" in out
    assert "quotas set --client-id=noisy --producer-byte-rate 2097152" in out


def test_headroom_of_a_fifth(recommend):
    out, _ = recommend([NOISY], "--headroom", "20", "--json")
    (found,) = json.loads(out)["recommendations"]
    assert found["limit"] == pytest.approx(1.9 * MIB / 0.8, abs=1)
    assert (found["rate_max"], found["held_back_now"]) == (1.9 * MIB, True)
    assert "if" not in found


def test_a_supposed_limit_is_asked_for_and_its_victims_are_named(recommend):
    everybody = replace(
        NOISY, level="default-client", client_id=None, names=3, names_over=("noisy", "loud")
    )
    out, asked = recommend([NOISY, everybody], "--if", "producer_byte_rate=1MB")
    assert asked.supposed == {"produce": 1_000_000.0}
    assert "1 of 4" in out
    assert "25 %" in out
    assert "default-client: 2 of 3: noisy, loud" in out
    assert "quotas set --client-default --producer-byte-rate" in out


def test_a_supposed_limit_that_nobody_would_notice(recommend):
    out, _ = recommend([replace(NOISY, windows_over=0)], "--if", "producer_byte_rate=1GB")
    assert "no client would have been throttled" in out


def test_percentages_are_rounded_up_to_hundredths():
    demand = replace(NOISY, quota="request", rate_max=9.501)
    assert demand.limit(0.05) == 10.01
    assert replace(demand, rate_max=0.0).limit(0.05) == 0.01


def test_users_are_shown_when_somebody_has_logged_in(recommend):
    anonymous = replace(NOISY, level="user", user="ANONYMOUS", client_id=None)
    out, _ = recommend([NOISY, anonymous])
    assert "ANONYMOUS" not in out
    out, _ = recommend([NOISY, anonymous, replace(anonymous, user="alice")])
    assert "ANONYMOUS" in out
    assert "--user=alice" in out


def test_a_name_from_a_client_is_quoted_for_the_shell_and_for_the_terminal(recommend):
    strange = replace(NOISY, client_id="a\x1b[31m")
    out, _ = recommend([replace(NOISY, client_id="a b'$(rm)"), strange])
    assert "\x1b" not in out
    assert r"a\x1b[31m" in out
    assert """--client-id=a b'"'"'$(rm)' --producer""" in out
    assert out.count("quotas set") == 1, "what cannot be typed is not a command"
    out, _ = recommend([strange], "--json")
    assert json.loads(out)["recommendations"][0]["command"] is None
    out, _ = recommend([strange])
    assert "To set" not in out


def test_milenas_own_clients_are_left_out_unless_they_are_asked_for(recommend):
    out, asked = recommend([NOISY])
    assert not asked.with_own
    assert "Left out: those of 3 of Milena's own clients; --all shows them" in out
    out, _ = recommend([NOISY], "--json")
    assert json.loads(out)["own_clients_left_out"] == 3
    for words in (("--all",), ("--all-clients",), ("--client-id", "noisy")):
        out, asked = recommend([NOISY], *words)
        assert asked.with_own
        assert "own clients" not in out


def test_clients_with_little_load_are_left_out_unless_they_are_asked_for(recommend):
    calm = replace(NOISY, client_id="calm", rate_max=50 * 1024.0, limit_now=None)
    calm = replace(calm, windows_throttled=0, windows_over=0)
    out, _ = recommend([NOISY, calm])
    assert "calm" not in out
    assert (
        "Left out: 1 with little load (below 100 KiB/s, 5.00 %, 1.00 partitions/s) and those of 3"
        " of Milena's own clients; --all shows them" in out
    )
    assert "calm" in recommend([NOISY, calm], "--all")[0]
    assert "calm" in recommend([NOISY, calm], "--client-id", "calm")[0]
    assert len(json.loads(recommend([NOISY, calm], "--json")[0])["recommendations"]) == 2
    assert "No client had a load that needs a limit." in recommend([calm])[0]
    for kept in (
        replace(calm, windows_throttled=1),
        replace(calm, windows_over=1),
        replace(calm, limit_now=1.0),
    ):
        assert "calm" in recommend([kept])[0]


def test_only_ten_commands_are_printed(recommend):
    out, _ = recommend([replace(NOISY, client_id=f"c{number}") for number in range(12)])
    assert out.count("quotas set --client-id=c") == 10
    assert out.endswith("  2 more: --json\n")


def test_nan_is_null_in_json(recommend):
    out, _ = recommend([replace(NOISY, rate_p95=math.nan)], "--json")
    assert json.loads(out)["recommendations"][0]["rate_p95"] is None


def test_a_client_without_a_name_has_no_command(recommend):
    out, _ = recommend([replace(NOISY, client_id="")], "--json")
    (found,) = json.loads(out)["recommendations"]
    assert found["command"] is None
    out, _ = recommend([replace(NOISY, client_id="")])
    assert "(no name)" in out


def test_a_period_without_windows_starts_no_spark(tmp_path):
    place = written(tmp_path / "rollup", [quota_record()])
    for path in place.rglob("*.parquet"):
        path.write_bytes(b"not to be read")
    first = datetime(2026, 11, 21, tzinfo=UTC)
    later = Question(LocalStore(place), first, first + timedelta(days=1))

    def phase(title: str):
        pytest.fail(title)

    assert recommendations.look_back(later, "unused", tmp_path / "log", phase) is None


@pytest.mark.parametrize(
    ("options", "status", "part"),
    [
        (("--headroom", "100"), 2, "from 0 to below 100"),
        (("--top", "0"), 2, "--top: must be 1 or more"),
        (("--since", "yesterday"), 2, "must be a time such as"),
        (("--if", "x=1"), 2, "must be KEY=AMOUNT"),
        (("--since", "2026-11-22"), 1, "no windows from 2026-11-22 00:00:00 UTC in"),
    ],
)
def test_wrong_options_and_an_empty_period_are_one_line(recommend, options, status, part):
    if status == 2:
        with pytest.raises(SystemExit) as ended:
            recommend([NOISY], *options)
        assert ended.value.code == 2
    else:
        out, _ = recommend(None, *options, status=status)
        assert part in out
        assert len(out.splitlines()) == 1
