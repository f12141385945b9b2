"""Reads the topic with Spark's own connector for Kafka, the package `spark-sql-kafka-0-10`.

It reads in the JVM and passes each record to Python workers: slower than `pieces.read_piece`, with
the same sums.
"""

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from cluster.analytics.rollup.kafka_records import BLOCK_BYTES, BLOCK_RECORDS, Block
from cluster.analytics.rollup.offset_ranges import KAFKA, OffsetRange
from cluster.analytics.rollup.pieces import PieceSums, ReadJob
from cluster.analytics.rollup.runners import SparkRunner, in_words
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.store import open_store
from cluster.model.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_JAVA_NAMES: Final = {
    "bootstrap.servers": "bootstrap.servers",
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
_JAAS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SECRETS: Final = "(?i)url|jaas|password|secret|token|key"
"""Options that Spark must not show in plans, such as those of the connector."""


class NoConnector(UserError):
    """Spark's connector cannot be used; the message says why and what to do."""


class ConnectorRunner(SparkRunner):
    """A runner that reads with the connector."""

    def read(self, job: ReadJob, ranges: Sequence[OffsetRange]) -> list[PieceResult]:
        with in_words(self.log):
            rows = self._records(job, ranges).rdd.mapPartitions(functools.partial(_add_up, job))
            return [PieceResult.from_json(each) for each in rows.collect()]

    def _records(self, job: ReadJob, ranges: Sequence[OffsetRange]) -> "DataFrame":
        from pyspark.errors import PySparkException

        spans = {each.partition: (each.start, each.end) for each in ranges}
        assigned = {job.topic: sorted(spans)}
        starts, ends = (
            {job.topic: {str(number): spans[number][side] for number in sorted(spans)}}
            for side in (0, 1)
        )
        self.spark.conf.set("spark.sql.redaction.options.regex", _SECRETS)
        reader = (
            self.spark.read.format(KAFKA)
            .option("assign", json.dumps(assigned))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .option("minPartitions", self.spark.sparkContext.defaultParallelism)
            .option("failOnDataLoss", "false")
        )
        for key, value in java_settings(job.connection).items():
            reader = reader.option(f"kafka.{key}", value)
        try:
            values = reader.load()
        except PySparkException as problem:
            if "Failed to find" in str(problem) or "DATA_SOURCE_NOT_FOUND" in str(problem):
                raise NoConnector(
                    "this Spark has no connector for Kafka: name it with --packages"
                    f" org.apache.spark:spark-sql-kafka-0-10_2.13:{self.spark.version}, or use"
                    " --source python"
                ) from None
            raise
        # mapInArrow would avoid Python objects for records, but requires pandas.
        return values.selectExpr(
            *("partition", "offset", "key", "value", "unix_millis(timestamp) AS timestamp_ms")
        )


def java_settings(connection: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka as those of Kafka's Java client.

    Raises NoConnector for settings without an equivalent there.
    """
    found = {}
    for key, value in connection.items():
        if key in _JAVA_NAMES:
            found[_JAVA_NAMES[key]] = value
        elif key not in ("sasl.username", "sasl.password"):
            raise NoConnector(f"--source kafka does not know {key}: use --source python")
    if "security.protocol" in found:
        found["security.protocol"] = found["security.protocol"].upper()
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    for store in ("truststore", "keystore"):
        if any(key.startswith(f"ssl.{store}.") for key in found):
            found[f"ssl.{store}.type"] = "PEM"
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


def _add_up(job: ReadJob, records: Iterable["Row"]) -> Iterator[str]:
    """Add up the records of one of Spark's partitions, in a worker."""
    sums = PieceSums(job, open_store(job.output))
    for number, found in itertools.groupby(records, lambda row: int(row.partition)):
        for block in _blocks(found):
            sums.add(number, block)
    yield sums.done().as_json()


def _blocks(records: Iterable["Row"]) -> Iterator[Block]:
    block = Block([], [], [], [])
    size = 0
    for row in records:
        value = None if row.value is None else bytes(row.value)
        block.values.append(value)
        block.keys.append(None if row.key is None else bytes(row.key))
        block.timestamps_ms.append(int(row.timestamp_ms))
        block.offsets.append(int(row.offset))
        size += len(value or b"")
        if len(block.values) >= BLOCK_RECORDS or size >= BLOCK_BYTES:
            yield block
            block, size = Block([], [], [], []), 0
    if block.values:
        yield block
