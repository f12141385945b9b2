"""A rollup that follows the topic: a stream of Spark whose batches are added to the windows.

Spark plans each batch and reads it in parallel (`kafka_stream.py`); `follow_output.py` keeps it.
No state is left in Spark between batches, because sums in the files can be added to: windows of
all widths are up to date after each batch, and late records are in them too.
"""

import contextlib
import json
import queue
import threading  # noqa: TID251 - Spark calls in a thread of its own, which has to be waited for
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from cluster.analytics.rollup.follow_checkpoint import BadCheckpoint, FollowCheckpoint, Subject
from cluster.analytics.rollup.follow_output import Batch, FollowedOutput, OutOfStep, go_on
from cluster.analytics.rollup.job import (
    Phase,
    RollupOptions,
    StartSpark,
    choose,
    locked_output,
    read_topic,
    writing,
)
from cluster.analytics.rollup.kafka_records import cluster_id, topic_ranges
from cluster.analytics.rollup.plan import Plan
from cluster.analytics.rollup.spark_session import JVM_GONE, reason, spark_session
from cluster.analytics.rollup.stream_offsets import records_between, to_json
from cluster.analytics.rollup_output import RollupOutput
from cluster.analytics.window_sums import SUMS_SCHEMA
from cluster.model.errors import UserError
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_S: Final = 1
"""How often the stream is asked whether it still runs."""
_KEPT_BATCHES: Final = "10"
"""Of so many batches Spark keeps the files in the checkpoint."""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a topic is followed."""

    rollup: RollupOptions
    checkpoint: Path
    interval_s: float
    """From the start of a batch to the start of the next; a longer batch delays it."""
    most: int
    """Records of a batch."""
    watermark: timedelta
    """Windows that began longer than this before the newest one are closed."""
    until_end: bool = False
    """End where the topic ends now."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is told after each batch."""

    batch: Batch
    seconds: float
    """Since the one before was in the windows; of the first, since Spark was there."""
    behind: int | None
    """Records in the topic that are not in the windows; None if no broker says."""


def follow(
    options: FollowOptions,
    phase: Phase,
    tell: Callable[[Step], None],
    is_over: Callable[[], bool],
    start_spark: StartSpark = spark_session,
) -> None:
    """Add what comes to the windows until `is_over()`. Raises UserError."""
    with phase(f"Looking at topic {options.rollup.topic}"):
        topic = read_topic(options.rollup)
    with locked_output(options.rollup.output) as output:
        if output.has_early_files:
            raise UserError(
                f"{shown(options.rollup.output)} holds windows of an earlier version:"
                " run `rollup` without --follow once, which takes them over"
            )
        chosen = choose(output, topic, options.rollup, is_empty_allowed=True)
        checkpoint = FollowCheckpoint(options.checkpoint)
        _prepare(checkpoint, chosen, options, phase)
        with contextlib.ExitStack() as running:
            with phase("Starting Spark"):
                spark = running.enter_context(
                    start_spark(options.rollup.master, options.rollup.log, None)
                )
            _run(spark, _Stream(options, output, checkpoint, chosen), tell, is_over)


def _prepare(
    checkpoint: FollowCheckpoint, chosen: Plan, options: FollowOptions, phase: Phase
) -> None:
    """Raises UserError."""
    place = shown(options.checkpoint)
    try:
        subject = Subject(
            chosen.start.topic,
            chosen.start.topic_id,
            str(SUMS_SCHEMA),
            cluster_id(options.rollup.connection),
        )
        if not go_on(checkpoint, subject, chosen.start.offsets):
            with phase("Beginning a new checkpoint, from where the windows end"):
                pass
    except BadCheckpoint as bad:
        raise UserError(
            f"cannot use the checkpoint {place}: {bad}; give another --checkpoint, or remove it"
            " (the windows say how far they are, so nothing is lost)"
        ) from None
    except OSError as problem:
        raise UserError(f"cannot use the checkpoint {place}: {problem.strerror}") from None
    except KafkaException as problem:
        raise UserError(f"no broker says which cluster it is: {problem.args[0].str()}") from None


class Closed(Exception):
    """A batch came when the stream had been ended: the next start has it again."""


class _Stream:
    """What Spark calls with each batch, in a thread of its own."""

    def __init__(
        self,
        options: FollowOptions,
        output: RollupOutput,
        checkpoint: FollowCheckpoint,
        chosen: Plan,
    ) -> None:
        self.options = options
        self.chosen = chosen
        self.checkpoint = checkpoint
        self.done: queue.SimpleQueue[tuple[Batch, float]] = queue.SimpleQueue()
        self.problem: UserError | None = None
        self._output = output
        self._followed = FollowedOutput(output, checkpoint, chosen.start, options.watermark)
        self._day: int | None = None
        self._clock = SystemClock()
        self._taking = threading.Lock()
        self._is_closed = False
        self._last_ms = self._clock.monotonic_ms()

    def take(self, rows: "DataFrame", number: int) -> None:
        """Add a batch to the windows. Raises whatever ends the stream."""
        with self._taking:
            if self._is_closed:
                raise Closed
            self._take(rows, number)

    def close(self) -> None:
        """Wait until no batch is being added, and let none be added any more.

        The thread in which Spark calls outlives a JVM that was killed: without this it would write
        when the directory is no longer locked, or while Python ends, which aborts the process.
        """
        with self._taking:
            self._is_closed = True

    def _take(self, rows: "DataFrame", number: int) -> None:
        from cluster.analytics.rollup.spark_sources import collected

        sums = collected(rows)
        try:
            with writing(self.options.rollup.output):
                batch = self._followed.take(number, sums)
                now_ms = self._clock.monotonic_ms()
                self.done.put((batch, (now_ms - self._last_ms) / 1000))
                self._last_ms = now_ms
                self._tidy()
        except UserError as problem:
            self.problem = problem
            raise
        except (OutOfStep, BadCheckpoint) as problem:
            self.problem = UserError(f"cannot go on: {problem}; start again")
            raise

    def _tidy(self) -> None:
        """At first and once a day: join files of days that are over, remove what is not kept."""
        today = self._newest_day()
        if today == self._day:
            return
        self._day = today
        self._output.compact()
        if self.options.rollup.retain is not None:
            self._output.forget((datetime.now(UTC) - self.options.rollup.retain).date())

    def _newest_day(self) -> int | None:
        progress = self._output.progress
        return None if progress is None or progress.newest_s is None else progress.newest_s // 86400


def _run(
    spark: "SparkSession",
    stream: _Stream,
    tell: Callable[[Step], None],
    is_over: Callable[[], bool],
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    log = shown(stream.options.rollup.log)
    try:
        query = _start(spark, stream)
        try:
            while not query.awaitTermination(_LOOK_S):
                _tell_all(stream, tell)
                if is_over():
                    break
        finally:
            try:
                query.stop()
            finally:
                stream.close()
                _tell_all(stream, tell)
    except (PySparkException, Py4JError, *JVM_GONE) as problem:
        if stream.problem is not None:
            raise stream.problem from None
        raise UserError(f"the rollup ended: {reason(problem)} (see {log})") from None


def _start(spark: "SparkSession", stream: _Stream) -> "StreamingQuery":
    from cluster.analytics.rollup import kafka_source, kafka_stream

    options, chosen = stream.options, stream.chosen
    spark.dataSource.register(kafka_source.MetricSource)
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", _KEPT_BATCHES)
    reader = (
        spark.readStream.format(kafka_source.SHORT_NAME)
        .option(kafka_source.TOPIC, options.rollup.topic)
        .option(kafka_stream.START, json.dumps(to_json(chosen.start.offsets)))
        .option(kafka_stream.MOST, str(options.most))
        .option(kafka_stream.OUTPUT, str(options.rollup.output.absolute()))
        .option(kafka_stream.WATERMARK_S, str(options.watermark.total_seconds()))
        .option(kafka_stream.TASKS, str(spark.sparkContext.defaultParallelism))
    )
    if chosen.start.topic_id is not None:
        reader = reader.option(kafka_stream.TOPIC_ID, chosen.start.topic_id)
    for key, value in options.rollup.connection.items():
        reader = reader.option(f"{kafka_source.CONNECTION_PREFIX}{key}", value)
    writer = (
        reader.load()
        .writeStream.queryName("milena rollup")
        .option("checkpointLocation", str(stream.checkpoint.spark))
        .foreachBatch(stream.take)
    )
    if options.until_end:
        return writer.trigger(availableNow=True).start()
    interval_ms = max(1, round(options.interval_s * 1000))
    return writer.trigger(processingTime=f"{interval_ms} milliseconds").start()


def _tell_all(stream: _Stream, tell: Callable[[Step], None]) -> None:
    for batch, seconds in _batches(stream):
        tell(Step(batch, seconds, _behind(stream.options.rollup, batch)))


def _batches(stream: _Stream) -> Iterator[tuple[Batch, float]]:
    while True:
        try:
            yield stream.done.get_nowait()
        except queue.Empty:
            return


def _behind(options: RollupOptions, batch: Batch) -> int | None:
    try:
        ranges = topic_ranges(options.connection, options.topic)
    except KafkaException:
        return None
    return records_between(batch.reached, {each.partition: each.end for each in ranges})
