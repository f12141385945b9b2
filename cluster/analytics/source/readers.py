"""Spark's readers of the data source: a batch, and a stream with admission control.

Spark asks a reader in a planner process for its tasks, and pickles another one into each of these.
They keep no connection: each question and each task opens its own. Source: pyspark.sql.datasource,
pyspark.sql.streaming.datasource (Spark 4.2).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from cluster.analytics.rollup.kafka_records import (
    ReadFailed,
    RecordsLost,
    read_range,
    topic_ranges,
)
from cluster.analytics.rollup.offset_ranges import OffsetRange, split
from cluster.analytics.rollup.stream_offsets import (
    fallen,
    from_json,
    next_offsets,
    ranges_between,
    to_json,
)
from cluster.analytics.source.options import SourceOptions, offsets_at
from cluster.analytics.source.rows import Wanted, rows_of
from cluster.model.errors import UserError
from cluster.runtime.clock import SystemClock

ANSWER_MS: Final = 60_000
"""A stream ends if no broker has reported the topic's end for this long; an election is much
shorter."""


class MetricsReader(DataSourceReader):
    """Reads the records in the topic, or those between given offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each range of offsets, fixed now. Raises UserError."""
        options = self._options
        present = _present(options)
        start = offsets_at("startingOffsets", options.starting, present)
        end = offsets_at("endingOffsets", options.ending, present)
        behind = fallen(start, end)
        if behind is not None:
            raise UserError(f"partition {behind}: endingOffsets are before startingOffsets")
        return _tasks(ranges_between(start, end), options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in a worker. Raises UserError."""
        return _read(self._options, partition)


class MetricsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new records. Spark stores its position in its checkpoint."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._initial: dict[str, int] | None = None
        self._ends: dict[int, int] = {}
        self._is_bounded = False
        self._answered_ms = SystemClock().monotonic_ms()

    def initialOffset(self) -> dict[str, int]:
        """The begin of the first batch; Spark may ask twice. Raises UserError."""
        if self._initial is None:
            present = _present(self._options)
            self._initial = to_json(offsets_at("startingOffsets", self._options.starting, present))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """The maximum of records in a batch."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream. Raises UserError."""
        self._ends = _ends(_present(self._options))
        self._is_bounded = True

    def reportLatestOffset(self) -> dict[str, int]:
        """The end of the topic when it was last asked for."""
        return to_json(self._ends)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """The end of the next batch: never before `start`, and there if nobody answers for now.

        Raises UserError.
        """
        begin = from_json(start)
        if not self._is_bounded:
            try:
                self._ends = _ends(topic_ranges(self._options.connection, self._options.topic))
                self._answered_ms = SystemClock().monotonic_ms()
            except KafkaException as problem:
                if SystemClock().monotonic_ms() - self._answered_ms >= ANSWER_MS:
                    raise _unreadable(self._options, problem) from None
                return to_json(begin)
        if fallen(begin, self._ends) is not None:
            raise UserError(
                f"topic {self._options.topic} was deleted, or deleted and recreated:"
                " start the stream with a new checkpoint"
            )
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(next_offsets(begin, self._ends, most))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        return _tasks(ranges_between(from_json(start), from_json(end)), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in a worker. Raises UserError."""
        return _read(self._options, partition)


def _present(options: SourceOptions) -> tuple[OffsetRange, ...]:
    try:
        found = topic_ranges(options.connection, options.topic)
    except KafkaException as problem:
        raise _unreadable(options, problem) from None
    if not found:
        raise UserError(f"there is no topic {options.topic}")
    return found


def _ends(present: Iterable[OffsetRange]) -> dict[int, int]:
    return {each.partition: each.end for each in present}


def _tasks(ranges: Sequence[OffsetRange], options: SourceOptions) -> Sequence[InputPartition]:
    if options.min_partitions > 1:
        ranges = split(ranges, options.min_partitions, smallest=1)
    return [InputPartition(each) for each in ranges]


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    wanted_range: OffsetRange | None = partition.value
    if wanted_range is None:  # Spark's own task for an empty source
        return
    wanted = Wanted(options.kind, options.mode)
    clock = SystemClock()
    try:
        for block in read_range(
            options.connection,
            options.topic,
            wanted_range,
            fail_on_data_loss=options.fail_on_data_loss,
        ):
            if isinstance(block, int):
                logging.getLogger(__name__).warning(
                    "%d records of partition %d were removed before they were read",
                    block,
                    wanted_range.partition,
                )
            else:
                yield rows_of(block, wanted_range.partition, wanted, clock.wall_ms())
    except RecordsLost as problem:
        raise UserError(
            f"topic {options.topic}: {problem}; failOnDataLoss=false goes on with what is there"
        ) from None
    except ReadFailed as problem:
        raise UserError(f"cannot read topic {options.topic}: {problem}") from None
    except KafkaException as problem:
        raise _unreadable(options, problem) from None


def _unreadable(options: SourceOptions, problem: KafkaException) -> UserError:
    return UserError(f"cannot read topic {options.topic}: {problem.args[0].str()}")
