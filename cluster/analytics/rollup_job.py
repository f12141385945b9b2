"""One rollup from topic to files: fix offsets, start Spark, compute windows, merge, write."""

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from confluent_kafka import KafkaException

from cluster.analytics.kafka_records import topic_ranges
from cluster.analytics.metric_rows import LOST, OTHER, QUOTA, REJECTED
from cluster.analytics.offset_ranges import OffsetRange, split, to_text
from cluster.analytics.spark_session import reason, spark_session
from cluster.analytics.window_files import days_of, read_windows, replace_windows
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Phase = Callable[[str], AbstractContextManager[None]]
"""Announces a step and, when it ends, how long it took."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RollupOptions:
    """What to read, where to compute, where to write."""

    connection: Mapping[str, str]
    """Settings of the Kafka client, `bootstrap.servers` among them."""
    topic: str
    output: Path
    log: Path
    """What Spark prints."""
    master: str


@dataclass(frozen=True, slots=True)
class RollupSummary:
    """What one run did. Every record of the topic is counted once."""

    partitions: int
    quota_records: int
    other_records: int
    """Metric records of other kinds."""
    rejected_records: int
    lost_records: int
    """Removed by the topic's retention between planning and reading."""
    windows: dict[str, int]
    """Windows computed anew, by width."""
    first_window: datetime | None
    last_window: datetime | None

    @property
    def records(self) -> int:
        """How many were read."""
        return self.quota_records + self.other_records + self.rejected_records


def roll_up(options: RollupOptions, phase: Phase) -> RollupSummary:
    """Run once and replace the windows that could be computed anew. Raises UserError."""
    with phase(f"Looking at topic {options.topic}"):
        ranges = _filled_ranges(options)
    size = sum(each.size for each in ranges)
    with contextlib.ExitStack() as running:
        with phase("Starting Spark"):
            spark = running.enter_context(spark_session(options.master, options.log))
        with phase(f"Rolling up {size:,} records of {len(ranges)} partitions"):
            found = _guarded(options, lambda: _compute(spark, options, ranges))
        windows: dict[str, pa.Table] = {}
        if found.first is not None:
            with phase("Joining them with earlier windows"):
                windows = _guarded(options, lambda: _join_stored(spark, found, options.output))
        with phase("Stopping Spark"):
            running.close()
    if windows:
        with phase("Writing Parquet"):
            _write(options.output, windows)
    return RollupSummary(
        partitions=len(ranges),
        quota_records=found.counts.get(QUOTA, 0),
        other_records=found.counts.get(OTHER, 0),
        rejected_records=found.counts.get(REJECTED, 0),
        lost_records=found.counts.get(LOST, 0),
        windows={width: table.num_rows for width, table in windows.items()},
        first_window=found.first,
        last_window=found.last,
    )


@dataclass(frozen=True, slots=True)
class _Computed:
    windows: "DataFrame"
    """Of 10 s, held by Spark."""
    counts: dict[str, int]
    """Records by kind."""
    first: datetime | None
    last: datetime | None

    @property
    def days(self) -> tuple[date, ...]:
        """Those that the windows lie in."""
        return () if self.first is None or self.last is None else days_of(self.first, self.last)


def _filled_ranges(options: RollupOptions) -> tuple[OffsetRange, ...]:
    try:
        ranges = topic_ranges(options.connection, options.topic)
    except KafkaException as problem:
        raise UserError(f"cannot read topic {options.topic}: {problem.args[0].str()}") from None
    if not ranges:
        raise UserError(f"there is no topic {options.topic}")
    filled = tuple(each for each in ranges if each.size)
    if not filled:
        raise UserError(f"topic {options.topic} holds no records yet: let clients work first")
    return filled


def _compute(
    spark: "SparkSession", options: RollupOptions, ranges: tuple[OffsetRange, ...]
) -> _Computed:
    """Read the topic, once, into 10 s windows."""
    from pyspark.sql import functions as F

    from cluster.analytics import kafka_source
    from cluster.analytics.windows import quota_windows, ten_second_windows

    spark.dataSource.register(kafka_source.MetricSource)
    pieces = split(ranges, spark.sparkContext.defaultParallelism)
    reader = (
        spark.read.format(kafka_source.SHORT_NAME)
        .option(kafka_source.TOPIC, options.topic)
        .option(kafka_source.RANGES, to_text(pieces))
        .option(kafka_source.FAIL_ON_DATA_LOSS, "false")  # counted, and said at the end
    )
    for key, value in options.connection.items():
        reader = reader.option(f"{kafka_source.CONNECTION_PREFIX}{key}", value)
    windows = ten_second_windows(reader.load()).cache()  # or every use would read the topic again
    rows = (
        windows.groupBy("kind")
        .agg(
            F.sum("records"),
            F.unix_seconds(F.min("window_start")),
            F.unix_seconds(F.max("window_start")),
        )
        .collect()
    )
    spans = {kind: (first, last) for kind, _, first, last in rows}
    first, last = (
        None if seconds is None else datetime.fromtimestamp(seconds, UTC)
        for seconds in spans.get(QUOTA, (None, None))
    )
    counts = {kind: int(count) for kind, count, _, _ in rows}
    return _Computed(quota_windows(windows), counts, first, last)


def _join_stored(spark: "SparkSession", found: _Computed, output: Path) -> dict[str, pa.Table]:
    """Every window, by width, of the days that the computed ones lie in."""
    from cluster.analytics.windows import WIDTHS_S, merge, wider_windows

    narrowest, *wider = WIDTHS_S
    stored = _stored(output, narrowest, found.days)
    windows = found.windows
    if stored.num_rows:
        windows = merge(spark.createDataFrame(stored), windows)
    tables = {narrowest: windows.toArrow()}
    for width in wider:
        tables[width] = wider_windows(windows, WIDTHS_S[width]).toArrow()
    return tables


def _stored(output: Path, width: str, days: tuple[date, ...]) -> pa.Table:
    try:
        return read_windows(output, width, days)
    except (OSError, pa.ArrowInvalid) as problem:
        raise UserError(f"cannot read the earlier windows in {shown(output)}: {problem}") from None


def _write(output: Path, windows: Mapping[str, pa.Table]) -> None:
    try:
        replace_windows(output, windows)
    except OSError as problem:
        raise UserError(f"cannot write to {shown(output)}: {problem.strerror}") from None


def _guarded(options: RollupOptions, work: Callable[[], Result]) -> Result:
    """Do something with Spark. Raises UserError with one line of what it says."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return work()
    except (PySparkException, Py4JError) as problem:
        raise UserError(
            f"the rollup failed: {reason(problem)} (see {shown(options.log)})"
        ) from None
