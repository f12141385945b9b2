"""Aggregates metric records to 10 s windows, and these to 1 min windows, as Spark DataFrames.

Sums are computed in integer millionths: a sum of floats depends on the order of addition, so a
second run might not equal the first.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cluster.analytics.metric_rows import GROUP, LAG, QUOTA, STATES
from cluster.analytics.window_files import (
    GROUP_WINDOWS,
    QUOTA_WINDOWS,
    WINDOW_KINDS,
    WindowKind,
)

WIDTHS_S: Final = {"10s": 10, "1m": 60}
"""Window widths by the name of their folder, narrowest first."""

_MILLIONTH: Final = 1e6


class _Aggregates(NamedTuple):
    """How windows of one kind are computed. Columns have no two meanings in different kinds."""

    of_rows: Callable[[], Sequence[Column]]
    of_windows: Callable[[], Sequence[Column]]
    """The same columns, from narrower windows."""
    average: Callable[[int], tuple[str, Column]]
    """The column that follows from the others, for a width in seconds."""


def _quotas_of_rows() -> Sequence[Column]:
    over_limit = F.when(F.col("rate") > F.col("limit"), F.col("records")).otherwise(0)
    return (
        _exact_sum("usage").alias("usage_sum"),
        F.max("rate").alias("rate_max"),
        F.sum("requests").alias("requests"),
        F.sum("throttled").alias("throttled"),
        _exact_sum("throttle_ms").alias("throttle_ms_sum"),
        F.max("throttle_ms").alias("throttle_ms_max"),
        _exact_sum("muted_ms").alias("muted_ms_sum"),
        F.sum(over_limit).alias("seconds_over_limit"),
    )


def _quotas_of_windows() -> Sequence[Column]:
    return (
        _exact_sum("usage_sum").alias("usage_sum"),
        F.max("rate_max").alias("rate_max"),
        F.sum("requests").alias("requests"),
        F.sum("throttled").alias("throttled"),
        _exact_sum("throttle_ms_sum").alias("throttle_ms_sum"),
        F.max("throttle_ms_max").alias("throttle_ms_max"),
        _exact_sum("muted_ms_sum").alias("muted_ms_sum"),
        F.sum("seconds_over_limit").alias("seconds_over_limit"),
    )


def _lags_of_rows() -> Sequence[Column]:
    return (
        F.max("lag").alias("lag_max"),
        F.max_by("lag", "interval_start").alias("lag_last"),
        F.sum("lag").alias("lag_sum"),
    )


def _lags_of_windows() -> Sequence[Column]:
    return (
        F.max("lag_max").alias("lag_max"),
        F.max_by("lag_last", "narrow_start").alias("lag_last"),
        F.sum("lag_sum").alias("lag_sum"),
    )


_AGGREGATES: Final = {
    QUOTA: _Aggregates(
        _quotas_of_rows,
        _quotas_of_windows,
        lambda width_s: ("rate_avg", F.col("usage_sum") / width_s),
    ),
    GROUP: _Aggregates(
        lambda: (
            F.max("members").alias("members_max"),
            *(F.sum(name).alias(name) for name in STATES.values()),
        ),
        lambda: (
            *_lags_of_windows(),
            F.max("members_max").alias("members_max"),
            *(F.sum(name).alias(name) for name in STATES.values()),
        ),
        lambda _: ("lag_avg", F.col("lag_sum") / F.col("records")),
    ),
    LAG: _Aggregates(
        lambda: (
            *_lags_of_rows(),
            F.max("log_end").alias("log_end_max"),
            F.max("committed").alias("committed_max"),
        ),
        lambda: (
            *_lags_of_windows(),
            F.max("log_end_max").alias("log_end_max"),
            F.max("committed_max").alias("committed_max"),
        ),
        lambda _: ("lag_avg", F.col("lag_sum") / F.col("records")),
    ),
}
"""Of a group's rows the lags are computed with those of partitions, in the same columns."""


def ten_second_windows(rows: DataFrame) -> DataFrame:
    """Windows of ROW_SCHEMA rows, with `kind` in front, of all kinds in one pass over the rows.

    Each has its keys and columns, and null in the others; kinds without windows have no keys.
    """
    keys = dict.fromkeys(name for kind in WINDOW_KINDS for name in _keys(kind))
    return (
        rows.withColumn("window_start", _floor(F.col("interval_start"), WIDTHS_S["10s"]))
        .groupBy("kind", *keys)
        .agg(
            *(column for each in _AGGREGATES.values() for column in each.of_rows()),
            F.sum("records").alias("records"),
        )
    )


def windows_of_kind(windows: DataFrame, kind: WindowKind = QUOTA_WINDOWS) -> DataFrame:
    """What `ten_second_windows` made of the records of one kind."""
    average = _AGGREGATES[kind.name].average(WIDTHS_S["10s"])
    found = windows.where(F.col("kind") == kind.name).withColumn(*average)
    if kind is GROUP_WINDOWS:
        found = found.fillna(0, list(STATES.values()))
    return found.select(*kind.schema.names)


def wider_windows(windows: DataFrame, width_s: int, kind: WindowKind = QUOTA_WINDOWS) -> DataFrame:
    """The same windows aggregated to a width that is a multiple of theirs."""
    aggregates = _AGGREGATES[kind.name]
    return (
        windows.withColumn("narrow_start", F.col("window_start"))
        .withColumn("window_start", _floor(F.col("window_start"), width_s))
        .groupBy(*_keys(kind))
        .agg(*aggregates.of_windows(), F.sum("records").alias("records"))
        .withColumn(*aggregates.average(width_s))
        .select(*kind.schema.names)
    )


def merge(stored: DataFrame, computed: DataFrame, kind: WindowKind = QUOTA_WINDOWS) -> DataFrame:
    """For each window the version made of more records; if they have the same number, the new one.

    Retention can only remove records from a window, so the version with more records is right.
    """
    everything = stored.withColumn("is_new", F.lit(0)).unionByName(
        computed.withColumn("is_new", F.lit(1))
    )
    keys = _keys(kind)
    values = [F.col(name) for name in kind.schema.names if name not in keys]
    fuller = F.max(F.struct("records", "is_new", F.struct(*values).alias("window"))).alias("best")
    merged = everything.groupBy(*keys).agg(fuller).select(*keys, "best.window.*")
    return merged.select(*kind.schema.names)


def _keys(kind: WindowKind) -> list[str]:
    names: list[str] = kind.schema.names
    return names[: kind.keys]


def _floor(time: Column, width_s: int) -> Column:
    seconds = F.unix_seconds(time)
    return F.timestamp_seconds(seconds - seconds % width_s)


def _exact_sum(name: str) -> Column:
    return F.sum(F.round(F.col(name) * _MILLIONTH).cast("bigint")) / _MILLIONTH
