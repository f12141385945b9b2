"""PySpark's Python data source over a topic of metric records: one task per offset range.

Records arrive parsed and added up by block (`metric_rows`, `window_sums`), because parsing in the
worker is twice as fast as in the JVM, and so a tenth of the rows passes to it.
`kafka_stream.py` has its stream reader, which shares `RangePartition` and `read_rows`.
Source: pyspark.sql.datasource (Spark 4.2), whose readers are pickled into their tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from cluster.analytics.kafka_records import read_range
from cluster.analytics.metric_rows import LOST, Origin, count_row, rows_of
from cluster.analytics.offset_ranges import OffsetRange, from_text
from cluster.analytics.window_sums import ASIDE, SUMS_SQL, sums_of_rows

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from cluster.analytics.kafka_stream import MetricStreamReader

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
        self._connection = connection_in(options)

    def partitions(self) -> list[RangePartition]:
        """One task for each range that the driver has fixed."""
        return [RangePartition(each) for each in self._ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
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
        """SUMS_SCHEMA, declared."""
        return SUMS_SQL

    def reader(self, schema: "StructType") -> MetricRangeReader:  # noqa: ARG002  # named by Spark
        """Called in a planner process."""
        return MetricRangeReader(self.options)

    def streamReader(self, schema: "StructType") -> "MetricStreamReader":  # noqa: ARG002  # named by Spark
        """Called in a planner process."""
        from cluster.analytics.kafka_stream import MetricStreamReader

        return MetricStreamReader(self.options)


def connection_in(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options that are for the Kafka client."""
    return {
        key.removeprefix(CONNECTION_PREFIX): value
        for key, value in options.items()
        if key.startswith(CONNECTION_PREFIX)
    }


ASIDE_MOST: Final = 1_000
"""Of each range at most so many bad values are put aside; all are counted."""


def read_rows(
    connection: Mapping[str, str], topic: str, wanted: OffsetRange, fail_on_data_loss: bool
) -> Iterator[pa.RecordBatch]:
    """Batches of SUMS_SCHEMA for all records of a range, with counts of those lost to retention."""
    left = ASIDE_MOST
    blocks = read_range(connection, topic, wanted, fail_on_data_loss=fail_on_data_loss)
    for block in blocks:
        if isinstance(block, int):
            yield from sums_batches([count_row(LOST, block)])
            continue
        origin = Origin(wanted.partition, block.offsets, left)
        for batch in sums_batches(rows_of(block.values, origin)):
            left -= pc.sum(pc.list_value_length(batch[ASIDE])).as_py() or 0
            yield batch


def sums_batches(rows: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The sums of a block's rows."""
    found: list[pa.RecordBatch] = sums_of_rows(pa.Table.from_batches(rows)).to_batches()
    return found
