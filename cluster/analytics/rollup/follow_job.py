"""A rollup that follows the topic: a stream of Spark whose batches are added to the windows.

Spark plans each batch and lets executors read it (`kafka_stream.py`), which write deltas; here they
are added to the windows (`follow_output.py`). Between batches executors merge closed hours. So no
series passes through this process, and a batch costs the same throughout an hour.
"""

import contextlib
import queue
import threading  # noqa: TID251 - Spark calls in a thread of its own, which has to be waited for
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from cluster.analytics.rollup.follow_checkpoint import BadCheckpoint, FollowCheckpoint, Subject
from cluster.analytics.rollup.follow_output import Batch, BatchMismatch, FollowedOutput, go_on
from cluster.analytics.rollup.job import (
    Phase,
    RollupOptions,
    SparkStart,
    StartSpark,
    choose,
    forget,
    holds_unknown,
    opened,
    read_topic,
)
from cluster.analytics.rollup.kafka_records import topic_ranges
from cluster.analytics.rollup.plan import RunPlan, stream_start
from cluster.analytics.rollup.preflight import check_pyspark
from cluster.analytics.rollup.runners import LocalRunner, Runner, SparkRunner, in_words
from cluster.analytics.rollup.stream_offsets import records_between
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.directory import Merged, WindowDirectory
from cluster.analytics.windows.kinds import SUMS_SCHEMA
from cluster.analytics.windows.manifest import UnusableDirectory
from cluster.analytics.windows.merge import MergeResult, MergeTask
from cluster.model.errors import UserError
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_S: Final = 1
"""How often to check that the stream still runs."""
_KEPT_BATCHES: Final = "10"
"""The number of batches whose files Spark keeps in the checkpoint."""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a topic is followed."""

    rollup: RollupOptions
    checkpoint: Path
    interval_s: float
    """From the start of a batch to the start of the next; a longer batch delays it."""
    most: int
    """The maximum of records in a batch."""
    watermark: timedelta
    """Windows that began longer than this before the newest one are closed."""
    until_end: bool = False
    """Whether to stop at the current end of the topic."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The figures of one batch."""

    batch: Batch
    merged: Merged | None
    """What was merged after the batch."""
    seconds: float
    """The time since the previous batch; for the first one since Spark was ready."""
    work_seconds: float
    """The part of it for reading, adding and merging."""
    behind: int | None = None
    """Records in the topic that are not in the windows; None if no broker answers."""


def follow(
    options: FollowOptions,
    phase: Phase,
    tell: Callable[[BatchReport], None],
    is_over: Callable[[], bool],
    start_spark: StartSpark,
    prepare: Callable[[], None] = check_pyspark,
) -> None:
    """Add new records to the windows until `is_over()`, then merge everything. Raises UserError.

    For `prepare` see `roll_up`.
    """
    rollup = options.rollup
    with phase(f"Looking at topic {rollup.topic}"):
        topic = read_topic(rollup)
    with opened(rollup.output) as directory:
        if holds_unknown(directory):
            raise UserError(
                f"{directory.store.shown()} holds windows of an earlier version:"
                " run `rollup` without --follow once, which takes them over"
            )
        chosen = choose(directory, topic, rollup, is_empty_allowed=True)
        chosen = chosen._replace(start=stream_start(directory.manifest.progress, chosen))
        checkpoint = FollowCheckpoint(options.checkpoint)
        _prepare(checkpoint, chosen, options, phase)
        with contextlib.ExitStack() as running:
            start = SparkStart(rollup, topic, phase, start_spark, prepare)
            runner = start.runner(running, directory.store)
            stream = _Stream(options, directory, checkpoint, chosen, runner)
            merging: Runner = runner
            try:
                _run(stream, tell, is_over)
            except UserError:
                if stream.problem is not None or not is_over():
                    raise
                # If spark-submit started this process, Ctrl-C in a terminal has also ended Spark.
                merging = LocalRunner()
            if directory.manifest.deltas:
                with phase("Merging what is left into the windows"):
                    directory.merge(partial(merging.merge, rollup.output), everything=True)


def _prepare(
    checkpoint: FollowCheckpoint, chosen: RunPlan, options: FollowOptions, phase: Phase
) -> None:
    """Raises UserError."""
    place = shown(options.checkpoint)
    start = chosen.start
    try:
        subject = Subject(start.topic, start.topic_id, str(SUMS_SCHEMA), start.cluster_id)
        if not go_on(checkpoint, subject, start.offsets):
            with phase("Beginning a new checkpoint, from where the windows end"):
                pass
    except BadCheckpoint as bad:
        raise UserError(
            f"cannot use the checkpoint {place}: {bad}; give another --checkpoint, or remove it"
            " (the windows say how far they are, so nothing is lost)"
        ) from None
    except OSError as problem:
        raise UserError(f"cannot use the checkpoint {place}: {problem.strerror}") from None


class Closed(Exception):
    """A batch came after the stream was ended: the next start repeats it."""


class _Stream:
    """The callback for Spark's batches, which runs in a thread of its own."""

    def __init__(
        self,
        options: FollowOptions,
        directory: WindowDirectory,
        checkpoint: FollowCheckpoint,
        chosen: RunPlan,
        runner: SparkRunner,
    ) -> None:
        self.options = options
        self.chosen = chosen
        self.checkpoint = checkpoint
        self.runner = runner
        self.done: queue.SimpleQueue[BatchReport] = queue.SimpleQueue()
        self.problem: UserError | None = None
        self._directory = directory
        self._clock = SystemClock()
        self._last_ms = self._clock.monotonic_ms()
        self._followed = FollowedOutput(
            directory, checkpoint, chosen.start, self._last_ms, options.watermark
        )
        self._units = runner.spark.sparkContext.defaultParallelism
        self._day: int | None = None
        self._taking = threading.Lock()
        self._is_closed = False

    def take(self, rows: "DataFrame", number: int) -> None:
        """Add a batch to the windows. Every exception ends the stream."""
        with self._taking:
            if self._is_closed:
                raise Closed
            self._take(rows, number)

    def close(self) -> None:
        """Wait until no batch is being added, and refuse further ones.

        Spark's calling thread outlives a killed JVM: without this it would write after the
        directory is unlocked, or while Python exits, which aborts the process.
        """
        with self._taking:
            self._is_closed = True

    def carry_out(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """Let executors merge. Raises UserError."""
        return self.runner.merge(self.options.rollup.output, tasks)

    def _take(self, rows: "DataFrame", number: int) -> None:
        def read() -> list[PieceResult]:
            return [PieceResult.from_json(row["result"]) for row in rows.collect()]

        began_ms = self._clock.monotonic_ms()
        try:
            batch = self._followed.take(number, read)
            merged = self._followed.merge_some(
                self.carry_out, self._units, self._clock.monotonic_ms()
            )
            now_ms = self._clock.monotonic_ms()
            passed_s, work_s = (now_ms - self._last_ms) / 1000, (now_ms - began_ms) / 1000
            self.done.put(BatchReport(batch, merged, passed_s, work_s))
            self._last_ms = now_ms
            self._forget()
        except UserError as problem:
            self.problem = problem
            raise
        except UnusableDirectory as problem:
            self.problem = UserError(str(problem))
            raise
        except (BatchMismatch, BadCheckpoint) as problem:
            self.problem = UserError(f"cannot go on: {problem}; start again")
            raise

    def _forget(self) -> None:
        """Remove expired windows, at first and then once a day."""
        newest_s = self._directory.manifest.newest_s
        today = None if newest_s is None else newest_s // 86400
        if today != self._day and not self._followed.is_merging:
            self._day = today
            forget(self._directory, self.options.rollup)


def _run(stream: _Stream, tell: Callable[[BatchReport], None], is_over: Callable[[], bool]) -> None:
    try:
        with in_words(stream.options.rollup.log):
            query = _start(stream)
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
    except UserError:
        if stream.problem is not None:
            raise stream.problem from None
        raise


def _start(stream: _Stream) -> "StreamingQuery":
    from cluster.analytics.rollup.kafka_stream import SHORT_NAME, StreamJob, stream_source

    options, chosen, spark = stream.options, stream.chosen, stream.runner.spark
    job = StreamJob(
        connection=options.rollup.connection,
        topic=options.rollup.topic,
        topic_id=chosen.start.topic_id,
        output=options.rollup.output,
        start=dict(chosen.start.offsets),
        most=options.most,
        watermark=options.watermark,
        tasks=spark.sparkContext.defaultParallelism,
    )
    spark.dataSource.register(stream_source(job))
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", _KEPT_BATCHES)
    writer = (
        spark.readStream.format(SHORT_NAME)
        .load()
        .writeStream.queryName("milena rollup")
        .option("checkpointLocation", str(stream.checkpoint.spark))
        .foreachBatch(stream.take)
    )
    if options.until_end:
        return writer.trigger(availableNow=True).start()
    interval_ms = max(1, round(options.interval_s * 1000))
    return writer.trigger(processingTime=f"{interval_ms} milliseconds").start()


def _tell_all(stream: _Stream, tell: Callable[[BatchReport], None]) -> None:
    for step in _steps(stream):
        tell(replace(step, behind=_behind(stream.options.rollup, step.batch)))


def _steps(stream: _Stream) -> Iterator[BatchReport]:
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
