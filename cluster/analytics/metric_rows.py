"""Converts the values of metric records (JSON) to rows of a fixed schema, and counts all others.

A block is parsed by pyarrow.json at once. If that fails, or gives another number of rows, the block
is parsed record by record. Metric records of other kinds, and values that are not metric records,
are each replaced by one row per block with their number, so that they are counted in the same pass
over the topic as the windows are computed.
"""

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

QUOTA: Final = "quota"
"""Kind of the records that windows are made of."""
OTHER: Final = "other"
"""Kind under which metric records of other kinds are counted."""
REJECTED: Final = "rejected"
"""Kind under which values that are no metric record are counted."""
LOST: Final = "lost"
"""Kind under which records are counted that retention removed before they were read."""

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

ROW_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("records", pa.int64()),
        ("interval_start", TIMESTAMP),
        ("broker", pa.int32()),
        ("user", pa.string()),
        ("client_id", pa.string()),
        ("quota", pa.string()),
        ("rule", pa.string()),
        ("limit", pa.float64()),
        ("usage", pa.float64()),
        ("rate", pa.float64()),
        ("requests", pa.int64()),
        ("throttled", pa.int64()),
        ("throttle_ms", pa.float64()),
        ("muted_ms", pa.float64()),
    ]
)
"""What the data source hands to Spark: order, names and types are checked by Spark."""

ROW_COLUMNS_SQL: Final = (
    "kind string, records bigint, interval_start timestamp, broker int, user string,"
    " client_id string, quota string, rule string, `limit` double, usage double, rate double,"
    " requests bigint, throttled bigint, throttle_ms double, muted_ms double"
)
"""ROW_SCHEMA in Spark's DDL syntax."""

_JSON_SCHEMA: Final = pa.schema(
    [
        ("v", pa.int64()),
        ("kind", pa.string()),
        ("ts", pa.int64()),
        ("interval_ms", pa.int64()),
        *((field.name, field.type) for field in list(ROW_SCHEMA)[3:]),
    ]
)
_VERSION: Final = 1
_NEEDED: Final = (
    *("broker", "quota", "usage", "rate"),
    *("requests", "throttled", "throttle_ms", "muted_ms"),
)
_TS_MAX_MS: Final = 4_102_444_800_000
"""The year 2100: a larger number is in another unit than milliseconds."""
_NUMBER_MAX: Final = 1e12
"""Per interval; windows add up millionths in 64 bits, and this leaves room for nine of these."""


def rows_of(values: Sequence[bytes | None]) -> list[pa.RecordBatch]:
    """Batches of ROW_SCHEMA for one block of record values; each value is counted in one."""
    present = [value for value in values if value]
    parsed, unreadable = _parse(present)
    table, others = _checked(parsed)
    rejected = len(values) - len(present) + unreadable + parsed.num_rows - table.num_rows - others
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    batches += [
        count_row(kind, count) for kind, count in ((OTHER, others), (REJECTED, rejected)) if count
    ]
    return batches


def count_row(kind: str, count: int) -> pa.RecordBatch:
    """One row that says how many records of a kind there were."""
    counted = {"kind": kind, "records": count}
    return pa.RecordBatch.from_pylist([counted], schema=ROW_SCHEMA)


def _parse(values: Sequence[bytes]) -> tuple[pa.Table, int]:
    """The values as a table of _JSON_SCHEMA, and how many could not be read as such."""
    if not values:
        return _JSON_SCHEMA.empty_table(), 0
    text = b"\n".join(values)
    try:
        table = pa.json.read_json(
            io.BytesIO(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=_JSON_SCHEMA, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows == len(values):
            table.validate(full=True)  # the parser takes bytes that are not UTF-8
            return table, 0
    except pa.ArrowInvalid:
        pass  # to find the bad ones, parse record by record
    rows = list(filter(None, map(_row, values)))
    return pa.Table.from_pylist(rows, schema=_JSON_SCHEMA), len(values) - len(rows)


def _row(value: bytes) -> dict[str, Any] | None:
    """One value as a row of _JSON_SCHEMA; None if the schema cannot hold it."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    row = {field.name: found.get(field.name) for field in _JSON_SCHEMA}
    fits = all(_fits(row[field.name], field.type) for field in _JSON_SCHEMA)
    return row if fits else None


def _fits(value: object, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if kind == pa.string():
        return isinstance(value, str) and _has_utf8(value)
    if isinstance(value, bool):
        return False
    if kind == pa.float64():
        return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63)
    return isinstance(value, int) and abs(value) < 1 << (kind.bit_width - 1)


def _has_utf8(text: str) -> bool:
    """Whether the text can be encoded: JSON can contain unpaired surrogates, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(parsed: pa.Table) -> tuple[pa.Table, int]:
    """The rows of kind `quota` that windows can be made of, and how many were of other kinds."""
    current = pc.equal(parsed["v"], _VERSION)
    named = pc.and_(current, pc.is_valid(parsed["kind"]))
    is_quota = pc.equal(parsed["kind"], QUOTA)
    others = pc.sum(pc.and_(named, pc.invert(is_quota))).as_py() or 0
    whole = _all(
        [
            named,
            is_quota,
            _between(parsed["interval_ms"], 1, _TS_MAX_MS),
            _between(parsed["ts"], 1, _TS_MAX_MS),
            _between(parsed["usage"], 0, _NUMBER_MAX),
            _between(parsed["throttle_ms"], 0, _NUMBER_MAX),
            _between(parsed["muted_ms"], 0, _NUMBER_MAX),
            *(pc.is_valid(parsed[name]) for name in _NEEDED),
        ]
    )
    kept = parsed.filter(whole)
    # `ts` is the end of the interval: a record belongs where its interval began.
    start_us = pc.multiply(pc.subtract(kept["ts"], kept["interval_ms"]), 1000)
    ones = pa.chunked_array([pa.repeat(1, kept.num_rows)], pa.int64())
    widened = kept.append_column("records", ones).append_column(
        "interval_start", pc.cast(start_us, TIMESTAMP)
    )
    return widened.select(ROW_SCHEMA.names).cast(ROW_SCHEMA), others


def _between(numbers: pa.ChunkedArray, least: float, most: float) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most))


def _all(conditions: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """True where every condition is true; a missing value meets none."""
    first, *rest = conditions
    for condition in rest:
        first = pc.and_(first, condition)
    return pc.fill_null(first, fill_value=False)
