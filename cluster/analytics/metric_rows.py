"""Converts the values of metric records (JSON) to rows of a fixed schema, and counts all others.

A block is parsed by pyarrow.json at once. If that fails, or gives another number of rows, the block
is parsed record by record. Metric records of other kinds, and values that are not metric records,
are each replaced by one row per block with their number, so that they are counted in the same pass
over the topic as the windows are computed.
"""

import io
import json
from collections.abc import Collection, Iterable, Sequence
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

_READ: Final = frozenset(ROW_SCHEMA.names[3:]).difference(STATES.values(), ["aside"])
"""The columns that are fields of records by the same name."""
_JSON_SCHEMA: Final = pa.schema(
    [
        ("v", pa.int64()),
        ("kind", pa.string()),
        ("ts", pa.int64()),
        ("interval_ms", pa.int64()),
        *((each.name, each.type) for each in ROW_SCHEMA if each.name in _READ),
        ("state_ms", pa.struct([(name, pa.int64()) for name in STATES])),
    ]
)
_VERSION: Final = 1
_OF_BROKER: Final = b'{"v":1,"kind":"broker",'
"""How records of kind `broker` begin as brokers write them (`brokers/metrics/records.py`)."""
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
_OF_ALL: Final = ("kind", "records", "interval_start")
_COLUMNS: Final = {
    QUOTA: frozenset({*_OF_ALL, *_NEEDED[QUOTA], "user", "client_id", "rule", "limit"}),
    GROUP: frozenset({*_OF_ALL, *_NEEDED[GROUP], *STATES.values()}),
    LAG: frozenset({*_OF_ALL, *_NEEDED[LAG]}),
}
"""By kind: the columns that a row of it has."""
_TS_MAX_MS: Final = 4_102_444_800_000
"""The year 2100: a larger number is in another unit than milliseconds."""
_NUMBER_MAX: Final = 1e12
"""Per interval; windows add up millionths in 64 bits, and this leaves room for nine of these."""
_SHOWN_BYTES: Final = 1024
"""So much of a bad value is kept."""
_OFFSET_MAX: Final = 10**15
"""Of groups; windows add up lags in 64 bits. Compared with whole numbers, it has to be one."""


class Origin(NamedTuple):
    """Where the values of a block come from, so that bad ones can be named."""

    partition: int
    offsets: Sequence[int]
    most: int
    """At most so many bad values are put aside; all are counted."""


def rows_of(values: Sequence[bytes | None], origin: Origin | None = None) -> list[pa.RecordBatch]:
    """Batches of ROW_SCHEMA for one block of record values; each value is counted in one."""
    # What brokers write about themselves is long, and no windows are made of it.
    skipped = [at for at, value in enumerate(values) if value and value.startswith(_OF_BROKER)]
    parsed = _parse(values, frozenset(skipped))
    table, other_at = _checked(parsed)
    other_at += skipped
    good_at = set(table["at"].to_pylist()) if table.num_rows + len(other_at) < len(values) else ()
    rejected = len(values) - table.num_rows - len(other_at)
    rows = table.select(ROW_SCHEMA.names)
    batches = [batch for batch in rows.to_batches() if batch.num_rows]
    if other_at:
        batches.append(count_row(OTHER, len(other_at)))
    if rejected:
        bad_at = sorted(set(range(len(values))).difference(good_at, other_at))
        lines = [] if origin is None else _lines(values, bad_at, origin)
        batches.append(count_row(REJECTED, rejected, lines))
    return batches


def count_row(kind: str, count: int, aside: Sequence[str] = ()) -> pa.RecordBatch:
    """One row that says how many records of a kind there were, and lines about some of them."""
    counted = {"kind": kind, "records": count, "aside": list(aside)}
    return pa.RecordBatch.from_pylist([counted], schema=ROW_SCHEMA)


def _lines(values: Sequence[bytes | None], bad_at: Sequence[int], origin: Origin) -> list[str]:
    """A line of JSON for each of the first bad values: where it is, why it is bad, its start."""
    return [
        json.dumps(
            {
                "partition": origin.partition,
                "offset": origin.offsets[at],
                "reason": reason_of(values[at]),
                "value": (values[at] or b"")[:_SHOWN_BYTES].decode("utf-8", "backslashreplace"),
            }
        )
        for at in bad_at[: origin.most]
    ]


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
    unfit = [each.name for each in _JSON_SCHEMA if not _fits(found.get(each.name), each.type)]
    if unfit:
        return f"{unfit[0]}: wrong type"
    if found.get("v") != _VERSION:
        return f"v: not version {_VERSION}"
    needed = ("kind", *_NEEDED.get(str(found.get("kind")), ()))
    missing = [name for name in needed if found.get(name) is None]
    return f"{missing[0]}: missing" if missing else "a number is out of range"


def _parse(values: Sequence[bytes | None], skipped: Collection[int]) -> pa.Table:
    """The values that are such objects as a table of _JSON_SCHEMA, with `at`, their positions."""
    chosen = [(at, value) for at, value in enumerate(values) if value and at not in skipped]
    places, present = [at for at, _ in chosen], [value for _, value in chosen]
    if not present:
        return _JSON_SCHEMA.empty_table().append_column("at", pa.array([], pa.int64()))
    text = b"\n".join(present)
    try:
        table = pa.json.read_json(
            io.BytesIO(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=_JSON_SCHEMA, unexpected_field_behavior="ignore"
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


def _checked(parsed: pa.Table) -> tuple[pa.Table, list[int]]:
    """The rows that windows can be made of, with `at`, and where values were of other kinds."""
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
    whole = parsed.filter(timed)
    there = pc.unique(whole["kind"]).to_pylist()
    kept = [_of_kind(whole, kind) for kind in _NEEDED if kind in there]
    nothing = ROW_SCHEMA.empty_table().append_column("at", pa.array([], pa.int64()))
    return pa.concat_tables([nothing, *kept]), parsed["at"].filter(others).to_pylist()


def _of_kind(parsed: pa.Table, kind: str) -> pa.Table:
    """The whole records of one kind, as rows."""
    kept = parsed.filter(pc.equal(parsed["kind"], kind))
    most = _NUMBER_MAX if kind == QUOTA else _OFFSET_MAX
    kept = kept.filter(
        _all(
            [
                *(pc.is_valid(kept[name]) for name in _NEEDED[kind]),
                *(_between(kept[name], 0, most) for name in _NOT_NEGATIVE[kind]),
            ]
        )
    )
    # `ts` is the end of the interval: a record belongs where its interval began.
    start_us = pc.multiply(pc.subtract(kept["ts"], kept["interval_ms"]), 1000)
    columns = {name: kept[name] for name in kept.column_names if name in ROW_SCHEMA.names}
    columns["records"] = pa.chunked_array([pa.repeat(1, kept.num_rows)], pa.int64())
    columns["interval_start"] = pc.cast(start_us, TIMESTAMP)
    for state, name in STATES.items():
        columns[name] = pc.struct_field(kept["state_ms"], state)
    nothing = pa.nulls(kept.num_rows)
    return pa.table(
        {
            field.name: columns[field.name].cast(field.type)
            if field.name in _COLUMNS[kind]
            else nothing.cast(field.type)
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
