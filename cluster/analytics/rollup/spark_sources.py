"""What Spark reads a topic of metric records with: our data source, or Spark's own connector.

Both give the same sums for the same offsets, as bytes. Spark's own, in the package
`spark-sql-kafka-0-10`, reads in the JVM and hands each record to Python workers: slower.
"""

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from cluster.analytics.metric_rows import Aside, Origin, rows_of
from cluster.analytics.rollup import kafka_source
from cluster.analytics.rollup.kafka_records import BLOCK_RECORDS
from cluster.analytics.rollup.offset_ranges import KAFKA, OffsetRange, split, to_text
from cluster.analytics.window_sums import PACKED, PACKED_SQL, packed, sums_of_rows, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_PIECES_PER_PROCESSOR: Final = 3
"""So many tasks for each, so that none waits long for the last."""
_JAVA_NAMES: Final = {"ssl.ca.location": "ssl.truststore.location"}
_JAAS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class NoConnector(Exception):
    """Spark's connector cannot be used; the message says why and what to do."""


def sums_frame(
    spark: "SparkSession",
    source: str,
    connection: Mapping[str, str],
    topic: str,
    ranges: Iterable[OffsetRange],
    late_before: datetime | None,
) -> "DataFrame":
    """The sums of blocks of the records in ranges, for `collected`.

    Records whose interval began before `late_before` are put aside. Raises NoConnector.
    """
    pieces = split(ranges, _PIECES_PER_PROCESSOR * spark.sparkContext.defaultParallelism)
    if source == KAFKA:
        return _by_connector(spark, connection, topic, pieces, late_before)
    return _by_our_source(spark, connection, topic, pieces, late_before)


def warm_up(spark: "SparkSession", connection: Mapping[str, str], topic: str) -> None:
    """Read nothing, the way that records are read: the first time starts Python's processes and
    loads what they, the JVM and this process need, several seconds of work."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with contextlib.suppress(PySparkException, Py4JError):  # the job to come says what is wrong
        collected(_by_our_source(spark, connection, topic, [OffsetRange(0, 0, 0)], None))


def collected(frame: "DataFrame") -> pa.Table:
    """The sums (SUMS_SCHEMA) that a frame of `sums_frame` or of the stream holds: computes them."""
    return unpacked(frame.toArrow()[PACKED])


def java_settings(connection: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka as those of Kafka's Java client. Raises NoConnector for ones that
    have no equal there."""
    found = {}
    for key, value in connection.items():
        if key in ("bootstrap.servers", "security.protocol"):
            found[key] = value
        elif key in ("sasl.mechanism", "sasl.mechanisms"):
            found["sasl.mechanism"] = value
        elif key in _JAVA_NAMES:
            found |= {_JAVA_NAMES[key]: value, "ssl.truststore.type": "PEM"}
        elif key not in ("sasl.username", "sasl.password"):
            raise NoConnector(f"--source kafka does not know {key}: use --source python")
    mechanism = found.get("sasl.mechanism")
    if mechanism is not None:
        if mechanism not in _JAAS or "sasl.username" not in connection:
            raise NoConnector(f"--source kafka cannot use {mechanism}: use --source python")
        name, password = (
            connection.get(key, "").replace("\\", "\\\\").replace('"', '\\"')
            for key in ("sasl.username", "sasl.password")
        )
        found["sasl.jaas.config"] = (
            f'{_JAAS[mechanism]} required username="{name}" password="{password}";'
        )
    return found


def _by_our_source(
    spark: "SparkSession",
    connection: Mapping[str, str],
    topic: str,
    pieces: Sequence[OffsetRange],
    late_before: datetime | None,
) -> "DataFrame":
    spark.dataSource.register(kafka_source.MetricSource)
    reader = (
        spark.read.format(kafka_source.SHORT_NAME)
        .option(kafka_source.TOPIC, topic)
        .option(kafka_source.RANGES, to_text(pieces))
        .option(kafka_source.FAIL_ON_DATA_LOSS, "false")  # counted, and said at the end
    )
    if late_before is not None:
        reader = reader.option(kafka_source.LATE_BEFORE_S, str(int(late_before.timestamp())))
    for key, value in connection.items():
        reader = reader.option(f"{kafka_source.CONNECTION_PREFIX}{key}", value)
    return reader.load()


def _by_connector(
    spark: "SparkSession",
    connection: Mapping[str, str],
    topic: str,
    pieces: Iterable[OffsetRange],
    late_before: datetime | None,
) -> "DataFrame":
    from pyspark.errors import PySparkException

    spans: dict[int, tuple[int, int]] = {}
    for each in pieces:
        start, end = spans.get(each.partition, (each.start, each.end))
        spans[each.partition] = min(start, each.start), max(end, each.end)
    assigned = {topic: sorted(spans)}
    starts, ends = (
        {topic: {str(number): spans[number][side] for number in sorted(spans)}} for side in (0, 1)
    )
    reader = (
        spark.read.format(KAFKA)
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("minPartitions", spark.sparkContext.defaultParallelism)
        .option("failOnDataLoss", "false")
    )
    for key, value in java_settings(connection).items():
        reader = reader.option(f"kafka.{key}", value)
    try:
        values = reader.load()
    except PySparkException as problem:
        if "Failed to find" in str(problem) or "DATA_SOURCE_NOT_FOUND" in str(problem):
            raise NoConnector(
                "this Spark has no connector for Kafka: name it with --packages"
                f" org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}, or use"
                " --source python"
            ) from None
        raise
    # mapInArrow would not pass records through Python's objects, but asks for pandas.
    records = values.select("partition", "offset", "value").rdd
    return spark.createDataFrame(
        records.mapPartitions(lambda found: _sums(found, late_before)), PACKED_SQL
    )


def _sums(records: Iterable["Row"], late_before: datetime | None) -> Iterator[tuple[bytes]]:
    """Rows of sums of the records of one partition of Spark's, in a worker."""
    aside = Aside(kafka_source.ASIDE_MOST, late_before)
    found = iter(records)
    while block := list(itertools.islice(found, BLOCK_RECORDS)):
        for number, part in itertools.groupby(block, lambda row: int(row.partition)):
            rows = list(part)
            values = [None if row.value is None else bytes(row.value) for row in rows]
            origin = Origin(number, [row.offset for row in rows], aside)
            yield (packed(sums_of_rows(rows_of(values, origin))),)
