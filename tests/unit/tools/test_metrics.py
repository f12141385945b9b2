"""`metrics` and the lines of `status` about groups, from stats files that brokers left."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.records import (
    GroupFigures,
    PartitionLag,
    group_record,
    lag_records,
)
from cluster.datadir.paths import DataDir
from cluster.metrics.broker_metrics import BY_KEY
from cluster.metrics.mmap_stats import MmapStats
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.protocol.api import ApiKey
from cluster.tools.main import main
from cluster.views.client_states import read_brokers
from cluster.views.group_lags import group_lags, groups_table, lags_table
from tests.support.broker_stats import pass_request

NOW_MS = time.time_ns() // 1_000_000


def a_broker(run: Path, number: int = 0) -> MmapStats:
    """The file of a broker that is alive: it is this process."""
    run.mkdir(exist_ok=True)
    stats = MmapStats.create(run / f"broker-{number}.stats", f"broker-{number}", 0)
    counters = BrokerCounters(stats, [])
    counters.set("NumGroups", 2)
    counters.set("BytesInPerSec", 1_234_567)
    counters.set_real("RequestHandlerAvgIdlePercent", 0.984)
    stats.write_time(WallMs(NOW_MS), MonotonicMs(time.monotonic_ns() // 1_000_000))
    return stats


def a_group(
    name: str, lags: dict[tuple[str, int], int | None], ts: int = NOW_MS, **others: Any
) -> tuple[bytes, list[bytes]]:
    """The lines of a group that has committed 100 everywhere."""
    known = [lag for lag in lags.values() if lag is not None]
    fields: dict[str, Any] = {
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "generation": 3,
        "members": 2,
        "state_ms": {"PreparingRebalance": 200, "Stable": 4_800},
    }
    figures = GroupFigures(
        group=name,
        partitions=len(lags),
        partitions_unknown=len(lags) - len(known),
        lag=sum(known),
        lag_max=max(known, default=0),
        **{**fields, **others},
    )
    rows = []
    for (topic, number), lag in lags.items():
        end = None if lag is None else 100 + lag
        one = PartitionLag(number, end, 100)
        rows += [each.value for each in lag_records(0, WallMs(ts), 5_000, name, topic, [one])]
    return group_record(0, WallMs(ts), 5_000, figures).value, rows


def write(stats: MmapStats, *groups: tuple[bytes, list[bytes]]) -> None:
    lines = [group for group, _ in groups] + [row for _, rows in groups for row in rows]
    stats.write_groups(b"".join(line + b"\n" for line in lines))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def metrics(capsys: pytest.CaptureFixture[str], run: Path, *words: str) -> tuple[int, str, str]:
    status = main(["metrics", "--data-dir", str(run.parent), *words])
    return status, *capsys.readouterr()


def test_the_overview(run, capsys):
    write(
        a_broker(run),
        a_group("mailer", {("orders", 0): 0, ("orders", 1): 7}),
        a_group("billing", {("orders", 0): 1_500, ("audit", 2): None}, state="Empty", members=0),
    )
    a_broker(run, 1)
    status, out, err = metrics(capsys, run, "--totals")
    assert (status, err) == (0, "")
    brokers, groups, lags = out.split("\n\n")
    lines = [line.split() for line in brokers.splitlines()]
    assert lines[0] == ["METRIC", "UNIT", "BROKER", "0", "BROKER", "1"]
    assert ["BytesInPerSec", "bytes", "total", "1,234,567", "1,234,567"] in lines
    assert ["NumGroups", "groups", "gauge", "2", "2"] in lines
    assert [line for line in lines[1:] if line[3:] == ["0", "0"]] == []
    left_out = re.search(r"\.\.\. and (\d+) metrics that are 0 on every broker: --all", brokers)
    assert left_out is not None
    _, everything, _ = metrics(capsys, run, "--totals", "--all")
    assert len(everything.split("\n\n")[0].splitlines()) == len(lines) - 1 + int(left_out[1])
    assert ["RequestHandlerAvgIdlePercent", "ratio", "gauge", "0.98", "0.98"] in lines
    assert [line.split() for line in groups.splitlines()] == [
        ["GROUP", "TYPE", "STATE", "MEMBERS", "PARTITIONS", "LAG"],
        ["billing", "classic", "Empty", "0", "2", "1,500", "+", "1", "unknown"],
        ["mailer", "classic", "Stable", "2", "2", "7"],
    ]
    assert [line.split() for line in lags.splitlines()] == [
        ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "LOG-END", "LAG"],
        ["billing", "orders", "0", "100", "1,600", "1,500"],
        ["mailer", "orders", "1", "100", "107", "7"],
        ["billing", "audit", "2", "100", "-", "-"],
        ["mailer", "orders", "0", "100", "100", "0"],
    ]


def test_one_group(run, capsys):
    write(a_broker(run), a_group("g", {("t", number): number for number in range(30)}))
    status, out, _ = metrics(capsys, run, "--group", "g")
    assert status == 0
    assert "\nIn the last 5.0 s: Stable 4.8 s, PreparingRebalance 200 ms\n" in out
    assert len(out.splitlines()) == 2 + 1 + 1 + 1 + 30
    status, out, err = metrics(capsys, run, "--group", "other\n")
    assert (status, out) == (1, "")
    assert err.startswith("error: no broker has reported group other")
    assert err.count("\n") == 1


def test_much_is_cut_on_the_screen_and_whole_as_json(run, capsys):
    many = [a_group(f"g{number}", {("t", 0): number, ("t", 1): 0}) for number in range(25)]
    write(a_broker(run), *many)
    _, out, _ = metrics(capsys, run, "--totals")
    assert "... and 5 groups more: --group, --json" in out
    assert "... and 30 partitions more: --group, --json" in out
    _, out, _ = metrics(capsys, run, "--totals", "--json")
    found = json.loads(out)
    assert [group["group"] for group in found["groups"]] == [f"g{n}" for n in reversed(range(25))]
    first = found["groups"][0]
    assert first["lags"][0] == {
        "topic": "t",
        "partition": 0,
        "log_end": 124,
        "committed": 100,
        "lag": 24,
    }
    assert (first["lag"], first["lag_max"], first["state_ms"]["Stable"]) == (24, 24, 4_800)
    assert found["brokers"][0]["values"]["BytesInPerSec"] == 1_234_567


def test_rates_are_measured_between_two_looks(run, capsys, monkeypatch):
    stats = a_broker(run)

    def work(seconds: float) -> None:
        assert seconds == 2.0
        counters = BrokerCounters(stats, [])
        counters.set("BytesInPerSec", 1_234_567 + 5_000)
        now_ms = time.monotonic_ns() // 1_000_000
        stats.write_time(WallMs(NOW_MS), MonotonicMs(now_ms + 2_000))

    monkeypatch.setattr("cluster.tools.metrics.time.sleep", work)
    _, out, _ = metrics(capsys, run, "--interval", "2", "--match", "bytesin", "--json")
    values = json.loads(out)["brokers"][0]["values"]
    assert values.keys() == {"BytesInPerSec", "ReplicationBytesInPerSec"}
    assert 2_300 < values["BytesInPerSec"] <= 2_500


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["--match", "nonsense", "--totals"], 1, "no metric has nonsense in its name"),
        (["--group", "g", "--totals"], 2, "--group shows no other metrics"),
        (["--all", "--topics"], 2, "--all chooses among the metrics"),
        (["--match", "isr", "--requests"], 2, "--match chooses among the metrics"),
        (["--topics", "--requests"], 2, "--topics and --requests show different things"),
        (["--match", "nonsense", "--describe"], 1, "no metric has nonsense in its name"),
        (["--interval", "0.1"], 2, "must be 0.5 or more"),
        (["--interval", "soon"], 2, "must be a number of seconds"),
    ],
)
def test_wrong_usage_is_one_line(run, capsys, words, status, reason):
    a_broker(run)
    try:
        found = metrics(capsys, run, *words)
    except SystemExit as ended:  # argparse
        found = (int(str(ended.code)), *capsys.readouterr())
    assert found[0] == status
    assert reason in found[2]


def test_without_a_cluster_it_says_so(tmp_path, capsys):
    status, out, err = metrics(capsys, tmp_path / "run")
    assert (status, out, err.count("\n")) == (1, "", 1)


def test_requests_have_their_rate_and_times_by_part(run, capsys):
    for number in range(2):
        stats = a_broker(run, number)
        counters = BrokerCounters(stats, [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FETCH])
        for _ in range(20):
            pass_request(counters, ApiKey.PRODUCE, 9)
            begin, ms = 10**9, 10**6
            counters.times.note(
                *(ApiKey.PRODUCE, 1, begin, begin + ms, begin + 3 * ms, begin + 30 * ms),
                *(200, begin + 31 * ms, begin + 32 * ms),
            )
        pass_request(counters, ApiKey.METADATA, 9)
        counters.store()
    status, out, err = metrics(capsys, run, "--requests", "--totals")
    assert (status, err) == (0, "")
    head, *lines = [line.split() for line in out.splitlines()]
    assert head == [
        *("API", "REQUESTS", "MS", "TOTAL", "QUEUE", "LOCAL", "REMOTE"),
        *("RESP-QUEUE", "SEND", "THROTTLE"),
    ]
    produce, produce_p99, metadata, _ = lines
    assert produce[:3] == ["Produce", "40", "p50"]
    assert produce_p99[0] == "p99"
    assert metadata == ["Metadata", "2", "p50", *["-"] * 7]
    true_ms = (32, 1, 2, 27, 1, 1, 200)
    for cells in (produce[3:], produce_p99[1:]):
        for told, true in zip(cells, true_ms, strict=True):
            assert true / 2.1 <= float(told) <= true * 2.1
    status, out, _ = metrics(capsys, run, "--totals", "--json")
    first = json.loads(out)["requests"][0]
    assert (first["api"], first["requests"]) == ("Produce", 40)
    assert first["times"]["TotalTimeMs"]["mean"] == 32
    assert first["times"]["ThrottleTimeMs"].keys() == {"p50", "p99", "mean"}


def test_requests_are_those_between_two_looks(run, capsys, monkeypatch):
    stats = a_broker(run)
    counters = BrokerCounters(stats, [ApiKey.PRODUCE, ApiKey.METADATA])
    pass_request(counters, ApiKey.METADATA, 9)
    counters.store()

    def work(_seconds: float) -> None:
        for _ in range(10):
            pass_request(counters, ApiKey.PRODUCE, 9)
        counters.store()
        now_ms = time.monotonic_ns() // 1_000_000
        stats.write_time(WallMs(NOW_MS), MonotonicMs(now_ms + 2_000))

    monkeypatch.setattr("cluster.tools.metrics.time.sleep", work)
    _, out, _ = metrics(capsys, run, "--requests")
    assert [line.split()[0] for line in out.splitlines()] == ["API", "Produce", "p99"]
    stats.write_time(WallMs(NOW_MS), MonotonicMs(time.monotonic_ns() // 1_000_000))
    monkeypatch.setattr("cluster.tools.metrics.time.sleep", lambda _seconds: None)
    assert metrics(capsys, run, "--requests") == (0, "no requests\n", "")


def test_describe_works_without_a_cluster(tmp_path, capsys):
    status, out, _ = metrics(capsys, tmp_path / "run", "--describe", "--match", "LocalTime")
    assert status == 0
    head, *lines = out.splitlines()
    assert head.split() == ["KEY", "NAME", "KIND", "UNIT", "MEANING"]
    assert [line.split()[0] for line in lines] == ["LocalTimeMs"]
    assert lines[0].split()[2:4] == ["histogram", "ms"]
    _, out, _ = metrics(capsys, tmp_path / "run", "--describe", "--json")
    told = json.loads(out)
    assert {row["key"] for row in told} >= BY_KEY.keys()
    assert all(row["unit"] and row["meaning"] for row in told)


# -- the groups of several brokers -----------------------------------------------------------------


def looked_at(run: Path, now_ms: int = NOW_MS) -> list[tuple[str, int]]:
    found = group_lags(read_brokers(DataDir(run.parent)), now_ms)
    return [(group.name, group.lag) for group in found]


def test_a_group_that_moved_counts_once_where_it_is_now(run):
    write(a_broker(run), a_group("g", {("t", 0): 5}, ts=NOW_MS - 1_000), a_group("h", {}))
    write(a_broker(run, 1), a_group("g", {("t", 0): 9}))
    assert looked_at(run) == [("g", 9), ("h", 0)]


def test_stats_of_a_dead_broker_count_for_half_a_minute(run):
    write(a_broker(run), a_group("g", {("t", 0): 5}))
    (dead,) = run.iterdir()
    content = bytearray(dead.read_bytes())
    content[8:16] = (2**31 - 2).to_bytes(8, "little")  # no process has that id
    dead.write_bytes(content)
    assert looked_at(run) == [("g", 5)]
    assert looked_at(run, NOW_MS + 30_001) == []


def test_lines_of_another_version_are_passed_over(run):
    stats = a_broker(run)
    group, rows = a_group("g", {("t", 0): 5})
    stats.write_groups(b"\n".join([b"{", b"[]", b'{"kind":"new"}', rows[0], group, b""]))
    assert looked_at(run) == [("g", 5)]


def test_foreign_names_stay_on_their_line(run):
    write(a_broker(run), a_group("a\nb\x1b[31m", {("t", 0): 5}), a_group("", {}))
    found = group_lags(read_brokers(DataDir(run.parent)), NOW_MS)
    assert len(groups_table(found).splitlines()) == 3
    assert "\x1b" not in groups_table(found) + lags_table(found)
    assert "(empty id)" in groups_table(found)


def test_topics_of_all_brokers_are_added_up(run, capsys):
    for number in range(2):
        stats = a_broker(run, number)
        stats.write_topic(
            1, "orders", [1_000, 10, 0, 1, 0, 0, 0, 5_000 * (number + 1), 2, 1, 0, 0, 0, 0]
        )
        stats.write_topic(2, "small", [0] * 14)
    status, out, _ = metrics(capsys, run, "--topics", "--totals")
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[0][:3] == ["TOPIC", "MESSAGES", "BYTES-IN"]
    assert lines[1] == ["orders", "20", "2,000", "0", "15,000", "2", "0"]
    assert lines[2][0] == "small"
    status, out, _ = metrics(capsys, run, "--totals", "--json")
    assert json.loads(out)["brokers"][1]["topics"]["orders"]["Size"] == 10_000
