"""The columns of the data source, derived from the schema of metric records, and its rows."""

import json
import math
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.rollup.kafka_records import Block
from cluster.analytics.source.options import DROPMALFORMED, FAILFAST, PERMISSIVE
from cluster.analytics.windows.histogram import one_array
from cluster.analytics.windows.kinds import TIMESTAMP, WINDOW_SCHEMA
from cluster.analytics.windows.record_schema import (
    NESTED,
    RECORDS,
    START,
    RecordField,
    Values,
    checked,
)
from cluster.model.errors import UserError

RENAMED: Final = {"partition": "topic_partition"}
"""Fields of records whose names would clash with columns of their place in the topic."""
REASON: Final = "_reason"
VALUE: Final = "value"

_PLACE: Final = (
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
)
"""The place of a record in the topic, and its time in the log."""
_REJECTED: Final = (pa.field(REASON, pa.string()), pa.field(VALUE, pa.binary()))
_START: Final = "interval_start"
_LEFT_OUT: Final = frozenset({"v"})
"""Fields with the same value in every record."""
_STATES: Final = "state_ms"
_VALUES: Final = "values"
_OF_NESTED: Final = {
    _STATES: pa.map_(pa.string(), pa.int64()),
    _VALUES: pa.map_(pa.string(), pa.float64()),
}


class Wanted(NamedTuple):
    """The selection of rows made from the values of a topic."""

    kind: str | None
    """None for records of all kinds, in rows with the columns of all."""
    mode: str
    """The treatment of values that are not metric records (`options.MODES`)."""


def columns(wanted: Wanted) -> pa.Schema:
    """The columns of each row, in their order."""
    kinds = RECORDS if wanted.kind is None else [wanted.kind]
    fields = {each.name: each for each in _PLACE}
    for kind in kinds:
        for field in RECORDS[kind]:
            if field.name not in _LEFT_OUT:
                name = RENAMED.get(field.name, field.name)
                fields[name] = pa.field(name, _type(field))
                if field.name == "ts":
                    fields[_START] = pa.field(_START, TIMESTAMP)
    return pa.schema([*fields.values(), *(_REJECTED if wanted.mode == PERMISSIVE else ())])


def rows_of(block: Block, partition: int, wanted: Wanted, now_ms: int) -> pa.RecordBatch:
    """A row for each wanted record of a block, in the order of offsets.

    `now_ms` is the reader's clock. Raises UserError for a bad value if the mode is FAILFAST.
    """
    if wanted.kind is not None and wanted.mode == DROPMALFORMED:
        block = _without_others(block, wanted.kind)
    found = checked(Values(block.values, block.keys, block.timestamps_ms), now_ms)
    if found.rejected and wanted.mode == FAILFAST:
        at, reason = found.rejected[0]
        raise UserError(
            f"partition {partition} has no metric record at offset {block.offsets[at]}: {reason}"
        )
    schema = columns(wanted)
    parts = [schema.empty_table()]
    for kind, table in found.tables.items():
        if wanted.kind in (None, kind):
            of_kind = {**_place(block, partition, table["at"]), **_fields(table, kind, block)}
            parts.append(_padded(of_kind, schema, table.num_rows))
    if wanted.mode == PERMISSIVE and found.rejected:
        places, reasons = zip(*found.rejected, strict=True)
        of_rejected = {
            **_place(block, partition, pa.array(places, pa.int64())),
            REASON: pa.array(reasons, pa.string()),
            VALUE: pa.array([block.values[at] for at in places], pa.binary()),
        }
        parts.append(_padded(of_rejected, schema, len(places)))
    whole = pa.concat_tables(parts).sort_by("offset").combine_chunks()
    return next(iter(whole.to_batches()), pa.RecordBatch.from_pylist([], schema))


def _without_others(block: Block, kind: str) -> Block:
    """The block without values that are clearly of other kinds.

    Parsing these would be most of the work if few are wanted.
    """
    others = tuple(START + other.encode() + b'"' for other in RECORDS if other != kind)
    kept = [at for at, value in enumerate(block.values) if not (value and value.startswith(others))]
    return Block(
        [block.values[at] for at in kept],
        [block.keys[at] for at in kept],
        [block.timestamps_ms[at] for at in kept],
        [block.offsets[at] for at in kept],
    )


_Columns = dict[str, pa.ChunkedArray | pa.Array]


def _type(field: RecordField) -> pa.DataType:
    """The type of the windows' column of that name, if there is one, so that both can be joined."""
    if field.name == "ts":
        return TIMESTAMP
    if field.name in WINDOW_SCHEMA.names:
        return WINDOW_SCHEMA.field(field.name).type
    return _OF_NESTED.get(field.name, field.type)


def _place(block: Block, partition: int, at: pa.ChunkedArray | pa.Array) -> _Columns:
    times = pa.array(block.timestamps_ms, pa.int64()).take(one_array(at))
    known = pc.if_else(pc.greater_equal(times, 0), times, None)
    return {
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(at)),
        "offset": pa.array(block.offsets, pa.int64()).take(one_array(at)),
        "timestamp": pc.cast(pc.multiply(known, 1000), TIMESTAMP),
    }


def _fields(table: pa.Table, kind: str, block: Block) -> _Columns:
    found: _Columns = {_START: table[_START]}
    for field in RECORDS[kind]:
        column = table[field.name]
        if field.name == "ts":
            column = pc.cast(pc.multiply(column, 1000), TIMESTAMP)
        elif field.name == _STATES:
            column = pa.array(map(_present, column.to_pylist()), _OF_NESTED[_STATES])
        elif field.name == _VALUES:
            values = (block.values[at] or b"" for at in table["at"].to_pylist())
            column = pa.array(map(_all_numbers, values, column.to_pylist()), _OF_NESTED[_VALUES])
        found[RENAMED.get(field.name, field.name)] = column
    return found


def _present(part: dict[str, Any] | None) -> list[tuple[str, Any]] | None:
    if part is None:
        return None
    return [(name, value) for name, value in part.items() if value is not None]


def _all_numbers(value: bytes, known: dict[str, float | None]) -> list[tuple[str, float]] | None:
    """The numbers in the values of a broker's record.

    There are more of them than the schema knows, from which windows are made.
    """
    try:
        found = json.loads(value, parse_int=float)[_VALUES]
    except (ValueError, RecursionError):  # in a field that nobody reads
        return _present(known)
    return [
        (name, number)
        for name, number in found.items()
        if isinstance(number, float) and math.isfinite(number) and name.isascii()
    ]


def _padded(found: _Columns, schema: pa.Schema, count: int) -> pa.Table:
    return pa.table(
        [
            pc.cast(found[field.name], field.type)
            if field.name in found
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


assert not {field.name for field in _PLACE} & {
    RENAMED.get(field.name, field.name) for fields in RECORDS.values() for field in fields
}
assert NESTED.keys() == _OF_NESTED.keys()
