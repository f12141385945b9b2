"""One rollup from topic to files: fix offsets, start Spark, add up what is new, put it in place."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka import KafkaException

from cluster.analytics.metric_rows import GROUP, LAG, LOST, OTHER, QUOTA, REJECTED
from cluster.analytics.rollup.kafka_records import topic_id, topic_ranges
from cluster.analytics.rollup.offset_ranges import PYTHON, OffsetRange, TopicState
from cluster.analytics.rollup.plan import Plan, plan, records_in, slices
from cluster.analytics.rollup.spark_session import JVM_GONE, reason, spark_session
from cluster.analytics.rollup_output import (
    LATE_AFTER,
    Added,
    RollupOutput,
    UnknownProgress,
    closed_until,
)
from cluster.analytics.window_files import InUse, sole_writer
from cluster.model.errors import UserError
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Phase = Callable[[str], AbstractContextManager[None]]
"""Makes a context manager that shows the start of a step and, at its end, its duration."""
StartSpark = Callable[[str, Path, str | None], AbstractContextManager["SparkSession"]]
"""Like `spark_session`."""


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
    source: str = PYTHON
    """What Spark reads with, of `offset_ranges.SOURCES`."""
    packages: str | None = None
    """Maven coordinates of packages that Spark is to load, joined by commas."""
    full: bool = False
    """Read all that the topic holds, and not only what is new."""
    retain: timedelta | None = None
    """Remove windows of days that ended so long ago; None keeps all."""


@dataclass(frozen=True, slots=True)
class RollupSummary:
    """The result of one run. Every new record of the topic is counted in one of its fields."""

    partitions: int
    counts: Mapping[str, int] = field(default_factory=dict)
    """Records by kind."""
    late_records: int = 0
    """Of those of quotas and groups: added to windows that an earlier run had passed by a minute.
    """
    windows: dict[str, dict[str, int]] = field(default_factory=dict)
    """Windows that records were added to, by kind of record and width; without empty kinds."""
    first_window: datetime | None = None
    last_window: datetime | None = None
    is_other_topic: bool = False
    """The topic was deleted and made again since the last run."""
    removed_files: int = 0
    """Files of days that `retain` no longer keeps."""

    @property
    def records(self) -> int:
        """How many records were read."""
        return sum(count for kind, count in self.counts.items() if kind != LOST)

    @property
    def quota_records(self) -> int:
        """Records about quotas."""
        return self.counts.get(QUOTA, 0)

    @property
    def group_records(self) -> int:
        """Records about groups."""
        return self.counts.get(GROUP, 0)

    @property
    def lag_records(self) -> int:
        """Records about partitions of groups."""
        return self.counts.get(LAG, 0)

    @property
    def other_records(self) -> int:
        """Metric records of other kinds."""
        return self.counts.get(OTHER, 0)

    @property
    def rejected_records(self) -> int:
        """Values that are no metric records."""
        return self.counts.get(REJECTED, 0)

    @property
    def lost_records(self) -> int:
        """Records that retention removed after the last run, before this one read them."""
        return self.counts.get(LOST, 0)


def roll_up(
    options: RollupOptions, phase: Phase, start_spark: StartSpark = spark_session
) -> RollupSummary:
    """Add what is new in the topic to the windows. Starts Spark only if there is. UserError."""
    with phase(f"Looking at topic {options.topic}"):
        topic = read_topic(options)
    with locked_output(options.output) as output:
        chosen = choose(output, topic, options)
        return _roll_up(options, output, chosen, phase, start_spark)


def _roll_up(
    options: RollupOptions,
    output: RollupOutput,
    chosen: Plan,
    phase: Phase,
    start_spark: StartSpark,
) -> RollupSummary:
    summary = RollupSummary(
        partitions=len(chosen.start.offsets), is_other_topic=chosen.is_other_topic
    )
    if chosen.lost:
        summary = replace(summary, counts={LOST: chosen.lost})
    if chosen.ranges:
        with contextlib.ExitStack() as running:
            with phase("Starting Spark"):
                spark = running.enter_context(
                    start_spark(options.master, options.log, options.packages)
                )
            for added in add_new(spark, options, output, chosen, phase):
                summary = _joined(summary, added)
            with phase("Stopping Spark"):
                running.close()
    with writing(options.output):
        if options.retain is not None:
            oldest = (datetime.now(UTC) - options.retain).date()
            summary = replace(summary, removed_files=output.forget(oldest))
        output.compact()
    return summary


def read_topic(options: RollupOptions) -> TopicState:
    """What the topic holds now. Raises UserError if there is none."""
    try:
        ranges = topic_ranges(options.connection, options.topic)
    except KafkaException as problem:
        raise UserError(f"cannot read topic {options.topic}: {problem.args[0].str()}") from None
    if not ranges:
        raise UserError(f"there is no topic {options.topic}")
    return TopicState(options.topic, topic_id(options.connection, options.topic), ranges)


def choose(
    output: RollupOutput,
    topic: TopicState,
    options: RollupOptions,
    *,
    is_empty_allowed: bool = False,
) -> Plan:
    """What a run has to read. Raises UserError if the output is of another topic, or if there
    have never been any records."""
    progress = output.progress
    if progress is not None and progress.topic != topic.name:
        raise UserError(
            f"{shown(options.output)} holds windows of topic {progress.topic}:"
            f" give another --output for {topic.name}"
        )
    chosen = plan(progress, topic, whole=is_whole(output, options))
    if progress is None and not chosen.ranges and not is_empty_allowed:
        raise UserError(f"topic {topic.name} holds no records yet: let clients work first")
    return chosen


def is_whole(output: RollupOutput, options: RollupOptions) -> bool:
    """Whether a run computes windows anew: asked for, or they are of a version that kept no
    progress with them."""
    return options.full or output.has_early_files


def add_new(
    spark: "SparkSession",
    options: RollupOptions,
    output: RollupOutput,
    chosen: Plan,
    phase: Phase,
) -> Iterator[Added]:
    """Read what was chosen, part by part, and add each part to the output. Raises UserError."""
    if not is_whole(output, options):
        yield from _add_parts(spark, options, output, chosen, phase)
        return
    # Records that are read again are not late.
    with output.computed_anew() as anew:
        yield from _add_parts(spark, options, anew, chosen, phase, late=None)
        with phase("Comparing them with the windows"), writing(options.output):
            output.take_over(anew)


def _add_parts(
    spark: "SparkSession",
    options: RollupOptions,
    output: RollupOutput,
    chosen: Plan,
    phase: Phase,
    late: timedelta | None = LATE_AFTER,
) -> Iterator[Added]:
    for ranges, progress in slices(chosen):
        late_before = None if late is None else closed_until(output.progress, late)
        with phase(f"Rolling up {records_in(ranges):,} records"):
            sums = sums_of_ranges(spark, options, ranges, late_before)
        with phase("Adding them to the windows"), writing(options.output):
            added = output.add(sums, progress)
        yield added if late is not None else replace(added, late=0)


def sums_of_ranges(
    spark: "SparkSession",
    options: RollupOptions,
    ranges: tuple[OffsetRange, ...],
    late_before: datetime | None,
) -> pa.Table:
    """The records of ranges, added up by Spark's workers (SUMS_SCHEMA). Raises UserError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from cluster.analytics.rollup.spark_sources import NoConnector, collected, sums_frame

    try:
        return collected(
            sums_frame(
                spark, options.source, options.connection, options.topic, ranges, late_before
            )
        )
    except NoConnector as problem:
        raise UserError(str(problem)) from None
    except (PySparkException, Py4JError, *JVM_GONE) as problem:
        raise UserError(
            f"the rollup failed: {reason(problem)} (see {shown(options.log)})"
        ) from None


def _joined(summary: RollupSummary, added: Added) -> RollupSummary:
    windows = {
        kind: dict(Counter(summary.windows.get(kind, {})) + Counter(added.windows.get(kind, {})))
        for kind in [*summary.windows, *added.windows]
    }
    firsts = [each for each in (summary.first_window, added.first) if each]
    lasts = [each for each in (summary.last_window, added.last) if each]
    return replace(
        summary,
        counts=Counter(summary.counts) + Counter(added.counts),
        late_records=summary.late_records + added.late,
        windows=windows,
        first_window=min(firsts, default=None),
        last_window=max(lasts, default=None),
    )


@contextlib.contextmanager
def locked_output(place: Path) -> Iterator[RollupOutput]:
    """The output, which no other process may write to within the block. Raises UserError."""
    with _sole_writer(place):
        with writing(place):
            try:
                output = RollupOutput(place)
            except UnknownProgress as unknown:
                raise UserError(
                    f"{unknown}: give another --output, or remove {shown(place)}"
                ) from None
        yield output


@contextlib.contextmanager
def writing(output: Path) -> Iterator[None]:
    """Raise UserError for what goes wrong with the files of the output."""
    try:
        yield
    except OSError as problem:
        raise _unwritable(output, problem) from None
    except pa.ArrowException as problem:
        line = str(problem).partition("\n")[0]
        raise UserError(f"cannot read the earlier windows in {shown(output)}: {line}") from None


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
