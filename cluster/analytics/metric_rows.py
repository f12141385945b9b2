"""Converts the values of metric records (JSON) to rows of a fixed schema, and counts all others.

Of a block pyarrow.json parses those values at once that begin as brokers begin records of quotas,
the most by far, and all others at once: columns that are not looked for cost nothing. If that
fails, or gives another number of rows, they are parsed record by record. Metric records of other
kinds, and values that are not metric records, are each replaced by one row per block with their
number, so that they are counted in the same pass over the topic as the windows are computed.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

QUOTA: Final = "quota"
GROUP: Final = "group"
LAG: Final = "lag"
"""Kinds of the records that windows are made of."""
OTHER: Final = "other"
"""Kind under which metric records of other kinds are counted."""
REJECTED: Final = "rejected"
"""Kind under which values that are no metric record are counted."""
LOST: Final = "lost"
"""Kind under which records are counted that retention removed before they were read."""
LATE: Final = "late"
"""Kind of rows that put late records aside. They count none: the records have rows of their own."""

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
STATES: Final = {
    "Empty": "empty_ms",
    "PreparingRebalance": "preparing_rebalance_ms",
    "CompletingRebalance": "completing_rebalance_ms",
    "Assigning": "assigning_ms",
    "Reconciling": "reconciling_ms",
    "Stable": "stable_ms",
}
"""The column of the time in each state of a group, of either protocol."""

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
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("lag", pa.int64()),
        ("log_end", pa.int64()),
        ("committed", pa.int64()),
        ("members", pa.int64()),
        *((name, pa.int64()) for name in STATES.values()),
        ("aside", pa.list_(pa.string())),
    ]
)
"""A metric record as a row. Columns of another kind of record than the row's are null; of groups,
so is the broker."""

_VERSION: Final = 1
_OF_BROKER: Final = b'{"v":1,"kind":"broker",'
_OF_QUOTA: Final = b'{"v":1,"kind":"quota",'
"""How records of these kinds begin as brokers write them (`brokers/metrics/records.py`)."""
_NEEDED: Final = {
    QUOTA: (
        *("broker", "quota", "usage", "rate"),
        *("requests", "throttled", "throttle_ms", "muted_ms"),
    ),
    GROUP: ("group", "members", "lag"),
    LAG: ("group", "topic", "partition", "lag", "log_end", "committed"),
}
"""By kind: what must not be null."""
_NOT_NEGATIVE: Final = {
    QUOTA: ("usage", "rate", "throttle_ms", "muted_ms"),
    GROUP: ("members", "lag"),
    LAG: ("partition", "lag", "log_end", "committed"),
}
"""By kind: what must be from 0 to `_NUMBER_MAX`."""
_MAY_MISS: Final = {QUOTA: ("user", "client_id", "rule", "limit"), GROUP: ("state_ms",), LAG: ()}
"""By kind: what else is read."""
_HEAD: Final = ("kind", "v", "ts", "interval_ms")
"""Fields of every record."""
_TYPES: Final = {
    **{field.name: field.type for field in ROW_SCHEMA},
    **dict.fromkeys(("v", "ts", "interval_ms"), pa.int64()),
    "state_ms": pa.struct([(name, pa.int64()) for name in STATES]),
}
_JSON_SCHEMAS: Final = {
    kind: pa.schema([(name, _TYPES[name]) for name in (*_HEAD, *_NEEDED[kind], *_MAY_MISS[kind])])
    for kind in _NEEDED
}
"""By kind: the fields that are looked at."""
_HEAD_SCHEMA: Final = pa.schema([(name, _TYPES[name]) for name in _HEAD])
_JSON_SCHEMA: Final = pa.unify_schemas([*_JSON_SCHEMAS.values()])
"""The fields of all kinds."""
_TS_MAX_MS: Final = 4_102_444_800_000
"""The year 2100: a larger number is in another unit than milliseconds."""
_NUMBER_MAX: Final = 1e12
"""Per interval; windows add up millionths in 64 bits, and this leaves room for nine of these."""
_SHOWN_BYTES: Final = 1024
"""So much of a bad value is kept."""
_OFFSET_MAX: Final = 10**15
"""Of groups; windows add up lags in 64 bits. Compared with whole numbers, it has to be one."""


class Aside:
    """How many values of a range may still be put aside, of each reason; all are counted.

    Lateness is a property of the range too: records whose interval began before `late_before` are
    late, none without it.
    """

    def __init__(self, most: int, late_before: datetime | None = None) -> None:
        self.late_before = late_before
        self._left = {REJECTED: most, LATE: most}

    def take(self, kind: str, wanted: Sequence[int]) -> Sequence[int]:
        """The first of the wanted, as many as are allowed; they are subtracted."""
        taken = wanted[: self._left[kind]]
        self._left[kind] -= len(taken)
        return taken


class Origin(NamedTuple):
    """Where the values of a block come from, so that some can be put aside by name."""

    partition: int
    offsets: Sequence[int]
    aside: Aside


def rows_of(values: Sequence[bytes | None], origin: Origin | None = None) -> list[pa.RecordBatch]:
    """Batches of ROW_SCHEMA for one block of record values, each of one kind of row.

    Each value is counted in one row. What is put aside is taken off `origin`.
    """
    # What brokers write about themselves is long, and no windows are made of it.
    quota_at, other_at, rest_at = [], [], []
    for at, value in enumerate(values):
        if not value:
            continue
        if value.startswith(_OF_QUOTA):
            quota_at.append(at)
        elif value.startswith(_OF_BROKER):
            other_at.append(at)
        else:
            rest_at.append(at)
    tables = []
    ways = ((quota_at, _JSON_SCHEMAS[QUOTA]), (rest_at, _JSON_SCHEMA))
    for places, schema in ways:
        found, others = _checked(_parse(values, places, schema))
        tables += found
        other_at += others
    good = sum(table.num_rows for table in tables)
    batches = [
        batch
        for table in tables
        for batch in table.select(ROW_SCHEMA.names).to_batches()
        if batch.num_rows
    ]
    if other_at:
        batches.append(count_row(OTHER, len(other_at)))
    if rejected := len(values) - good - len(other_at):
        good_at = [at for table in tables for at in table["at"].to_pylist()]
        bad_at = sorted(set(range(len(values))).difference(good_at, other_at))
        lines = [] if origin is None else _bad_lines(values, bad_at, origin)
        batches.append(count_row(REJECTED, rejected, lines))
    if origin is not None and (lines := _late_lines(values, tables, origin)):
        batches.append(count_row(LATE, 0, lines))
    return batches


def count_row(kind: str, count: int, aside: Sequence[str] = ()) -> pa.RecordBatch:
    """One row that says how many records of a kind there were, and lines about some of them."""
    counted = {"kind": kind, "records": count, "aside": list(aside)}
    return pa.RecordBatch.from_pylist([counted], schema=ROW_SCHEMA)


def _bad_lines(values: Sequence[bytes | None], bad_at: Sequence[int], origin: Origin) -> list[str]:
    return [
        _line(values, at, reason_of(values[at]), origin)
        for at in origin.aside.take(REJECTED, bad_at)
    ]


def _late_lines(
    values: Sequence[bytes | None], tables: Sequence[pa.Table], origin: Origin
) -> list[str]:
    if origin.aside.late_before is None:
        return []
    limit = pa.scalar(origin.aside.late_before, TIMESTAMP)
    late_at = [
        at
        for table in tables
        for at in table["at"].filter(pc.less(table["interval_start"], limit)).to_pylist()
    ]
    reason = f"late: windows before {origin.aside.late_before:%Y-%m-%dT%H:%M:%SZ} were closed"
    taken = origin.aside.take(LATE, sorted(late_at))
    return [_line(values, at, reason, origin) for at in taken]


def _line(values: Sequence[bytes | None], at: int, reason: str, origin: Origin) -> str:
    """A line of JSON about a value: where it is, why it is put aside, its start."""
    return json.dumps(
        {
            "partition": origin.partition,
            "offset": origin.offsets[at],
            "reason": reason,
            "value": (values[at] or b"")[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"),
        }
    )


def reason_of(value: bytes | None) -> str:
    """Why a value that was rejected cannot be used: the first reason that applies."""
    if not value:
        return "empty"
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(found, dict):
        return "not a JSON object"
    fields = _fields_of(found)
    unfit = [each.name for each in fields if not _fits(found.get(each.name), each.type)]
    if unfit:
        return f"{unfit[0]}: wrong type"
    if found.get("v") != _VERSION:
        return f"v: not version {_VERSION}"
    needed = ("kind", *_NEEDED.get(str(found.get("kind")), ()))
    missing = [name for name in needed if found.get(name) is None]
    return f"{missing[0]}: missing" if missing else "a number is out of range"


def _fields_of(found: Mapping[str, Any]) -> pa.Schema:
    """The fields of a record that are looked at, which its kind tells."""
    return _JSON_SCHEMAS.get(str(found.get("kind")), _HEAD_SCHEMA)


def _parse(values: Sequence[bytes | None], places: Sequence[int], schema: pa.Schema) -> pa.Table:
    """The values at these places that are such objects, as a table of the schema, or of
    _JSON_SCHEMA, with `at`, their positions."""
    present = [value for at in places if (value := values[at])]
    if not present:
        return schema.empty_table().append_column("at", pa.array([], pa.int64()))
    text = b"\n".join(present)
    try:
        table = pa.json.read_json(
            io.BytesIO(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows == len(present):
            table.validate(full=True)  # the parser takes bytes that are not UTF-8
            return table.append_column("at", pa.array(places, pa.int64()))
    except pa.ArrowInvalid:
        pass  # to find the bad ones, parse record by record
    rows = [(at, row) for at, value in zip(places, present, strict=True) if (row := _row(value))]
    table = pa.Table.from_pylist([row for _, row in rows], schema=_JSON_SCHEMA)
    return table.append_column("at", pa.array([at for at, _ in rows], pa.int64()))


def _row(value: bytes) -> dict[str, Any] | None:
    """One value as fields of _JSON_SCHEMA; None if these cannot hold it."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = _fields_of(found)
    row = {field.name: found.get(field.name) for field in fields}
    fits = all(_fits(row[field.name], field.type) for field in fields)
    return row if fits else None


def _fits(value: object, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if kind == pa.string():
        return isinstance(value, str) and _has_utf8(value)
    if pa.types.is_struct(kind):
        return isinstance(value, dict) and all(
            _fits(value.get(field.name), field.type) for field in kind
        )
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


def _checked(parsed: pa.Table) -> tuple[list[pa.Table], list[int]]:
    """The rows that windows can be made of, a table for each kind, with `at`, and where values
    were of other kinds."""
    named = pc.and_(pc.equal(parsed["v"], _VERSION), pc.is_valid(parsed["kind"]))
    is_known = pc.is_in(parsed["kind"], pa.array(list(_NEEDED)))
    others = pc.fill_null(pc.and_(named, pc.invert(is_known)), fill_value=False)
    timed = _all(
        [
            named,
            is_known,
            _between(parsed["interval_ms"], 1, _TS_MAX_MS),
            _between(parsed["ts"], 1, _TS_MAX_MS),
        ]
    )
    whole = rows_where(parsed, timed)
    there = pc.unique(whole["kind"]).to_pylist()
    kept = [_of_kind(whole, kind) for kind in _NEEDED if kind in there]
    return kept, parsed["at"].filter(others).to_pylist()


def rows_where(table: pa.Table, condition: pa.ChunkedArray) -> pa.Table:
    """The rows for which the condition is true, without a copy if these are all."""
    return table if pc.all(condition).as_py() else table.filter(condition)


def _of_kind(parsed: pa.Table, kind: str) -> pa.Table:
    """The whole records of one kind, as rows."""
    kept = rows_where(parsed, pc.equal(parsed["kind"], kind))
    most = _NUMBER_MAX if kind == QUOTA else _OFFSET_MAX
    kept = rows_where(
        kept,
        _all(
            [
                *(pc.is_valid(kept[name]) for name in _NEEDED[kind]),
                *(_between(kept[name], 0, most) for name in _NOT_NEGATIVE[kind]),
            ]
        ),
    )
    # `ts` is the end of the interval: a record belongs where its interval began.
    start_us = pc.multiply(pc.subtract(kept["ts"], kept["interval_ms"]), 1000)
    columns = {name: kept[name] for name in ("kind", *_NEEDED[kind], *_MAY_MISS[kind])}
    columns["records"] = pa.chunked_array([pa.repeat(1, kept.num_rows)], pa.int64())
    columns["interval_start"] = pc.cast(start_us, TIMESTAMP)
    if kind == GROUP:
        columns |= {
            name: pc.struct_field(columns["state_ms"], state) for state, name in STATES.items()
        }
    return pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(kept.num_rows, field.type)
            for field in ROW_SCHEMA
        }
    ).append_column("at", kept["at"])


def _between(numbers: pa.ChunkedArray, least: float, most: float) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(numbers, least), pc.less_equal(numbers, most))


def _all(conditions: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """True where every condition is true; a missing value meets none."""
    first, *rest = conditions
    for condition in rest:
        first = pc.and_(first, condition)
    return pc.fill_null(first, fill_value=False)
