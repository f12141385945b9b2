"""Windows by Spark equal those of plain Python; the merge keeps what cannot be computed anew."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.metric_records import (
    START_MS,
    generated_group_records,
    generated_records,
    lag_windows_of,
    quota_record,
    windows_of,
)
from tests.support.spark import need_spark

need_spark()

import json  # noqa: E402

import pyarrow as pa  # noqa: E402

from cluster.analytics import windows as rollup  # noqa: E402
from cluster.analytics.metric_rows import count_row, rows_of  # noqa: E402
from cluster.analytics.spark_session import spark_session  # noqa: E402
from cluster.analytics.window_files import (  # noqa: E402
    GROUP_WINDOWS,
    LAG_WINDOWS,
    WINDOW_SCHEMA,
    WindowKind,
    sorted_windows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# One JVM for all of them: it costs seconds and a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator["SparkSession"]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


def frame(spark: "SparkSession", records) -> "DataFrame":
    """Records as the data source hands them over."""
    batches = rows_of([json.dumps(record).encode() for record in records])
    return spark.createDataFrame(pa.Table.from_batches([*batches, count_row("rejected", 3)]))


def ten_seconds(spark: "SparkSession", records) -> "DataFrame":
    return rollup.windows_of_kind(rollup.ten_second_windows(frame(spark, records)))


def expected(records, width_s: int) -> pa.Table:
    return pa.Table.from_pylist(windows_of(records, width_s), schema=WINDOW_SCHEMA)


def test_both_widths_equal_the_reference(spark):
    records = list(generated_records(11, seconds=150))
    windows = ten_seconds(spark, records)
    assert sorted_windows(windows.toArrow()) == expected(records, 10)
    minutes = rollup.wider_windows(windows, 60)
    assert sorted_windows(minutes.toArrow()) == expected(records, 60)


@pytest.mark.parametrize("kind", [LAG_WINDOWS, GROUP_WINDOWS], ids=lambda kind: kind.name)
def test_windows_of_groups_equal_the_reference(spark, kind: WindowKind):
    """Computed in one pass with those of quotas; the fuller one is kept of these as well."""
    records = list(generated_group_records(3, seconds=150))
    quotas = list(generated_records(11, seconds=20))
    everything = rollup.ten_second_windows(frame(spark, [*quotas, *records]))
    windows = rollup.windows_of_kind(everything, kind)
    assert sorted_windows(windows.toArrow(), kind) == lags_expected(records, 10, kind)
    minutes = rollup.wider_windows(windows, 60, kind)
    assert sorted_windows(minutes.toArrow(), kind) == lags_expected(records, 60, kind)
    assert sorted_windows(rollup.windows_of_kind(everything).toArrow()) == expected(quotas, 10)

    left = [record for record in records if record["ts"] > START_MS + 47_000]
    fewer = rollup.windows_of_kind(rollup.ten_second_windows(frame(spark, left)), kind)
    merged = rollup.merge(windows, fewer, kind)
    assert sorted_windows(merged.toArrow(), kind) == lags_expected(records, 10, kind)


def lags_expected(records, width_s: int, kind: WindowKind) -> pa.Table:
    rows = lag_windows_of(records, width_s, kind.name)
    return pa.Table.from_pylist(rows, schema=kind.schema)


def test_the_kinds_are_counted_with_the_windows(spark):
    rows = rollup.ten_second_windows(frame(spark, generated_records(1, seconds=10))).collect()
    counts = {row.kind: row.records for row in rows if row.kind != "quota"}
    assert counts == {"other": 30, "rejected": 3}


def test_an_interval_belongs_where_it_began(spark):
    boundary_ms = START_MS  # a multiple of 10 s
    records = [quota_record(ts=boundary_ms + shift) for shift in (-1, 0, 999, 1000, 1001)]
    rows = ten_seconds(spark, records).orderBy("window_start").collect()
    assert [row.records for row in rows] == [3, 2]


def test_the_fuller_window_is_kept(spark):
    records = list(generated_records(4, seconds=40))
    later_ms = START_MS + 14_500  # retention removed what came before, in the middle of a window
    left = [record for record in records if record["ts"] > later_ms]
    more = list(generated_records(5, seconds=20, start_ms=START_MS + 40_000))
    stored = ten_seconds(spark, records)
    merged = rollup.merge(stored, ten_seconds(spark, [*left, *more]))
    assert sorted_windows(merged.toArrow()) == expected([*records, *more], 10)


def test_of_equally_full_windows_the_new_one_is_kept(spark):
    old, new = quota_record(usage=1.0), quota_record(usage=2.0)
    merged = rollup.merge(ten_seconds(spark, [old]), ten_seconds(spark, [new])).collect()
    assert [row.usage_sum for row in merged] == [2.0]
