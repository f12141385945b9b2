"""`quotas explain` over stats files: who the client is, its windows, its pauses, and what if."""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.quota_pauses import Pauses
from cluster.model.quotas import RULES
from cluster.tools.main import main
from cluster.tools.quotas.what_if import LimitEffect, outcome
from cluster.views.supposed_limits import supposed

NOW_MS = MonotonicMs(0)
"""When a test began."""


@pytest.fixture(autouse=True)
def present(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = MonotonicMs(time.monotonic_ns() // 1_000_000)
    monkeypatch.setattr(sys.modules[__name__], "NOW_MS", now_ms)


def a_row(client_id: str = "loader", user: str = "alice", **fields: Any) -> QuotaRow:
    return QuotaRow(
        **{
            "quota": "produce",
            "rule": "user",
            "limit": 1_000_000.0,
            "rate": 3_000_000.0,
            "window_seconds": 10.0,
            "delay_ms": 20_000,
            "requests": 100,
            "usage": 1_600_000.0,
            "connections": 2,
            "active_ms": NOW_MS,
            "software": "apache-kafka-java 3.9.0",
            "pauses": Pauses(1, 9, 2, 1, 7),
            "samples": ((NOW_MS - 2_000, 5_000.0), (NOW_MS - 1_000, 2_048.0)),
            **fields,
        },
        user=user,
        client_id=client_id,
    )


def written(directory: Path, broker: int, *rows: QuotaRow) -> None:
    """The stats file of a live broker (this process) in a data directory."""
    run = directory / "run"
    run.mkdir(exist_ok=True)
    path = run / f"broker-{broker}.stats"
    stats = MmapStats.create(path, f"broker-{broker}", 0, rows=8, groups_bytes=0)
    for index, row in enumerate(rows):
        stats.write_row(index, row)
    times = {metric.key: metric for metric in BROKER_METRICS}
    for key, value in {"BusyTimeUs": 4_000_000, "ExemptRequestTimeUs": 1_000_000}.items():
        stats.counts[stats.slot(times[key].name, times[key].kind)] = value
    stats.write_time(WallMs(0), NOW_MS)


def explained(directory: Path, capsys: Any, *options: str) -> str:
    assert main(["--data-dir", str(directory), "quotas", "explain", *options]) == 0
    told: str = capsys.readouterr().out
    return told


def test_a_sentence_then_the_limit_with_its_arithmetic(tmp_path, capsys):
    written(tmp_path, 0, a_row(user="ANONYMOUS", rule="client"))
    told = explained(tmp_path, capsys, "--client-id", "loader")
    sentence, limit, arithmetic, *_, last = re.split(r"\n(?=  |-)", told)
    assert sentence.replace("\n", " ").startswith(
        "Client 'loader' is throttled: 2.86 MiB/s against a limit of 977 KiB/s; each answer is"
        " delayed by up to 20.0 s; this client ignores the delay, so the broker mutes it"
    )
    assert limit == "  produce: 977 KiB/s on each broker, set for this client id (rule client)"
    assert arithmetic.startswith(
        "    broker 0: (2,929.69 - 976.56) KiB/s / 976.56 KiB/s x 10.000 s = 20000 ms"
    )
    assert last == "--verbose shows every rule, broker, window and mute.\n"


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_says_whom_it_applies_to(tmp_path, capsys, rule):
    written(tmp_path, 0, a_row(rule=rule))
    assert f" (rule {rule})" in explained(tmp_path, capsys, "--client-id", "loader")


def test_a_user_is_named_where_there_are_users(tmp_path, capsys):
    free: dict[str, Any] = {"limit": None, "rule": None, "delay_ms": 0}
    written(tmp_path, 0, a_row(**free), a_row("other", user="bob"))
    told = explained(tmp_path, capsys, "--client-id", "loader")
    assert told.replace("\n", " ").startswith(
        "Client 'loader' of user alice is not throttled: no limit applies to it; it writes 2.86"
        " MiB/s"
    )


def test_clients_of_a_user_are_told_throttled_first_and_idle_ones_counted(tmp_path, capsys):
    calm = a_row("calm", rate=1_000.0, delay_ms=0)
    idle = a_row("gone", active_ms=NOW_MS - 120_000)
    written(tmp_path, 0, calm, a_row("held"), idle, a_row("milena-top"))
    told = explained(tmp_path, capsys, "--user", "alice")
    assert re.findall("^Client '([^']*)'", told, re.MULTILINE) == ["held", "calm"]
    assert told.endswith(
        "and mute, and 2 more: 1 of Milena's own, 1 without a\nrequest for a minute.\n"
    )
    alone = explained(tmp_path, capsys, "--client-id", "gone")
    assert alone.startswith("Client 'gone' of user alice is idle: no request for 2 min 0")


def test_a_client_its_software_its_windows_and_its_pauses(tmp_path, capsys):
    written(tmp_path, 0, a_row())
    written(tmp_path, 1, a_row(connections=1, pauses=Pauses(5, 1, 1, 1), samples=()))
    told = explained(tmp_path, capsys, "--client-id", "loader", "--verbose")
    assert told.startswith("Client 'loader' of user alice is throttled on both brokers: ")
    assert "\n  software: apache-kafka-java 3.9.0\n" in told
    assert "connections: 2 to broker 0, 1 to broker 1" in told
    assert "broker 0, windows: 4.88 KiB (2.0 s ago), 2.00 KiB (1.0 s ago)" in told
    assert "broker 0, while muted: requests came in 9 of 10 mutes, on 1 of 2" in told
    assert "connections, and in 7 more there were some from before to answer first; it" in told
    assert "it does not honor throttling" in told
    assert "broker 1, while muted: requests came in 1 of 6 mutes, on 1 of 1" in told
    assert "it honors throttling" in told


def test_a_user_alone_means_all_its_clients(tmp_path, capsys):
    written(tmp_path, 0, a_row("one"), a_row("two"), a_row("three", user="bob"))
    told = json.loads(explained(tmp_path, capsys, "--user", "alice", "--json"))
    assert [each["client_id"] for each in told["quotas"]] == ["one", "two"]


def test_json_has_all_of_it(tmp_path, capsys):
    written(tmp_path, 0, a_row())
    written(tmp_path, 1, a_row())
    what = "producer_byte_rate=2MB"
    told = json.loads(explained(tmp_path, capsys, "--client-id", "loader", "--json", "--if", what))
    (quota,) = told["quotas"]
    assert quota["sum"]["connections"] == 4
    (first, _) = quota["brokers"]
    assert first["software"] == "apache-kafka-java 3.9.0"
    assert first["pauses"] == {
        **{"quiet": 1, "early": 9, "ahead": 7},
        **{"connections": 2, "early_connections": 1},
        "honours_throttling": False,
    }
    assert first["windows"] == [
        {"began_ms_ago": 2_000, "usage": 5_000.0},
        {"began_ms_ago": 1_000, "usage": 2_048.0},
    ]
    assert [(each["broker"], each["delay_ms"]) for each in quota["if"]] == [(0, 5_000), (1, 5_000)]


def test_thread_time_is_shown_as_charged_or_exempt(tmp_path, capsys):
    request = {"quota": "request", "limit": None, "rule": None}
    written(tmp_path, 0, a_row(usage=200.0, **request), a_row("other", usage=90.0, **request))
    told = explained(tmp_path, capsys, "--client-id", "loader", "--verbose")
    assert (
        "Broker 0's thread was busy for 4.00 s since it began: 2.90 s are charged to clients,"
        " 1.00 s to nobody, in sum 98 %." in told
    )
    found = json.loads(explained(tmp_path, capsys, "--user", "alice", "--json"))
    thread = found["brokers"][0]["thread"]
    assert thread["accounted_share"] == pytest.approx(0.975)


def test_a_delay_for_what_is_owed_is_said_to_be_so(tmp_path, capsys):
    written(tmp_path, 0, a_row(rate=500_000.0), a_row("two"), a_row("three", delay_ms=25_000))
    told = explained(tmp_path, capsys, "--user", "alice", "--verbose")
    assert "500000 B/s is not above 1000000 B/s: 20000 ms because of what" in told
    assert "x 10.000 s = 20000 ms\n" in told
    assert "x 10.000 s = 20000 ms, but 25000 ms because of what is owed from before" in told


@pytest.mark.parametrize(
    ("quota", "smaller"),
    [("produce", "batches (batch.size)"), ("fetch", "fetches (fetch.max.bytes)"), ("request", "")],
)
def test_a_delay_in_which_clients_reconnect_says_where_it_comes_from(
    tmp_path, capsys, quota, smaller
):
    long = {"quota": quota, "delay_ms": 3_240_000}
    written(tmp_path, 0, a_row(**long), a_row("two", quota=quota, delay_ms=29_999))
    for options in ((), ("--verbose",)):
        told = " ".join(explained(tmp_path, capsys, "--user", "alice", *options).split())
        assert told.count("has another one accepted and counted each time") == bool(smaller)
        assert f"Smaller {smaller} or a higher limit shorten it." in told or not smaller
    one, two = json.loads(explained(tmp_path, capsys, "--user", "alice", "--json"))["quotas"]
    assert [bool(each["brokers"][0]["why_long"]) for each in (one, two)] == [bool(smaller), False]


def test_explain_applies_another_limit(tmp_path, capsys):
    written(tmp_path, 0, a_row())
    told = explained(
        *(tmp_path, capsys, "--client-id", "loader"),
        *("--if", "producer_byte_rate=2MB", "--if", "consumer_byte_rate=1MB"),
    )
    assert "if producer_byte_rate were 1.91 MiB/s:" in told
    assert "broker 0: (2.86 - 1.91) MiB/s / 1.91 MiB/s x 10.000 s = 5000 ms; its" in told
    assert "= 5000 ms; its traffic would go on at 67 % of its speed" in told
    assert "one request of its average size every 8 ms" in told
    assert "It is held back by its limit now" in told
    assert "if consumer_byte_rate were 977 KiB/s: nobody named here used anything of it" in told


def test_the_arithmetic_of_what_if():
    row = a_row(rate=500_000.0, requests=0)
    assert outcome(row, 1_000_000.0, NOW_MS) == LimitEffect(0, 1.0, 0.0, is_held_now=False)
    capped = a_row(quota="request", limit=None, rate=50.0, delay_max_ms=1_000)
    assert outcome(capped, 10.0, NOW_MS).delay_ms == 1_000
    assert not outcome(capped, 10.0, NOW_MS).is_held_now
    assert supposed("request_percentage = 12.5").limit == 12.5


def test_explain_applies_a_limit_of_topic_changes(tmp_path, capsys):
    changes: dict[str, Any] = {
        **{"quota": "mutation", "limit": None, "rule": None, "rate": 6.0, "delay_ms": 0},
        **{"requests": 20, "usage": 60.0},
        "samples": ((NOW_MS - 9_000, 30.0), (NOW_MS - 1_000, 30.0)),
    }
    written(tmp_path, 0, a_row(**changes))
    what = "controller_mutation_rate=2"
    told = explained(tmp_path, capsys, "--client-id", "loader", "--if", what)
    assert "if controller_mutation_rate were 2.00 partitions/s:" in told
    # Of 22 tokens: -8 after the first 30, 8 until the next 30, then -22, and 2 came since.
    assert "broker 0: 10000 ms until the tokens, 2 a second, are no longer below zero" in told
    assert "its traffic would go on at 33 % of its speed" in told
    assert "A burst of 11.0 s worth is supposed" in told
    found = json.loads(explained(tmp_path, capsys, "--user", "alice", "--json", "--if", what))
    assert found["quotas"][0]["if"][0]["delay_ms"] == 10_000
    enough = explained(
        *(tmp_path, capsys, "--client-id", "loader", "--if", "controller_mutation_rate=5")
    )
    assert "the tokens are not below zero: no delay" in enough


@pytest.mark.parametrize(
    ("options", "status", "line"),
    [
        ([], 2, "name a client: --client-id, --user or both"),
        (["--client-id", "x"], 1, "no broker has heard of client x within the last hour"),
        (["--user", "u"], 1, "no broker has heard of user u within the last hour"),
        (["--user", "u", "--client-id", "x"], 1, "no broker has heard of client x of user u"),
        (["--user", "u", "--if", "speed=1"], 2, "must be KEY=AMOUNT with a key of producer_byte"),
        (
            ["--user", "u", "--if", "connection_creation_rate=1"],
            2,
            "connection_creation_rate limits addresses, of whose connections nothing is told here",
        ),
        (["--user", "u", "--if", "producer_byte_rate=1X"], 2, "not a size: 1X"),
    ],
)
def test_explain_reports_invalid_options_in_one_line(tmp_path, capsys, options, status, line):
    written(tmp_path, 0, a_row())
    try:
        found = main(["--data-dir", str(tmp_path), "quotas", "explain", *options])
    except SystemExit as exit_:
        found = int(str(exit_.code))
    told = capsys.readouterr()
    assert found == status
    assert line in told.err.strip().splitlines()[-1]
    assert told.out == ""


def test_a_file_of_another_version_is_named(tmp_path, capsys):
    run = tmp_path / "run"
    run.mkdir()
    (run / "broker-7.stats").write_bytes(b"MILSTAT2" + bytes(5_000))
    assert main(["--data-dir", str(tmp_path), "quotas", "explain", "--user", "alice"]) == 1
    line = "broker-7.stats has layout 2, not 4: restart broker 7"
    assert capsys.readouterr().err.startswith(f"error: {line}")
    written(tmp_path, 0, a_row())
    assert main(["--data-dir", str(tmp_path), "quotas", "explain", "--user", "alice"]) == 0
    assert capsys.readouterr().err.startswith(f"warning: {line}")
