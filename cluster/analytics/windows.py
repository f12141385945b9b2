"""Adds up sums of metric records by window, as a Spark DataFrame.

Totals are whole numbers (`window_sums.py`), so the order in which Spark adds does not matter.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cluster.analytics.window_sums import (
    ASIDE,
    KEY_NAMES,
    LAST_AT,
    MAXIMA,
    RATES,
    SUMS_SCHEMA,
    TOTALS,
)

_ALL_TOTALS: Final = {name for names in TOTALS.values() for name in names}
_ALL_MAXIMA: Final = {name for names in MAXIMA.values() for name in names}


def added_up(sums: DataFrame) -> DataFrame:
    """One row of sums (SUMS_SCHEMA) for each window of every kind, and for each kind without."""
    keys = ["kind", *KEY_NAMES]
    values = [name for name in SUMS_SCHEMA.names if name not in keys]
    return (
        sums.groupBy(*keys)
        .agg(*(_aggregate(name).alias(name) for name in values))
        .select(*SUMS_SCHEMA.names)
    )


def _aggregate(name: str) -> Column:
    if name in _ALL_TOTALS:
        return F.sum(name)
    if name in _ALL_MAXIMA:
        return F.max(name)
    if name in (RATES, ASIDE):
        return F.flatten(F.collect_list(name))
    return F.max(F.struct(LAST_AT, name))[name]  # of equally late ones the higher
