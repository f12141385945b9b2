"""PySpark's Python data source over a topic of metric records: one task per offset range.

Records arrive parsed and added up by block (`metric_rows`, `window_sums`), a value for each block:
parsing in the worker is twice as fast as in the JVM, which so has nothing to do for each record.
`kafka_stream.py` has its stream reader, which shares `RangePartition` and `read_rows`.
Source: pyspark.sql.datasource (Spark 4.2), whose readers are pickled into their tasks.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cluster.analytics.metric_rows import LOST, Aside, Origin, count_row, rows_of
from cluster.analytics.rollup.kafka_records import read_range
from cluster.analytics.rollup.offset_ranges import OffsetRange, from_text
from cluster.analytics.window_sums import PACKED, PACKED_SQL, packed, sums_of_rows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from cluster.analytics.rollup.kafka_stream import MetricStreamReader

SHORT_NAME: Final = "milena-rollup"
TOPIC: Final = "subscribe"
RANGES: Final = "milena.offsetRanges"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"
LATE_BEFORE_S: Final = "milena.lateBefore"
"""In seconds since 1970: what is late (`metric_rows.Aside`). Left out if nothing is."""
CONNECTION_PREFIX: Final = "kafka."
"""Options with this prefix are passed on to the Kafka client, as in Spark's own connector."""


class RangePartition(InputPartition):
    """The offset range that one task reads. Pickled."""

    def __init__(self, wanted: OffsetRange, late_before: datetime | None) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.late_before = late_before
        """Records whose interval began before are late; None if none are."""


class MetricRangeReader(DataSourceReader):
    """Made in a planner process, pickled into each task: holds plain values only."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._topic = options[TOPIC]
        self._ranges = from_text(options[RANGES])
        self._fail_on_data_loss = options.get(FAIL_ON_DATA_LOSS, "true").lower() != "false"
        late_s = options.get(LATE_BEFORE_S)
        self._late_before = None if late_s is None else datetime.fromtimestamp(int(late_s), UTC)
        self._connection = connection_in(options)

    def partitions(self) -> list[RangePartition]:
        """One task for each range that the driver has fixed."""
        return [RangePartition(each, self._late_before) for each in self._ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, in a worker."""
        assert isinstance(partition, RangePartition)  # what partitions() made
        return read_rows(
            self._connection,
            self._topic,
            partition,
            fail_on_data_loss=self._fail_on_data_loss,
        )


class MetricSource(DataSource):
    """`spark.read.format("milena-rollup")`. Options: see the constants of this module."""

    @classmethod
    def name(cls) -> str:
        """The name to be given to `spark.read.format`."""
        return SHORT_NAME

    def schema(self) -> str:
        """One column of sums that Spark does not look into."""
        return PACKED_SQL

    def reader(self, schema: "StructType") -> MetricRangeReader:  # noqa: ARG002  # named by Spark
        """Called in a planner process."""
        return MetricRangeReader(self.options)

    def streamReader(self, schema: "StructType") -> "MetricStreamReader":  # noqa: ARG002  # named by Spark
        """Called in a planner process."""
        from cluster.analytics.rollup.kafka_stream import MetricStreamReader

        return MetricStreamReader(self.options)


def connection_in(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options that are for the Kafka client."""
    return {
        key.removeprefix(CONNECTION_PREFIX): value
        for key, value in options.items()
        if key.startswith(CONNECTION_PREFIX)
    }


ASIDE_MOST: Final = 1_000
"""Of each range at most so many values are put aside for each reason; all are counted."""


def read_rows(
    connection: Mapping[str, str], topic: str, partition: RangePartition, *, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of PACKED_SQL for all records of a range, with counts of those lost to retention."""
    wanted = partition.wanted
    aside = Aside(ASIDE_MOST, partition.late_before)
    for block in read_range(connection, topic, wanted, fail_on_data_loss=fail_on_data_loss):
        rows = (
            [count_row(LOST, block)]
            if isinstance(block, int)
            else rows_of(block.values, Origin(wanted.partition, block.offsets, aside))
        )
        yield pa.RecordBatch.from_pydict(
            {PACKED: pa.array([packed(sums_of_rows(rows))], pa.binary())}
        )
