"""The data source over a live topic: batch and stream, offsets, lost records, passwords, errors."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.metric_records import Record, produce, quota_record
from tests.support.reference_windows import every_kind
from tests.support.running_cluster import Cluster
from tests.support.spark import java_log, need_spark
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

need_spark()

from pyspark.errors import PySparkException  # noqa: E402

from cluster.analytics.metrics_source import MetricsSource  # noqa: E402
from cluster.analytics.rollup.spark_session import spark_session  # noqa: E402
from cluster.analytics.windows.record_schema import NESTED, RECORDS  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PATIENCE_S = 60.0
FOR_EVER = {"retention.ms": "-1"}
"""Of records that have the times of the generator."""
ALL = every_kind(3, seconds=60)


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("spark") / "spark.log"


@pytest.fixture(scope="module")
def spark(log) -> Iterator["SparkSession"]:
    with spark_session("local[2]", log) as session:
        session.dataSource.register(MetricsSource)
        yield session


@pytest.fixture(scope="module")
def full_topic(cluster) -> str:
    """With every record of ALL and a bad one, in three partitions."""
    topic = create_topic(cluster, unique_name("metrics"), partitions=3, configs=FOR_EVER)
    produce(cluster.bootstrap, topic, [*ALL, b"bad"])
    return topic


def read(spark: "SparkSession", cluster: Cluster, topic: str, **options: Any) -> "DataFrame":
    return (
        spark.read.format("milena-metrics")
        .options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}, **options)
        .load()
    )


def streamed(
    spark: "SparkSession", cluster: Cluster, topic: str, place: Path, **options: Any
) -> list[int]:
    """Append what is new to Parquet files; the records of each batch that had any."""
    query = (
        spark.readStream.format("milena-metrics")
        .options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}, **options)
        .load()
        .writeStream.option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "rows"), format="parquet")
    )
    assert query.awaitTermination(120)
    found = [each.numInputRows for each in query.recentProgress]
    return [count for count in found if count]


def counts(records: list[Record]) -> Counter[str]:
    return Counter(each["kind"] for each in records)


def test_all_kinds_are_read_with_their_types(spark, cluster, full_topic):
    found = read(spark, cluster, full_topic)
    by_kind = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
    assert by_kind == counts(ALL)
    types = dict(found.dtypes)
    assert (types["ts"], types["timestamp"], types["broker"]) == ("timestamp", "timestamp", "int")
    assert (types["values"], types["buckets"]) == ("map<string,double>", "array<bigint>")
    row = found.where("kind = 'broker' and values['LogDirectoryTotalBytes'] > 0").first()
    assert row["values"]["SomethingElse"] == 1.0


@pytest.mark.parametrize("kind", RECORDS)
def test_the_records_of_one_kind_are_read(spark, cluster, full_topic, kind):
    found = read(spark, cluster, full_topic, kind=kind).selectExpr(
        "unix_millis(ts) AS ts", "broker"
    )
    expected = Counter((each["ts"], each["broker"]) for each in ALL if each["kind"] == kind)
    assert Counter((row["ts"], row["broker"]) for row in found.collect()) == expected


def test_metric_records_written_by_brokers_are_read(spark, cluster, full_topic):
    def kinds() -> dict[str, int]:
        found = read(spark, cluster, "__cluster_metrics", mode="PERMISSIVE")
        assert found.where("_reason IS NOT NULL").collect() == []
        return {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}

    wanted = {"broker", "topic", "latency", "event", "quota"}
    wait_until(lambda: wanted <= kinds().keys(), "records of most kinds", PATIENCE_S)
    # A broker's first record may precede its first look at the disk.
    measured = "values['LogDirectoryTotalBytes'] > 0"
    found = read(spark, cluster, "__cluster_metrics", kind="broker").where(measured)
    values = wait_until(found.first, "a record with the size of the disk", PATIENCE_S)["values"]
    assert values["LogDirectoryTotalBytes"] > values["LogDirectoryUsableBytes"] > 0
    assert len(values) > len(NESTED["values"])


def test_source_is_available_in_sql(spark, cluster, full_topic):
    spark.sql(
        "CREATE TEMPORARY VIEW quotas USING `milena-metrics` OPTIONS"
        f" ('kafka.bootstrap.servers' '{cluster.bootstrap}', subscribe '{full_topic}',"
        " kind 'quota')"
    )
    assert spark.sql("SELECT sum(requests) FROM quotas").first()[0] == sum(
        each["requests"] for each in ALL if each["kind"] == "quota"
    )


def test_malformed_values_are_rows_when_they_are_asked_for(spark, cluster, full_topic):
    found = read(spark, cluster, full_topic, kind="event", mode="PERMISSIVE")
    (bad,) = found.where("_reason IS NOT NULL").collect()
    assert (bad["_reason"], bytes(bad["value"]), bad["kind"]) == ("not JSON", b"bad", None)


def test_offsets_bound_what_is_read(spark, cluster):
    topic = create_topic(cluster, unique_name("metrics"), configs=FOR_EVER)
    produce(cluster.bootstrap, topic, [quota_record(requests=n) for n in range(10)])
    bounds = {"startingOffsets": {topic: {"0": 3}}, "endingOffsets": {topic: {"0": 8}}}
    texts = {name: json.dumps(at) for name, at in bounds.items()}
    found = read(spark, cluster, topic, minPartitions=3, **texts)
    assert found.rdd.getNumPartitions() == 3
    assert sorted(row["requests"] for row in found.collect()) == [3, 4, 5, 6, 7]
    assert read(spark, cluster, topic, startingOffsets="latest").count() == 0


def test_a_stream_reads_each_record_once_over_restarts_in_batches_of_a_limit(
    spark, cluster, tmp_path
):
    topic = create_topic(cluster, unique_name("metrics"), partitions=2, configs=FOR_EVER)
    records = [quota_record(broker=n % 3, requests=n) for n in range(50)]
    produce(cluster.bootstrap, topic, records[:30])
    how = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 12}
    batches = streamed(spark, cluster, topic, tmp_path, **how)
    assert sum(batches) == 30
    assert len(batches) == 3
    assert streamed(spark, cluster, topic, tmp_path, **how) == []
    produce(cluster.bootstrap, topic, records[30:])
    assert sum(streamed(spark, cluster, topic, tmp_path, kind="quota")) == 20
    found = spark.read.parquet(str(tmp_path / "rows")).select("requests").collect()
    assert sorted(row["requests"] for row in found) == list(range(50))


def test_a_stream_begins_at_the_end_unless_told(spark, cluster, tmp_path):
    topic = create_topic(cluster, unique_name("metrics"), configs=FOR_EVER)
    produce(cluster.bootstrap, topic, [quota_record()])
    assert streamed(spark, cluster, topic, tmp_path) == []
    produce(cluster.bootstrap, topic, [quota_record()] * 2)
    assert streamed(spark, cluster, topic, tmp_path) == [2]


def test_records_that_are_gone_fail_a_read_unless_that_is_allowed(spark, cluster):
    topic = create_topic(cluster, unique_name("metrics"), configs=FOR_EVER)
    produce(cluster.bootstrap, topic, [quota_record(requests=n) for n in range(10)])
    where = ("--topic", topic, "--partition", "0", "--before-offset", "6")
    cluster.command("delete-records", *where)
    start = json.dumps({topic: {"0": 2}})
    with pytest.raises(
        PySparkException, match="partition 0 no longer has offset 2; failOnDataLoss"
    ):
        read(spark, cluster, topic, startingOffsets=start).collect()
    found = read(spark, cluster, topic, startingOffsets=start, failOnDataLoss="false")
    assert sorted(row["requests"] for row in found.collect()) == [6, 7, 8, 9]


def test_source_reports_what_it_cannot_read_in_one_line(spark, cluster, full_topic):
    for topic, options, line in (
        (full_topic, {"kind": "quotas"}, "kind must be one of quota, group"),
        ("no-such-topic", {}, "there is no topic no-such-topic"),
        (full_topic, {"endingOffsets": json.dumps({full_topic: {"0": 1}})}, "endingOffsets must"),
        (full_topic, {"mode": "FAILFAST"}, "has no metric record at offset"),
    ):
        with pytest.raises(PySparkException, match=f"UserError: [^\n]*{line}"):
            read(spark, cluster, topic, **options).collect()


def test_password_is_in_no_plan_message_or_log(spark, cluster, full_topic, capfd):
    secret = {"kafka.sasl.password": "geheim-1", "kafka.ssl.key.password": "geheim-2"}
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        found = read(spark, cluster, full_topic, **secret)
        found.explain(extended=True)
        assert found.count() == len(ALL)
        for wrong in ({"kafka.sasl.jaas.config": "geheim-3"}, {"kafka.no.such": "geheim-4"}):
            with pytest.raises(PySparkException) as failed:
                read(spark, cluster, full_topic, **secret, **wrong).count()
            assert "cannot read topic" in str(failed.value)
            assert "geheim" not in str(failed.value)
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    assert "geheim" not in "".join(capfd.readouterr())
    logged = java_log().read_text(errors="replace")
    assert " DEBUG " in logged
    assert re.findall(r".*geheim.*", logged) == []
