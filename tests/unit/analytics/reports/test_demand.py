"""The limits that fit a history, by Spark, equal those of plain Python for the same windows."""

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from cluster.model.quotas import RULES
from tests.support.spark import need_spark

need_spark()

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from cluster.analytics.reports.recommendations import (  # noqa: E402
    LEVELS,
    Demand,
    Question,
    history,
    window_files,
)
from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from cluster.analytics.windows.directory import WindowDirectory  # noqa: E402
from cluster.analytics.windows.kinds import HISTOGRAM  # noqa: E402
from cluster.analytics.windows.store import LocalStore  # noqa: E402
from tests.support.metric_records import START_MS, quota_record  # noqa: E402
from tests.support.window_directories import merge_all, piece, reached  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One JVM for all tests: it costs seconds and a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

START = datetime(2026, 11, 20, 23, 59, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("broker", pa.int32()),
        *((name, pa.string()) for name in ("user", "client_id", "quota", "rule")),
        *((name, pa.float64()) for name in ("limit", "usage_sum", "rate_max")),
        ("throttled", pa.int64()),
        ("throttle_ms_sum", pa.float64()),
        ("records", pa.int64()),
        ("histogram", HISTOGRAM),
    ]
)
CLIENTS = [("alice", "a"), ("alice", "b"), ("bob", "b"), ("ANONYMOUS", "c"), ("ANONYMOUS", "")]
SUPPOSED = {"produce": 120.0, "request": 9.0}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator["SparkSession"]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


def generated(seed: int, windows: int) -> list[Row]:
    """Windows of clients under all kinds of rules, some of early versions, without a histogram."""
    dice = Random(seed)
    rows = []
    for number in range(windows):
        for broker in (0, 1):
            for user, client_id in CLIENTS:
                for quota, most in (("produce", 200), ("request", 16)):
                    if dice.random() < 0.3:
                        continue
                    rule = dice.choice([None, None, "user", "default-user", "client", *RULES])
                    # Multiples of a quarter, whose sums do not depend on the order.
                    rates = [dice.randrange(4 * most) / 4 for _ in range(dice.randrange(1, 11))]
                    rows.append(
                        {
                            "window_start": START + number * timedelta(seconds=10),
                            "broker": broker,
                            "user": user,
                            "client_id": client_id,
                            "quota": quota,
                            "rule": rule,
                            "limit": most / 2 if rule else None,
                            "usage_sum": dice.choice([0.0, 64.0, 192.0]),
                            "rate_max": max(rates),
                            "throttled": dice.randrange(3) if rule else 0,
                            "throttle_ms_sum": 8.0 if rule else 0.0,
                            "records": len(rates),
                            "histogram": None if dice.random() < 0.1 else codes_of(rates),
                        }
                    )
    return rows


def codes_of(rates: list[float]) -> list[tuple[int, int]]:
    """The histogram of rates: the upper half of each as a 32-bit float, and its count."""
    codes = [struct.unpack(">I", struct.pack(">f", rate))[0] >> 16 for rate in rates]
    return sorted(Counter(codes).items())


def rates_of(row: Row) -> list[float]:
    """The rates that a window represents: middles of buckets, but the highest exactly."""
    if row["histogram"] is None:
        return [row["rate_max"]] * row["records"]
    *lower, (_, highest_count) = row["histogram"]
    rates = []
    for code, count in lower:
        (middle,) = struct.unpack(">f", struct.pack(">I", code << 16 | 0x8000))
        rates += [middle if code else 0.0] * count
    return [*rates, *[row["rate_max"]] * highest_count]


def question(place: Path, first: datetime = START, **how: Any) -> Question:
    """A question about all windows from a time on."""
    end = how.pop("end", START + timedelta(days=9))
    return Question(LocalStore(place), first, end, **how)


def written(place: Path, rows: list[Row]) -> list[Path]:
    path = place / "windows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return [path]


def budget(row: Row) -> tuple[Any, ...]:
    rule = row["rule"] or ""
    return (
        *(row[name] for name in ("window_start", "broker", "quota", "rule", "limit")),
        None if rule in ("client", "default-client") else row["user"],
        None if rule in ("user", "default-user") else row["client_id"],
    )


def expected(rows: list[Row], level: str) -> dict[tuple[Any, ...], Row]:
    """The usage of every user, client id or pair that the rule `level` would apply to, by quota."""
    used: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        used[budget(row)].append(row["usage_sum"])
    entities: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["rule"] is None or RULES.index(row["rule"]) >= RULES.index(level):
            all_used = used[budget(row)]
            share = row["usage_sum"] / sum(all_used) if any(all_used) else 1 / len(all_used)
            rates = rates_of(row)
            name = (
                row["user"] if "user" in level else None,
                row["client_id"] if "client" in level else None,
                row["quota"],
            )
            entities[name].append({**row, "rates": [rate * share for rate in rates]})
    return {name: summary(found, name[2]) for name, found in entities.items()}


def summary(rows: list[Row], quota: str) -> Row:
    places: dict[tuple[Any, ...], dict[tuple[Any, ...], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        place = places[row["window_start"], row["broker"]]
        place[row["user"], row["client_id"]] += row["rates"]
    limit = SUPPOSED.get(quota, math.inf)
    seconds, windows_over = [], 0
    for clients in places.values():
        ordered = [sorted(rates, reverse=True) for rates in clients.values()]
        longest = max(map(len, ordered))
        added = [
            sum(rates[rank] for rates in ordered if rank < len(rates)) for rank in range(longest)
        ]
        seconds += added
        windows_over += max(added) > limit
    seconds.sort()
    return {
        "rate_max": pytest.approx(seconds[-1]),
        "rate_p95": pytest.approx(seconds[math.ceil(len(seconds) * 0.95) - 1]),
        "seconds": len(seconds),
        "windows": len(places),
        "seconds_over": sum(rate > limit for rate in seconds),
        "windows_over": windows_over,
        "windows_throttled": len(
            {(row["window_start"], row["broker"]) for row in rows if row["throttled"]}
        ),
        "throttle_ms": sum(row["throttle_ms_sum"] for row in rows),
    }


def values(demand: Demand) -> Row:
    names = ("rate_max", "rate_p95", "seconds", "windows", "seconds_over", "windows_over")
    return {name: getattr(demand, name) for name in (*names, "windows_throttled", "throttle_ms")}


def test_every_level_equals_plain_python(spark, tmp_path):
    rows = generated(seed=7, windows=13)
    found = history(spark, question(tmp_path, supposed=SUPPOSED), written(tmp_path, rows))
    assert found is not None
    assert (found.first, found.last) == (START, START + timedelta(seconds=120))
    for level in LEVELS:
        wanted = expected(rows, level)
        demands = [demand for demand in found.demands if demand.level == level]
        if level.startswith("default-"):
            for demand in demands:
                parts = [part for name, part in wanted.items() if name[2] == demand.quota]
                assert demand.names == len(parts)
                assert demand.windows == sum(part["windows"] for part in parts)
                assert demand.seconds_over == sum(part["seconds_over"] for part in parts)
                assert len(demand.names_over) == sum(part["windows_over"] > 0 for part in parts)
                assert demand.rate_max in [part["rate_max"] for part in parts]
        else:
            assert {
                (demand.user, demand.client_id, demand.quota): values(demand) for demand in demands
            } == wanted


def test_a_part_of_the_history_and_an_empty_one(spark, tmp_path):
    rows = generated(seed=8, windows=12)
    paths = written(tmp_path, rows)
    first, end = START + timedelta(seconds=20), START + timedelta(seconds=50)
    asked = question(tmp_path, first, end=end, levels=("user+client",))
    found = history(spark, asked, paths)
    assert found is not None
    assert (found.first, found.last) == (first, end - timedelta(seconds=10))
    kept = [row for row in rows if first <= row["window_start"] < end]
    assert {demand.windows for demand in found.demands} == {
        part["windows"] for part in expected(kept, "user+client").values()
    }
    assert history(spark, question(tmp_path, START + timedelta(days=1)), paths) is None


def test_milenas_own_clients_get_no_limits_but_count_for_users(spark, tmp_path):
    names = {"a": "milena-topics", "b": "loader-1"}
    rows = [
        {**row, "client_id": names.get(row["client_id"], row["client_id"])}
        for row in generated(seed=9, windows=3)
    ]
    paths = written(tmp_path, rows)
    without = history(spark, question(tmp_path), paths)
    everybody = history(spark, question(tmp_path, with_own=True), paths)
    assert (without.own_clients, everybody.own_clients) == (1, 0)
    of_clients = {each.client_id for each in everybody.demands if each.level == "client"}
    assert of_clients - {each.client_id for each in without.demands} == {"milena-topics"}
    for level in ("user", "default-user"):
        told, all_told = (
            [each for each in found.demands if each.level == level]
            for found in (without, everybody)
        )
        assert told == all_told


def test_visible_files_and_the_deltas_of_open_hours_are_looked_at(spark, tmp_path):
    """Deltas of an hour that was merged before replace its file, so nothing counts twice."""
    place, folder = tmp_path / "rollup", tmp_path / "copies"
    folder.mkdir()
    hour_ms = 3_600_000
    rates = {second: 1000.0 + second for second in range(1, 31)}
    with WindowDirectory.open(LocalStore(place)) as directory:
        for number, (start_ms, seconds) in enumerate(
            [(START_MS, range(1, 11)), (START_MS + hour_ms, range(11, 21))]
        ):
            records = [
                quota_record(ts=start_ms + 1000 * second, rate=rates[second]) for second in seconds
            ]
            directory.append([piece(directory, records)], reached(number))
        merge_all(directory)
        records = [
            quota_record(ts=START_MS + hour_ms + 1000 * second, rate=rates[second])
            for second in range(21, 31)
        ]
        directory.append([piece(directory, records)], reached(9))
    asked = question(place, datetime.fromtimestamp(START_MS / 1000, UTC) - timedelta(hours=1))
    paths = window_files(asked, folder)
    assert [path.parent == folder for path in paths] == [False, True]
    found = history(spark, asked, paths)
    (demand,) = [each for each in found.demands if each.level == "client"]
    assert (demand.seconds, demand.rate_max) == (30, 1030.0)
