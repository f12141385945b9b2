"""Sums that Spark adds up give the windows of plain Python."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.metric_records import (
    generated_group_records,
    generated_records,
    lag_windows_of,
    windows_of,
)
from tests.support.spark import need_spark

need_spark()

import pyarrow as pa  # noqa: E402

from cluster.analytics import windows as rollup  # noqa: E402
from cluster.analytics.metric_rows import count_row, rows_of  # noqa: E402
from cluster.analytics.spark_session import spark_session  # noqa: E402
from cluster.analytics.window_files import (  # noqa: E402
    QUOTA_WINDOWS,
    WIDTHS_S,
    WINDOW_KINDS,
    WindowKind,
)
from cluster.analytics.window_sums import (  # noqa: E402
    SUMS_SCHEMA,
    of_kind,
    sums_of_rows,
    windows_of_sums,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One JVM for all of them: it costs seconds and a gigabyte.
pytestmark = [pytest.mark.slow, pytest.mark.spark]

RECORDS = [*generated_records(11, seconds=150), *generated_group_records(3, seconds=150)]


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator["SparkSession"]:
    with spark_session("local[2]", tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture(scope="module")
def added_up(spark) -> pa.Table:
    """The sums of the records in blocks, as the data source hands them over, added up."""
    blocks = [RECORDS[first : first + 500] for first in range(0, len(RECORDS), 500)]
    values = [[json.dumps(record).encode() for record in block] for block in blocks]
    rows = [pa.Table.from_batches(rows_of(each)) for each in values]
    bad = [count_row("rejected", 2, ["a", "b"]), count_row("rejected", 1, ["c"])]
    rows += [pa.Table.from_batches([each]) for each in bad]
    found: pa.Table = rollup.added_up(
        spark.createDataFrame(pa.concat_tables(map(sums_of_rows, rows)))
    ).toArrow()
    return found.cast(SUMS_SCHEMA)


@pytest.mark.parametrize("kind", WINDOW_KINDS, ids=lambda kind: kind.name)
def test_windows_of_every_width_equal_the_reference(added_up, kind: WindowKind):
    for width, width_s in WIDTHS_S.items():
        found = windows_of_sums(of_kind(added_up, kind), kind, width)
        rows = (
            windows_of(RECORDS, width_s)
            if kind is QUOTA_WINDOWS
            else lag_windows_of(RECORDS, width_s, kind.name)
        )
        assert found.select(kind.schema.names) == pa.Table.from_pylist(rows, schema=kind.schema)


def test_each_window_is_one_row(added_up):
    found = of_kind(added_up, QUOTA_WINDOWS)
    assert found.num_rows == len(windows_of(RECORDS, 10))


def test_the_kinds_without_windows_are_counted_and_what_is_put_aside_is_kept(added_up):
    rows = {row["kind"]: row for row in added_up.to_pylist()}
    assert rows["other"]["records"] == 450
    assert rows["rejected"]["records"] == 3
    assert sorted(rows["rejected"]["aside"]) == ["a", "b", "c"]
