"""Spark's names for the types of stored columns, for schemas passed to Spark."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from cluster.analytics.windows.kinds import HISTOGRAM, TIMESTAMP

NAMES: Final = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    TIMESTAMP: "timestamp",
    HISTOGRAM: "map<int,bigint>",
    pa.list_(pa.int64()): "array<bigint>",
    pa.map_(pa.string(), pa.int64()): "map<string,bigint>",
    pa.map_(pa.string(), pa.float64()): "map<string,double>",
}


def ddl(fields: Iterable[pa.Field]) -> str:
    """The columns as Spark's SQL declares them."""
    return ", ".join(f"`{field.name}` {NAMES[field.type]}" for field in fields)
