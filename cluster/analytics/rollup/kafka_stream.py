"""The stream reader of PySpark's data source over a topic of metric records.

Spark asks it in a planner process how far the topic reaches, and pickles another one into each
task. It keeps no connection: each question and each task opens its own, so nothing that cannot be
pickled is in it, and a broker that is gone is not asked again.
Source: pyspark.sql.datasource.DataSourceStreamReader, SupportsTriggerAvailableNow (Spark 4.2).
"""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cluster.analytics.rollup.kafka_records import topic_id, topic_ranges
from cluster.analytics.rollup.kafka_source import TOPIC, RangePartition, connection_in, read_rows
from cluster.analytics.rollup.offset_ranges import split
from cluster.analytics.rollup.stream_offsets import (
    Offsets,
    fallen,
    from_json,
    next_offsets,
    ranges_between,
    to_json,
)
from cluster.analytics.rollup_output import closed_until, read_progress

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC_ID: Final = "milena.topicId"
"""What the topic's id has to be; left out if the cluster knows no ids."""
START: Final = "milena.startingOffsets"
"""JSON of the offsets at which the first batch begins."""
MOST: Final = "maxOffsetsPerTrigger"
OUTPUT: Final = "milena.output"
"""The directory of the windows. The planner, on the driver's machine, sees there before each batch
which are closed: records of these are put aside too."""
WATERMARK_S: Final = "milena.watermark"
TASKS: Final = "milena.tasks"
"""Into how many tasks a large batch is cut at least."""
ANSWER_S: Final = 60.0
"""A stream ends if no broker has told the topic's end for so long; an election is much shorter."""
GONE_S: Final = 10.0
"""A stream ends if brokers have not known the topic for so long: one that has just started may not.
"""
_SMALLEST_TASK: Final = 10_000


class TopicGone(Exception):
    """The topic was deleted, or deleted and made again; the message says so."""


class NoAnswer(Exception):
    """No broker has told for ANSWER_S where the topic ends."""


class MetricStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Made in a planner process, pickled into each task: holds plain values only."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._topic = options[TOPIC]
        self._topic_id = options.get(TOPIC_ID)
        self._start = from_json(json.loads(options[START]))
        self._most = int(options[MOST])
        self._tasks = int(options[TASKS])
        self._output = Path(options[OUTPUT])
        self._watermark = timedelta(seconds=float(options[WATERMARK_S]))
        self._connection = connection_in(options)
        self._ends: Offsets | None = None
        self._is_bounded = False
        self._unanswered_since: float | None = None
        self._missing_since: float | None = None

    def initialOffset(self) -> dict[str, int]:
        """Where the first batch begins; not asked when Spark goes on with a checkpoint."""
        return to_json(self._start)

    def getDefaultReadLimit(self) -> ReadLimit:
        """How many records a batch has at most."""
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix where the stream ends. Raises KafkaException."""
        self._ends = self._present_ends()
        self._is_bounded = True

    def reportLatestOffset(self) -> dict[str, int] | None:
        """Where the topic ended when it was last asked."""
        return None if self._ends is None else to_json(self._ends)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Where the next batch ends: never before `start`, and there if nobody answers for now.

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
        shrunk = fallen(begin, self._ends)
        if shrunk is not None:
            raise TopicGone(f"topic {self._topic} was deleted and made again: start again")
        most = None if isinstance(limit, ReadAllAvailable) else self._most
        return to_json(next_offsets(begin, self._ends, most))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[RangePartition]:
        """The tasks of a batch. Raises OSError, UnknownProgress."""
        ranges = ranges_between(from_json(start), from_json(end))
        late_before = closed_until(read_progress(self._output), self._watermark)
        return [
            RangePartition(each, late_before) for each in split(ranges, self._tasks, _SMALLEST_TASK)
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one range, in a worker. What retention removed is counted among them."""
        assert isinstance(partition, RangePartition)  # what partitions() made
        return read_rows(self._connection, self._topic, partition, fail_on_data_loss=False)

    def _present_ends(self) -> dict[int, int]:
        """Raises KafkaException, TopicGone."""
        ranges = topic_ranges(self._connection, self._topic)
        if ranges and self._topic_id is not None:
            known = topic_id(self._connection, self._topic)
            if known not in (None, self._topic_id):
                raise TopicGone(f"topic {self._topic} was deleted and made again: start again")
        return {each.partition: each.end for each in ranges}

    def _wait_for_answer(self, problem: KafkaException) -> None:
        """Raises NoAnswer if this has gone on for too long."""
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
            raise TopicGone(f"topic {self._topic} was deleted")
