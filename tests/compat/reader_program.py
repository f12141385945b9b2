"""Reads directories of windows by other programs' means: run by `window_readers.py`, not imported.

Takes a JSON list of jobs from stdin and prints one of their results:

- `{"read": READER, "place": DIR, "to": FILE}` writes all that a reader finds to an Arrow file
- `{"sql": TEXT, "before": BLOCK, "place": DIR}` gives rows of DuckDB, after a block that opens it
- `{"python": TEXT, "name": NAME, "place": DIR}` runs a block, and gives rows of what it so named
"""

import json
import math
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb  # type: ignore[import-not-found,unused-ignore]
import pandas as pd  # type: ignore[import-not-found,import-untyped,unused-ignore]
import polars as pl  # type: ignore[import-not-found,unused-ignore]
import pyarrow as pa
import pyarrow.dataset as ds


def read(reader: str, place: str) -> pa.Table:
    """All rows and columns of a directory."""
    if reader == "pandas":
        schema = ds.dataset(place, partitioning="hive").schema  # for what pandas has as objects
        return pa.Table.from_pandas(pd.read_parquet(place), schema=schema, preserve_index=False)
    if reader == "duckdb":
        query = f"SELECT * FROM read_parquet('{place}/kind=*/**/*.parquet', hive_partitioning=true)"
        return duckdb.sql(query).to_arrow_table()
    assert reader == "polars"
    pattern = f"{place}/kind=*/**/*.parquet"
    return pl.scan_parquet(pattern, hive_partitioning=True).collect().to_arrow()


def rows_of(found: Any) -> list[list[Any]]:
    """The rows of a table or a frame of any of these libraries, as JSON has them."""
    if isinstance(found, pd.Series):
        found = found.reset_index()
    if isinstance(found, pd.DataFrame):
        found = pa.Table.from_pandas(found, preserve_index=False)
    if isinstance(found, pl.DataFrame):
        found = found.to_arrow()
    return [[plain(value) for value in row.values()] for row in found.to_pylist()]


def plain(value: Any) -> Any:
    """A value as JSON has it: times in ms since 1970, decimals as floats."""
    if isinstance(value, datetime):
        return value.timestamp() * 1000
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return [[name, plain(each)] for name, each in value.items()]
    return value


def result_of(job: dict[str, str]) -> Any:
    if "read" in job:
        table = read(job["read"], job["place"])
        with pa.OSFile(job["to"], "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return table.num_rows
    names: dict[str, Any] = {"DIR": job["place"]}
    if "sql" in job:
        exec(job["before"], names)
        return rows_of(names["db"].sql(job["sql"]).to_arrow_table())
    exec(job["python"], names)
    return rows_of(names[job["name"]])


if __name__ == "__main__":
    json.dump([result_of(each) for each in json.load(sys.stdin)], sys.stdout)
