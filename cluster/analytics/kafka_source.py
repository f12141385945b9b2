"""PySpark's Python data source over a topic of metric records: one task per offset range.

Batches arrive parsed (`metric_rows`), because parsing in the worker is twice as fast as in the JVM.
Batch reading only; a stream reader would share `RangePartition` and `read_rows`.
Source: pyspark.sql.datasource (Spark 4.2), whose readers are pickled into their tasks.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cluster.analytics.kafka_records import read_range
from cluster.analytics.metric_rows import LOST, ROW_COLUMNS_SQL, count_row, rows_of
from cluster.analytics.offset_ranges import OffsetRange, from_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

SHORT_NAME: Final = "milena-metrics"
TOPIC: Final = "subscribe"
RANGES: Final = "milena.offsetRanges"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"
CONNECTION_PREFIX: Final = "kafka."
"""Options with this prefix are passed on to the Kafka client, as in Spark's own connector."""


class RangePartition(InputPartition):
    """The offset range that one task reads. Pickled."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class MetricRangeReader(DataSourceReader):
    """Made in a planner process, pickled into each task: holds plain values only."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._topic = options[TOPIC]
        self._ranges = from_text(options[RANGES])
        self._fail_on_data_loss = options.get(FAIL_ON_DATA_LOSS, "true").lower() != "false"
        self._connection = {
            key.removeprefix(CONNECTION_PREFIX): value
            for key, value in options.items()
            if key.startswith(CONNECTION_PREFIX)
        }

    def partitions(self) -> list[RangePartition]:
        """One task for each range that the driver has fixed."""
        return [RangePartition(each) for each in self._ranges]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one range, in a worker."""
        assert isinstance(partition, RangePartition)  # what partitions() made
        return read_rows(self._connection, self._topic, partition.wanted, self._fail_on_data_loss)


class MetricSource(DataSource):
    """`spark.read.format("milena-metrics")`. Options: see the constants of this module."""

    @classmethod
    def name(cls) -> str:
        """The name to be given to `spark.read.format`."""
        return SHORT_NAME

    def schema(self) -> str:
        """ROW_SCHEMA, declared."""
        return ROW_COLUMNS_SQL

    def reader(self, schema: "StructType") -> MetricRangeReader:  # noqa: ARG002  # named by Spark
        """Called in a planner process."""
        return MetricRangeReader(self.options)


def read_rows(
    connection: Mapping[str, str], topic: str, wanted: OffsetRange, fail_on_data_loss: bool
) -> Iterator["pa.RecordBatch"]:
    """Batches of ROW_SCHEMA for all records of a range, with counts of those lost to retention."""
    blocks = read_range(connection, topic, wanted, fail_on_data_loss=fail_on_data_loss)
    for block in blocks:
        if isinstance(block, int):
            yield count_row(LOST, block)
        else:
            yield from rows_of(block)
