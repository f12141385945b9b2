"""A Spark stream over a topic of metric records, whose batches are read like `pieces.py`.

A row of a batch is the result of one of its tasks (`PieceResult`, as JSON): the records themselves
go into deltas, which the tasks write. Source: pyspark.sql.datasource,
pyspark.sql.streaming.datasource (Spark 4.2).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cluster.analytics.rollup.kafka_records import topic_id, topic_ranges
from cluster.analytics.rollup.offset_ranges import OffsetRange, grouped
from cluster.analytics.rollup.pieces import ReadJob, read_pieces
from cluster.analytics.rollup.stream_offsets import (
    Offsets,
    fallen,
    from_json,
    next_offsets,
    ranges_between,
    to_json,
)
from cluster.analytics.windows.commits import read_manifest
from cluster.analytics.windows.directory import closed_until
from cluster.analytics.windows.manifest import Manifest
from cluster.analytics.windows.store import open_store

SHORT_NAME: Final = "milena-rollup"
ROWS: Final = "result string"
ANSWER_S: Final = 60.0
"""A stream ends if no broker has reported the topic's end for this long; an election is much
shorter."""
GONE_S: Final = 10.0
"""A stream ends if brokers have not known the topic for this long: one that has just started may
not."""
_SMALLEST_TASK: Final = 10_000


class TopicGone(Exception):
    """The topic was deleted or recreated; the message says so."""


class NoAnswer(Exception):
    """No broker has reported the topic's end for ANSWER_S."""


class StreamJob(NamedTuple):
    """The input and output of a stream."""

    connection: Mapping[str, str]
    """Settings of the Kafka client. They may contain a password."""
    topic: str
    topic_id: str | None
    """None if the cluster has no ids."""
    output: str
    """The place of the windows. Before each batch the planner, on the driver's machine, reads there
    which windows are closed."""
    start: Offsets
    """The begin of the first batch."""
    most: int
    """The maximum of records in a batch."""
    watermark: timedelta
    tasks: int
    """The number of tasks of a large batch."""


class BatchPartition(InputPartition):
    """The input of one task. Pickled."""

    def __init__(self, job: ReadJob, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(None)
        self.job = job
        self.ranges = ranges


class MetricStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Created in a planner process and pickled into each task, so it holds plain values only."""

    def __init__(self, job: StreamJob) -> None:
        self._job = job
        self._ends: Offsets | None = None
        self._is_bounded = False
        self._unanswered_since: float | None = None
        self._missing_since: float | None = None

    def initialOffset(self) -> dict[str, int]:
        """The begin of the first batch; not called when Spark continues from a checkpoint."""
        return to_json(self._job.start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The maximum of records in a batch."""
        return ReadMaxRows(self._job.most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream. Raises KafkaException."""
        self._ends = self._present_ends()
        self._is_bounded = True

    def reportLatestOffset(self) -> dict[str, int] | None:
        """The end of the topic when it was last asked for."""
        return None if self._ends is None else to_json(self._ends)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The end of the next batch: never before `start`, and there if nobody answers for now.

        Raises TopicGone, NoAnswer.
        """
        begin = from_json(start)
        if not self._is_bounded:
            try:
                self._ends = self._present_ends()
                self._unanswered_since = None
            except KafkaException as problem:
                self._wait_for_answer(problem)
                return to_json(begin)
        if not self._ends:
            self._wait_for_topic()
            return to_json(begin)
        self._missing_since = None
        if fallen(begin, self._ends) is not None:
            raise TopicGone(f"topic {self._job.topic} was deleted and recreated: start again")
        most = None if isinstance(limit, ReadAllAvailable) else self._job.most
        return to_json(next_offsets(begin, self._ends, most))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[BatchPartition]:
        """The tasks of a batch. Raises UnusableDirectory."""
        job = self._job
        manifest = read_manifest(open_store(job.output)) or Manifest()
        late_before = closed_until(manifest.newest_s, job.watermark)
        reading = ReadJob(
            connection=job.connection,
            topic=job.topic,
            output=job.output,
            change=manifest.change + 1,
            late_before_s=None if late_before is None else int(late_before.timestamp()),
        )
        ranges = ranges_between(from_json(start), from_json(end))
        return [
            BatchPartition(reading, each) for each in grouped(ranges, job.tasks, _SMALLEST_TASK)
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """The result of one task, in a worker."""
        assert isinstance(partition, BatchPartition)  # made by partitions()
        yield (read_pieces(partition.job, partition.ranges).as_json(),)

    def _present_ends(self) -> dict[int, int]:
        """Raises KafkaException, TopicGone."""
        job = self._job
        ranges = topic_ranges(job.connection, job.topic)
        if ranges and job.topic_id is not None:
            known = topic_id(job.connection, job.topic)
            if known not in (None, job.topic_id):
                raise TopicGone(f"topic {job.topic} was deleted and recreated: start again")
        return {each.partition: each.end for each in ranges}

    def _wait_for_answer(self, problem: KafkaException) -> None:
        """Raises NoAnswer if this has lasted too long."""
        now = time.monotonic()
        self._unanswered_since = self._unanswered_since or now
        if now - self._unanswered_since >= ANSWER_S:
            raise NoAnswer(
                f"no broker has answered for {ANSWER_S:g} s ({problem.args[0].str()})"
            ) from None

    def _wait_for_topic(self) -> None:
        """Raises TopicGone if the topic has been missing for too long."""
        now = time.monotonic()
        self._missing_since = self._missing_since or now
        if now - self._missing_since >= GONE_S or self._is_bounded:
            raise TopicGone(f"topic {self._job.topic} was deleted")


def stream_source(job: StreamJob) -> type[DataSource]:
    """The data source of a stream.

    Its class is sent by value together with its input: a password in options would be in Spark's
    plans.
    """

    class StreamSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return SHORT_NAME

        def schema(self) -> str:
            return ROWS

        def streamReader(self, schema: object) -> MetricStreamReader:  # noqa: ARG002  # so named by Spark
            return MetricStreamReader(job)

    return StreamSource
