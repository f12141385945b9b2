"""Each SQL and Python block of docs/history.md runs, and gives what plain Python finds."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.compat.window_readers import run_readers
from tests.support.metric_records import START_MS, Record, produce
from tests.support.reference_windows import every_kind, reference_windows
from tests.support.spark import need_spark
from tests.support.topics import create_topic, unique_name

need_spark()

from cluster.analytics.metrics_source import MetricsSource  # noqa: E402
from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from cluster.analytics.windows.directory import WindowDirectory  # noqa: E402
from cluster.analytics.windows.histogram import RATE_ERROR  # noqa: E402
from cluster.analytics.windows.kinds import KIND_OF, WINDOW_KINDS  # noqa: E402
from cluster.analytics.windows.store import LocalStore  # noqa: E402
from cluster.analytics.windows.widths import WIDTHS_S  # noqa: E402
from cluster.metrics.histogram import quantile_us  # noqa: E402
from tests.support.window_directories import merge_all, piece, reached  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "docs" / "history.md"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def in_order(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda each: int(each["ts"]))


LATE = [each for each in every_kind(9, seconds=10) if each["kind"] != "lag"]
PARTS = [
    in_order(every_kind(1, seconds=90)),
    in_order(every_kind(2, seconds=30, start_ms=START_MS + HOUR_MS)),
    in_order(every_kind(3, seconds=40, start_ms=START_MS + DAY_MS)),
    in_order(every_kind(4, seconds=20, start_ms=START_MS + 2 * DAY_MS)),
    LATE,
]
RECORDS = [record for part in PARTS for record in part]


class Block(NamedTuple):
    """A fenced block of the page."""

    heading: str
    language: str
    text: str

    @property
    def engines(self) -> tuple[str, ...]:
        """What is to run it."""
        if self.language == "python":
            return ("Spark",) if "spark." in self.text else ("reader",)
        first = self.text.partition("\n")[0]
        return (first.removeprefix("-- "),) if first.startswith("-- ") else ("Spark", "DuckDB")


def blocks() -> list[Block]:
    found = []
    parts = re.split(r"^#+ (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            found.append(Block(heading, language, block))
    return found


BLOCKS = blocks()
OPENED = next(each for each in BLOCKS if "import duckdb" in each.text)

Rows = list[list[Any]]


# -- running ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A directory of the windows of RECORDS."""
    place: Path = tmp_path_factory.mktemp("windows")
    with WindowDirectory.open(LocalStore(place)) as directory:
        for number, part in enumerate(PARTS, 1):
            directory.append([piece(directory, part)], reached(number))
            merge_all(directory)
    return place


class Shell:
    """Runs blocks one after the other in one session of Spark, as a reader of the page does."""

    def __init__(self, spark: "SparkSession", **names: Any) -> None:
        self.names = {"spark": spark, **names}

    def python(self, heading: str) -> dict[str, Any]:
        """Run the blocks of Python below a heading that are for Spark."""
        for each in BLOCKS:
            if each.heading == heading and each.language == "python" and "Spark" in each.engines:
                exec(each.text, self.names)
        return self.names

    def sql(self, text: str) -> Rows:
        """The rows of a query."""
        rows = self.names["spark"].sql(text).collect()
        return [[plain(value) for value in row] for row in rows]


@pytest.fixture(scope="module")
def shell(cluster, place, tmp_path_factory) -> Iterator[Shell]:
    """With the views of the page, over a topic that has RECORDS and a bad value."""
    topic = create_topic(
        cluster, unique_name("metrics"), partitions=3, configs={"retention.ms": "-1"}
    )
    produce(cluster.bootstrap, topic, [*RECORDS, b"bad"])

    class OfTopic(MetricsSource):
        def __init__(self, options: Any) -> None:
            super().__init__({**options, "subscribe": topic})

    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as spark:
        shell = Shell(
            spark,
            DIR=str(place),
            BOOTSTRAP=cluster.bootstrap,
            CHECKPOINT=str(tmp_path_factory.mktemp("checkpoint")),
        )
        shell.python("Opening the directory")
        shell.python("The metric records themselves")
        assert shell.names["records"].schema.names[:3] == ["partition", "offset", "timestamp"]
        # The page reads the topic that brokers write, which has other records here.
        spark.dataSource.register(OfTopic)
        options = {"kafka.bootstrap.servers": cluster.bootstrap}
        records = spark.read.format("milena-metrics").options(**options).load().cache()
        records.createOrReplaceTempView("records")
        yield shell


def plain(value: Any) -> Any:
    """A value in the form in which reader_program.py prints it."""
    if isinstance(value, datetime):
        return value.astimezone().timestamp() * 1000
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def same(found: Rows, expected: Iterable[Iterable[Any]], within: float = 1e-9) -> None:
    """Equal rows, floats within a relative error, in any order of rows that are equal in text."""
    wanted = [list(map(plain, row)) for row in expected]
    assert len(found) == len(wanted)
    for row, want in zip(found, wanted, strict=True):
        assert len(row) == len(want)
        for value, wish in zip(row, want, strict=True):
            if isinstance(value, int | float) and isinstance(wish, int | float):
                assert value == pytest.approx(wish, rel=within, abs=1e-9), (row, want)
            else:
                assert value == wish, (row, want)


# -- what plain Python finds ----------------------------------------------------------------------


def windows(kind: str, width: str) -> list[Record]:
    return reference_windows(RECORDS, KIND_OF[kind], WIDTHS_S[width])


def grouped(rows: Iterable[Record], *names: str) -> dict[tuple[Any, ...], list[Record]]:
    found: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in names)].append(row)
    return found


def total(rows: Iterable[Record], name: str) -> Any:
    return sum(row[name] for row in rows)


def how_much() -> Iterator[list[Any]]:
    for kind in sorted(WINDOW_KINDS, key=lambda kind: kind.name):
        for width in sorted(WIDTHS_S):
            rows = windows(kind.name, width)
            starts = [row["window_start"] for row in rows]
            yield [kind.name, width, len(rows), total(rows, "records"), min(starts), max(starts)]


def throttled() -> list[list[Any]]:
    names = ("user", "client_id", "quota", "rule", "limit")
    found = []
    for key, rows in grouped((r for r in windows("quota", "1m") if r["throttled"]), *names).items():
        starts = [row["window_start"] for row in rows]
        sums = [total(rows, n) for n in ("seconds_throttled", "throttled", "throttle_ms_exact")]
        found.append([*key, min(starts), max(starts), *sums])
    return sorted(found, key=lambda row: (-row[-1], row[1], row[2], row[4]))


def minutes_of_a_client() -> list[list[Any]]:
    names = ["window_start", "broker", "quota", "rate_max", "limit"]
    names += ["throttled", "throttle_ms_max", "muted_ms_sum"]
    found = [
        [row[name] for name in names]
        for row in windows("quota", "1m")
        if row["client_id"] == "client-2" and row["throttled"]
    ]
    return sorted(found, key=lambda row: (*row[:3], row[4]))


def against_limits() -> list[list[Any]]:
    names = ["window_start", "broker", "client_id", "quota", "limit", "rate_avg", "rate_max"]
    names += ["utilization", "seconds_over_limit"]
    rows = [[row[n] for n in names] for row in windows("quota", "1h") if row["seconds_over_limit"]]
    return sorted(rows, key=lambda row: (-row[7], *row[:5]))


def percentile_by_client() -> list[list[Any]]:
    found = []
    of_produce = [each for each in RECORDS if each.get("quota") == "produce"]
    for (client,), members in sorted(grouped(of_produce, "client_id").items()):
        rates = sorted(member["rate"] for member in members)
        found.append([client, len(rates), rates[math.ceil(len(rates) * 0.95) - 1]])
    return found


def growth() -> list[list[Any]]:
    found = []
    by_topic: dict[str, list[list[Any]]] = defaultdict(list)
    for (topic, start), rows in sorted(
        grouped(windows("topic", "1d"), "topic", "window_start").items()
    ):
        sums = total(rows, "log_size_last"), total(rows, "bytes_in_exact")
        by_topic[topic].append([start, *sums])
    for topic, days in sorted(by_topic.items()):
        before = None
        for start, size, produced in days:
            found.append([start, topic, size, None if before is None else size - before, produced])
            before = size
    return found


def busiest() -> list[list[Any]]:
    found = []
    for (start,), rows in grouped(windows("broker", "1h"), "window_start").items():
        names = ("bytes_in_exact", "bytes_out_exact", "messages_in_exact", "requests")
        busy = max(row["busy_max"] for row in rows)
        found.append([start, *(total(rows, name) for name in names), busy])
    return sorted(found, key=lambda row: (-row[1], row[0]))[:5]


def by_hour_of_day() -> list[list[Any]]:
    hours: dict[int, list[Decimal]] = defaultdict(list)
    for (start,), rows in grouped(windows("broker", "1h"), "window_start").items():
        hours[start.hour].append(total(rows, "bytes_in_exact"))
    found = [[hour, sum(each, Decimal()) / len(each)] for hour, each in hours.items()]
    return sorted(found, key=lambda row: -row[1])


def p99_by_api() -> list[list[Any]]:
    counts: dict[tuple[float, str], Counter[int]] = defaultdict(Counter)
    for each in RECORDS:
        if each["kind"] == "latency":
            began = each["ts"] - each["interval_ms"]
            place = (began - began % HOUR_MS, each["api"])
            counts[place].update(dict(enumerate(each["buckets"])))
    found = []
    for (start, api), buckets in sorted(counts.items()):
        ordered = [buckets[bucket] for bucket in range(max(buckets) + 1)]
        found.append([start, api, sum(ordered), quantile_us(ordered, 0.99) / 1000])
    return found


def headroom() -> list[list[Any]]:
    found = []
    for (broker,), rows in sorted(grouped(windows("broker", "1h"), "broker").items()):
        last = max(rows, key=lambda row: row["last_at"])
        found.append(
            [
                broker,
                min(row["idle_avg"] for row in rows),
                max(row["busy_max"] for row in rows),
                max(row["connections_max"] for row in rows),
                *(last[name] for name in ("disk_usable_last", "disk_total_last", "log_size_last")),
            ]
        )
    return found


def lag_trend() -> list[list[Any]]:
    found = []
    for (group,), rows in sorted(grouped(windows("group", "1h"), "group").items()):
        before = None
        for row in rows:
            change = None if before is None else row["lag_avg"] - before
            before = row["lag_avg"]
            names = ("window_start", "lag_avg", "lag_max", "lag_last")
            found.append([group, *(row[name] for name in names), change])
    return found


def consumed() -> list[list[Any]]:
    found = []
    keys = ("group", "topic", "partition")
    for key, rows in grouped(windows("lag", "1d"), *keys).items():
        before = None
        for row in rows:
            moved = None if before is None else row["committed_max"] - before
            before = row["committed_max"]
            found.append([*key, row["window_start"], row["lag_last"], moved])
    return sorted(found, key=lambda row: (-row[4], *row[:4]))[:10]


def events_beside_throughput() -> list[list[Any]]:
    traffic = {
        start: total(rows, "bytes_in_exact")
        for (start,), rows in sorted(grouped(windows("broker", "10s"), "window_start").items())
    }
    before = {later: traffic[earlier] for earlier, later in pairwise(traffic)}
    after = {earlier: traffic[later] for earlier, later in pairwise(traffic)}
    return [
        [
            *(row[name] for name in ("window_start", "broker", "event", "subject", "detail")),
            row["events"],
            *(each.get(row["window_start"]) for each in (before, traffic, after)),
        ]
        for row in windows("event", "10s")
    ]


def rebalances() -> list[list[Any]]:
    states = ("preparing_rebalance_ms", "completing_rebalance_ms", "assigning_ms", "reconciling_ms")
    found = []
    for (group,), rows in grouped(windows("group", "1m"), "group").items():
        lags = [None, *(row["lag_last"] for row in rows), None]
        for at, row in enumerate(rows):
            spent = sum(row[state] for state in states)
            names = ("window_start", "members_max", "lag_max")
            if spent:
                found.append([group, *(row[n] for n in names), spent, lags[at], lags[at + 2]])
    return sorted(found, key=lambda row: (-row[4], *row[:2]))


def throttled_seconds() -> list[list[Any]]:
    names = ("ts", "broker", "quota", "rate", "limit", "requests", "throttled", "throttle_ms")
    return sorted(
        [each[name] for name in names]
        for each in RECORDS
        if each["kind"] == "quota" and each["client_id"] == "client-2" and each["throttled"]
    )


def metrics_around_events() -> list[list[Any]]:
    values = ("UnderReplicatedPartitions", "RequestHandlerAvgIdlePercent")
    return sorted(
        [
            *(event[name] for name in ("ts", "event", "subject")),
            *(each["broker"], each["ts"]),
            *(each["values"][name] for name in values),
        ]
        for event in RECORDS
        if event["kind"] == "event"
        for each in RECORDS
        if each["kind"] == "broker" and abs(each["ts"] - event["ts"]) <= 2_000
    )


def seconds_of_highest_rates() -> list[list[Any]]:
    members: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    keys = ("broker", "client_id", "quota", "user", "rule", "limit")
    for each in RECORDS:
        if each["kind"] == "quota":
            began = each["ts"] - each["interval_ms"]
            members[(began - began % 10_000, *(each[name] for name in keys))].append(each)
    return sorted(
        [start, *key[:3], each["limit"], each["rate"], each["ts"], each["requests"]]
        for (start, *key), of_window in members.items()
        if sum(member["throttled"] for member in of_window)
        for each in of_window
        if each["rate"] == max(member["rate"] for member in of_window)
    )


class Check(NamedTuple):
    """What the SQL below a heading must give, block by block."""

    expected: list[Callable[[], Iterable[Iterable[Any]]]]
    within: float = 1e-9
    left_out: tuple[int, ...] = ()
    """Columns that are not compared."""


CHECKS = {
    "How much there is": Check([how_much]),
    "Who was throttled, when, by which rule": Check([throttled]),
    "Which minutes of one client": Check([minutes_of_a_client]),
    "Rates against limits": Check([against_limits], left_out=(6,)),
    "A percentile by client": Check([percentile_by_client] * 2, within=1.01 * RATE_ERROR),
    "Growth of topics": Check([growth]),
    "Busiest hours": Check([busiest, by_hour_of_day]),
    "The 99th percentile by API over time": Check([p99_by_api] * 2),
    "Headroom of each broker": Check([headroom]),
    "Lag trends": Check([lag_trend, consumed]),
    "Events beside throughput": Check([events_beside_throughput]),
    "Rebalances beside lag": Check([rebalances]),
    "Every second of a throttled client": Check([throttled_seconds]),
    "Any metric of a broker around an event": Check([metrics_around_events]),
    "Seconds within a window": Check([seconds_of_highest_rates]),
}
OF_SQL = [each for each in BLOCKS if each.language == "sql"]
NEEDING_MORE = {"Late records", "Whether every record is in the windows"}
"""Headings whose rows depend on how far the topic and the windows are: tests of their own."""


def expected_of(block: Block) -> tuple[list[list[Any]], Check]:
    check = CHECKS[block.heading]
    number = [each for each in OF_SQL if each.heading == block.heading].index(block)
    rows = [list(row) for row in check.expected[number]()]
    assert rows, "a check of nothing"
    return rows, check


def compare(block: Block, found: Rows) -> None:
    rows, check = expected_of(block)
    kept = [[v for at, v in enumerate(row) if at not in check.left_out] for row in found]
    same(kept, rows, check.within)


# -- tests ----------------------------------------------------------------------------------------


def test_every_block_is_checked():
    headings = {each.heading for each in OF_SQL}
    assert headings == CHECKS.keys() | NEEDING_MORE
    assert {each.heading for each in BLOCKS if each.language == "python"} == {
        *("Opening the directory", "Who was throttled, when, by which rule", "Growth of topics"),
        *("The metric records themselves", "What is no metric record", "As a stream"),
    }


@pytest.mark.long
@pytest.mark.parametrize(
    "block",
    [each for each in OF_SQL if "Spark" in each.engines and each.heading not in NEEDING_MORE],
    ids=lambda block: block.heading,
)
def test_sql_examples_give_the_expected_rows_in_spark(shell, block):
    compare(block, shell.sql(block.text))


def test_sql_examples_give_the_expected_rows_in_duckdb(place):
    asked = [each for each in OF_SQL if "DuckDB" in each.engines]
    jobs = [{"sql": each.text, "before": OPENED.text, "place": str(place)} for each in asked]
    for block, found in zip(asked, run_readers(jobs), strict=True):
        compare(block, found)


@pytest.mark.long
def test_example_of_late_records_gives_the_expected_rows(shell):
    """Those that were written last, of times that all partitions had passed."""
    (block,) = (each for each in OF_SQL if each.heading == "Late records")
    found = shell.sql(block.text)
    late = Counter(
        (each["kind"], each["broker"], each["ts"] - each["interval_ms"]) for each in LATE
    )
    assert Counter((kind, broker, began) for kind, broker, _, _, began, _ in found) == late
    assert found == sorted(found, key=lambda row: (row[2], row[3]))


def test_example_that_counts_records_and_windows_agrees(shell, cluster, place):
    (block,) = (each for each in OF_SQL if each.heading.startswith("Whether every record"))
    assert shell.sql(block.text) == []
    spark = shell.names["spark"]
    some = spark.table("records").where("NOT (kind = 'event' AND broker = 1)")
    whole = spark.table("records")
    some.createOrReplaceTempView("records")
    try:
        found = shell.sql(block.text)
    finally:
        whole.createOrReplaceTempView("records")
    missing = Counter[float]()
    for each in RECORDS:
        if each["kind"] == "event" and each["broker"] == 1:
            began = each["ts"] - each["interval_ms"]
            missing[began - began % 10_000] += 1
    assert {start: stored - (counted or 0) for _, start, counted, stored in found} == missing
    assert {kind for kind, *_ in found} == {"event"}


def test_example_of_malformed_records_gives_the_expected_rows(shell):
    rows = shell.python("What is no metric record")["refused"].collect()
    assert [(row["_reason"], bytes(row["value"])) for row in rows] == [("not JSON", b"bad")]


def test_streaming_example_gives_the_expected_rows(shell):
    shell.python("As a stream")
    rows = shell.names["spark"].table("throttled_now").collect()
    expected: Counter[tuple[float, str, str]] = Counter()
    for each in RECORDS:
        if each["kind"] == "quota":
            began = each["ts"] - each["interval_ms"]
            place = (began - began % 10_000, each["client_id"], each["quota"])
            expected[place] += each["throttle_ms"]
    found = {
        (plain(row["window"]["start"]), row["client_id"], row["quota"]): row["throttle_ms"]
        for row in rows
    }
    assert found == pytest.approx(dict(expected))


def test_python_examples_of_other_readers_give_the_expected_rows(place):
    asked = [each for each in BLOCKS if each.engines == ("reader",)]
    names = {"Opening the directory": "hours", "Growth of topics": "sizes"}
    jobs = [
        {
            "python": each.text,
            "name": names.get(each.heading, "throttled"),
            "place": str(place),
        }
        for each in asked
        if each is not OPENED
    ]
    *hours, throttle, sizes = run_readers(jobs)
    assert [len(each) for each in hours] == [len(windows("quota", "1h"))] * 3
    by_key: Counter[tuple[Any, ...]] = Counter()
    for row in throttled():
        by_key[tuple(row[:5])] += row[-1]
    assert {tuple(row[:5]): row[5] for row in throttle} == by_key
    assert sizes
    assert {tuple(row) for row in sizes} == {
        (topic, plain(start), size) for start, topic, size, _, _ in growth()
    }
