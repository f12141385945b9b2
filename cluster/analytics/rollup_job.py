"""One rollup from topic to files: fix offsets, start Spark, compute windows, merge, write."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from confluent_kafka import KafkaException

from cluster.analytics.kafka_records import topic_ranges
from cluster.analytics.metric_rows import GROUP, LAG, LOST, OTHER, QUOTA, REJECTED
from cluster.analytics.offset_ranges import OffsetRange, split, to_text
from cluster.analytics.spark_session import reason, spark_session
from cluster.analytics.window_files import (
    WINDOW_KINDS,
    InUse,
    WindowKind,
    days_of,
    read_windows,
    replace_windows,
    sole_writer,
)
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Phase = Callable[[str], AbstractContextManager[None]]
"""Makes a context manager that shows the start of a step and, at its end, its duration."""

_NARROWEST: Final = "10s"


@dataclass(frozen=True, slots=True)
class RollupOptions:
    """What to read, where to compute, where to write."""

    connection: Mapping[str, str]
    """Settings of the Kafka client, `bootstrap.servers` among them."""
    topic: str
    output: Path
    log: Path
    """The file to which Spark's output is appended."""
    master: str


@dataclass(frozen=True, slots=True)
class RollupSummary:
    """The result of one run. Every record of the topic is counted in one of its fields."""

    partitions: int
    quota_records: int
    group_records: int
    lag_records: int
    other_records: int
    """Metric records of other kinds."""
    rejected_records: int
    lost_records: int
    """Records that retention removed between the start of the run and their reading."""
    windows: dict[str, dict[str, int]]
    """Windows computed anew, by kind of record and width; without kinds that have none."""
    first_window: datetime | None
    last_window: datetime | None

    @property
    def records(self) -> int:
        """How many records were read."""
        about_groups = self.group_records + self.lag_records
        return self.quota_records + about_groups + self.other_records + self.rejected_records


@dataclass(frozen=True, slots=True)
class Computed:
    """What Spark computed from a topic."""

    windows: dict[WindowKind, dict[str, pa.Table]]
    """By width: all windows of the days in which new ones lie, those of earlier runs included."""
    counts: dict[str, int]
    """Records by kind."""
    first: datetime | None
    last: datetime | None


def roll_up(options: RollupOptions, phase: Phase) -> RollupSummary:
    """Run one rollup and replace the windows that it computed. Raises UserError."""
    with phase(f"Looking at topic {options.topic}"):
        ranges = filled_ranges(options)
    with _sole_writer(options.output):
        return _roll_up(options, ranges, phase)


def _roll_up(
    options: RollupOptions, ranges: tuple[OffsetRange, ...], phase: Phase
) -> RollupSummary:
    with contextlib.ExitStack() as running:
        with phase("Starting Spark"):
            spark = running.enter_context(spark_session(options.master, options.log))
        computed = compute(spark, options, ranges, phase)
        with phase("Stopping Spark"):
            running.close()
    if computed.windows:
        with phase("Writing Parquet"):
            _write(options.output, computed.windows)
    return RollupSummary(
        partitions=len(ranges),
        quota_records=computed.counts.get(QUOTA, 0),
        group_records=computed.counts.get(GROUP, 0),
        lag_records=computed.counts.get(LAG, 0),
        other_records=computed.counts.get(OTHER, 0),
        rejected_records=computed.counts.get(REJECTED, 0),
        lost_records=computed.counts.get(LOST, 0),
        windows={
            kind.name: {width: table.num_rows for width, table in tables.items()}
            for kind, tables in computed.windows.items()
        },
        first_window=computed.first,
        last_window=computed.last,
    )


def filled_ranges(options: RollupOptions) -> tuple[OffsetRange, ...]:
    """The present offset ranges of non-empty partitions. Raises UserError if there are none."""
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


def compute(
    spark: "SparkSession", options: RollupOptions, ranges: tuple[OffsetRange, ...], phase: Phase
) -> Computed:
    """Read the topic once and join it with the windows in `options.output`. Raises UserError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with phase(f"Rolling up {sum(each.size for each in ranges):,} records"):
            windows = _ten_second_windows(spark, options, ranges)
            counts, spans = _counted(windows)
        if not spans:
            return Computed({}, counts, None, None)
        with phase("Joining them with earlier windows"):
            tables = {
                kind: _all_widths(
                    spark, windows, kind, _stored(options.output, days_of(*spans[kind.name]), kind)
                )
                for kind in WINDOW_KINDS
                if kind.name in spans
            }
    except (PySparkException, Py4JError) as problem:
        raise UserError(
            f"the rollup failed: {reason(problem)} (see {shown(options.log)})"
        ) from None
    firsts, lasts = zip(*spans.values(), strict=True)
    return Computed(tables, counts, min(firsts), max(lasts))


def _ten_second_windows(
    spark: "SparkSession", options: RollupOptions, ranges: tuple[OffsetRange, ...]
) -> "DataFrame":
    from cluster.analytics import kafka_source
    from cluster.analytics.windows import ten_second_windows

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
    return ten_second_windows(reader.load()).cache()  # or every use would read the topic again


def _counted(windows: "DataFrame") -> tuple[dict[str, int], dict[str, tuple[datetime, datetime]]]:
    """Records by kind, and the first and the last window of those that have windows; this is when
    the topic is read."""
    from pyspark.sql import functions as F

    start_s = F.unix_seconds("window_start")
    summed = windows.groupBy("kind").agg(F.sum("records"), F.min(start_s), F.max(start_s))
    rows = {kind: (count, first, last) for kind, count, first, last in summed.collect()}
    counts = {kind: int(count) for kind, (count, _, _) in rows.items()}
    spans = {
        kind: (datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))
        for kind, (_, first, last) in rows.items()
        if first is not None
    }
    return counts, spans


def _all_widths(
    spark: "SparkSession", found: "DataFrame", kind: WindowKind, stored: pa.Table
) -> dict[str, pa.Table]:
    from cluster.analytics.windows import WIDTHS_S, merge, wider_windows, windows_of_kind

    windows = windows_of_kind(found, kind)
    if stored.num_rows:
        windows = merge(spark.createDataFrame(stored), windows, kind).cache()  # each width uses it
    narrowest, *wider = WIDTHS_S
    tables = {narrowest: windows.toArrow()}
    for width in wider:
        tables[width] = wider_windows(windows, WIDTHS_S[width], kind).toArrow()
    return tables


def _stored(output: Path, days: tuple[date, ...], kind: WindowKind) -> pa.Table:
    """The narrowest windows of earlier runs; the wider ones are derived from these."""
    try:
        return read_windows(output, _NARROWEST, days, kind)
    except (OSError, pa.ArrowInvalid) as problem:
        raise UserError(f"cannot read the earlier windows in {shown(output)}: {problem}") from None


@contextlib.contextmanager
def _sole_writer(output: Path) -> Iterator[None]:
    """Lock the output from reading old windows to writing new ones. Raises UserError.

    Otherwise two runs at the same time could undo each other's changes.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(sole_writer(output))
        except InUse:
            raise UserError(
                f"another rollup is at work in {shown(output)}: try again when it has ended"
            ) from None
        except OSError as problem:
            raise _unwritable(output, problem) from None
        yield


def _unwritable(output: Path, problem: OSError) -> UserError:
    return UserError(f"cannot write to {shown(output)}: {problem.strerror or problem}")


def _write(output: Path, windows: Mapping[WindowKind, Mapping[str, pa.Table]]) -> None:
    try:
        for kind, tables in windows.items():
            replace_windows(output, tables, kind)
    except OSError as problem:
        raise _unwritable(output, problem) from None
