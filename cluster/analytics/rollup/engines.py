"""What does the work of a rollup: Spark, or the process itself. Options name them."""

from typing import Final

AUTO: Final = "auto"
LOCAL: Final = "local"
SPARK: Final = "spark"
ENGINES: Final = (AUTO, SPARK, LOCAL)
"""Spark, this process, or a choice by the number of records."""

LOCAL_RECORDS_MAX: Final = 1_000_000
LOCAL_DELTA_ROWS_MAX: Final = 2_000_000
"""With more records, or rows of deltas to be merged, starting Spark is worth it."""


def engine(records: int, delta_rows: int) -> str:
    """The default engine; `delta_rows` wait to be merged already."""
    is_little = records <= LOCAL_RECORDS_MAX and delta_rows <= LOCAL_DELTA_ROWS_MAX
    return LOCAL if is_little else SPARK
