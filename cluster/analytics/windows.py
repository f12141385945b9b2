"""Aggregates metric records to 10 s windows, and these to 1 min windows, as Spark DataFrames.

Sums are computed in integer millionths: a sum of floats depends on the order of addition, so a
second run might not equal the first.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cluster.analytics.metric_rows import QUOTA

WIDTHS_S: Final = {"10s": 10, "1m": 60}
"""Window widths by the name of their folder, narrowest first."""

KEYS: Final = ("window_start", "broker", "user", "client_id", "quota", "rule", "limit")
"""The columns that identify a window; a limit that changes within a window splits it in two."""

WINDOW_COLUMNS_SQL: Final = (
    "window_start timestamp, broker int, user string, client_id string, quota string,"
    " rule string, `limit` double, usage_sum double, rate_avg double, rate_max double,"
    " requests bigint, throttled bigint, throttle_ms_sum double, throttle_ms_max double,"
    " muted_ms_sum double, seconds_over_limit bigint, records bigint"
)
"""Columns and types of every window, in the order of the files."""

_COLUMNS: Final = tuple(part.split()[0].strip("`") for part in WINDOW_COLUMNS_SQL.split(","))
_MILLIONTH: Final = 1e6


def ten_second_windows(rows: DataFrame) -> DataFrame:
    """Windows of ROW_SCHEMA rows, with `kind` in front; kinds other than `quota` have no keys."""
    width_s = WIDTHS_S["10s"]
    over_limit = F.when(F.col("rate") > F.col("limit"), F.col("records")).otherwise(0)
    summed = (
        rows.withColumn("window_start", _floor(F.col("interval_start"), width_s))
        .groupBy("kind", *KEYS)
        .agg(
            _exact_sum("usage").alias("usage_sum"),
            F.max("rate").alias("rate_max"),
            F.sum("requests").alias("requests"),
            F.sum("throttled").alias("throttled"),
            _exact_sum("throttle_ms").alias("throttle_ms_sum"),
            F.max("throttle_ms").alias("throttle_ms_max"),
            _exact_sum("muted_ms").alias("muted_ms_sum"),
            F.sum(over_limit).alias("seconds_over_limit"),
            F.sum("records").alias("records"),
        )
    )
    return _with_average(summed, width_s).select("kind", *_COLUMNS)


def quota_windows(windows: DataFrame) -> DataFrame:
    """What `ten_second_windows` made of quota records."""
    return windows.where(F.col("kind") == QUOTA).drop("kind")


def wider_windows(windows: DataFrame, width_s: int) -> DataFrame:
    """The same windows aggregated to a width that is a multiple of theirs."""
    summed = (
        windows.withColumn("window_start", _floor(F.col("window_start"), width_s))
        .groupBy(*KEYS)
        .agg(
            _exact_sum("usage_sum").alias("usage_sum"),
            F.max("rate_max").alias("rate_max"),
            F.sum("requests").alias("requests"),
            F.sum("throttled").alias("throttled"),
            _exact_sum("throttle_ms_sum").alias("throttle_ms_sum"),
            F.max("throttle_ms_max").alias("throttle_ms_max"),
            _exact_sum("muted_ms_sum").alias("muted_ms_sum"),
            F.sum("seconds_over_limit").alias("seconds_over_limit"),
            F.sum("records").alias("records"),
        )
    )
    return _with_average(summed, width_s).select(*_COLUMNS)


def merge(stored: DataFrame, computed: DataFrame) -> DataFrame:
    """For each window the version made of more records; if they have the same number, the new one.

    Retention can only remove records from a window, so the version with more records is right.
    """
    everything = stored.withColumn("is_new", F.lit(0)).unionByName(
        computed.withColumn("is_new", F.lit(1))
    )
    values = [F.col(name) for name in _COLUMNS if name not in KEYS]
    fuller = F.max(F.struct("records", "is_new", F.struct(*values).alias("window"))).alias("best")
    return everything.groupBy(*KEYS).agg(fuller).select(*KEYS, "best.window.*").select(*_COLUMNS)


def _floor(time: Column, width_s: int) -> Column:
    seconds = F.unix_seconds(time)
    return F.timestamp_seconds(seconds - seconds % width_s)


def _exact_sum(name: str) -> Column:
    return F.sum(F.round(F.col(name) * _MILLIONTH).cast("bigint")) / _MILLIONTH


def _with_average(summed: DataFrame, width_s: int) -> DataFrame:
    return summed.withColumn("rate_avg", F.col("usage_sum") / width_s)
