"""The definition of metric records: the fields of each kind and their bounds, stated and checked
once.

pyarrow.json parses the values of a block, kind by kind, with the fields declared here; they are
checked by column. Values that the parser refuses are parsed one by one. Every value ends in a
table, is counted as of another kind, or is rejected with a reason. Pure.
"""

import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from cluster.analytics.windows.histogram import one_array
from cluster.analytics.windows.kinds import KIND_OF, STATES, TIMESTAMP
from cluster.analytics.windows.window_sums import BROKER_VALUES
from cluster.metrics.histogram import BUCKETS
from cluster.model.quota_usage import CLIENT_KEYS, USAGE_FIELDS, UsageField
from cluster.model.quotas import CLIENT_KINDS, RULES

VALUE_BYTES_MAX: Final = 256 << 10
"""Longer values are rejected unread."""
CLOCK_SKEW_MS: Final = 5 * 60_000
"""How far a record's `ts` may be from its timestamp in the log, and ahead of the reader's clock."""
EARLIEST_MS: Final = 1_577_836_800_000
"""2020-01-01: no record is older."""
TEXT_BYTES_MAX: Final = 32_767
"""The longest client id in Kafka."""
LIMIT_MAX: Final = 1e300
"""Kafka uses the highest 64-bit number for no limit, and brokers accept higher ones. Above this, a
limit's total of a year would not be finite."""

_COUNT_MAX: Final = 10**9
_AMOUNT_MAX: Final = 10**12
_OFFSET_MAX: Final = 10**15
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_INT32_MAX: Final = 2**31 - 1
_VERSION: Final = 1


class RecordField(NamedTuple):
    """A field of a record. Numbers are from 0 to `most`."""

    name: str
    type: pa.DataType
    most: float = 0
    choices: tuple[str, ...] = ()
    """For texts; empty for any text."""
    is_needed: bool = True


def _texts(*names: str, is_needed: bool = True) -> tuple[RecordField, ...]:
    return tuple(RecordField(name, pa.string(), is_needed=is_needed) for name in names)


def _whole(most: int, *names: str) -> tuple[RecordField, ...]:
    return tuple(RecordField(name, pa.int64(), most) for name in names)


def _numbers(most: float, *names: str, is_needed: bool = True) -> tuple[RecordField, ...]:
    return tuple(RecordField(name, pa.float64(), most, is_needed=is_needed) for name in names)


def _usage_key(name: str) -> RecordField:
    if name == "quota":
        return RecordField(name, pa.string(), choices=tuple(kind.value for kind in CLIENT_KINDS))
    return RecordField(name, pa.string(), is_needed=False)


def _usage_number(field: UsageField) -> RecordField:
    if field.is_count:
        return RecordField(field.name, pa.int64(), _COUNT_MAX)
    return RecordField(field.name, pa.float64(), _AMOUNT_MAX)


def _head(interval_ms_max: int) -> tuple[RecordField, ...]:
    return (
        *_texts("kind"),
        *_whole(_AMOUNT_MAX, "v"),
        *_whole(_OFFSET_MAX, "ts"),
        *_whole(interval_ms_max, "interval_ms"),
        RecordField("broker", pa.int64(), _INT32_MAX),
    )


_RATES_OF_AMOUNTS: Final = frozenset(
    {
        *("BytesInPerSec", "BytesOutPerSec", "MessagesInPerSec"),
        *("ReplicationBytesInPerSec", "ReplicationBytesOutPerSec"),
    }
)
_GAUGES_OF_BYTES: Final = frozenset(
    {"LogSize", "LogDirectoryTotalBytes", "LogDirectoryUsableBytes"}
)


def _most_of_broker(name: str) -> int:
    if name in _GAUGES_OF_BYTES:
        return _OFFSET_MAX
    if name in _RATES_OF_AMOUNTS:
        return _AMOUNT_MAX
    return 1 if name.endswith("Percent") else _COUNT_MAX // 1000


_STATE_FIELDS: Final = tuple(_whole(_DAY_MS, *STATES))
_VALUE_FIELDS: Final = tuple(
    RecordField(name, pa.float64(), _most_of_broker(name), is_needed=False)
    for name in BROKER_VALUES
)
NESTED: Final = {"state_ms": _STATE_FIELDS, "values": _VALUE_FIELDS}
"""The fields of objects within records; each may be missing."""
_BUCKETS: Final = "buckets"
"""A list of at most BUCKETS counts."""


def _object(name: str, *, is_needed: bool) -> RecordField:
    inner = pa.struct([(each.name, each.type) for each in NESTED[name]])
    return RecordField(name, inner, is_needed=is_needed)


RECORDS: Final[Mapping[str, tuple[RecordField, ...]]] = {
    "quota": (
        *_head(_HOUR_MS),
        *map(_usage_key, CLIENT_KEYS),
        RecordField("rule", pa.string(), choices=RULES, is_needed=False),
        *_numbers(LIMIT_MAX, "limit", is_needed=False),
        *(_usage_number(field) for field in USAGE_FIELDS.values() if field.in_windows),
    ),
    "group": (
        *_head(_DAY_MS),
        *_texts("group"),
        *_whole(_COUNT_MAX, "members"),
        *_whole(_OFFSET_MAX, "lag"),
        _object("state_ms", is_needed=False),
    ),
    "lag": (
        *_head(_DAY_MS),
        *_texts("group", "topic"),
        RecordField("partition", pa.int64(), _INT32_MAX),
        *_whole(_OFFSET_MAX, "lag", "log_end", "committed"),
    ),
    "broker": (*_head(_HOUR_MS), _object("values", is_needed=True)),
    "topic": (
        *_head(_HOUR_MS),
        *_texts("topic"),
        *_whole(_AMOUNT_MAX, "bytes_in", "bytes_out", "messages_in"),
        *_whole(_COUNT_MAX, "produces", "failed_produces", "fetches", "failed_fetches"),
        *_whole(_OFFSET_MAX, "size"),
        *_whole(_COUNT_MAX, "partitions", "leaders"),
    ),
    "latency": (
        *_head(_HOUR_MS),
        *_texts("api"),
        *_whole(_COUNT_MAX, "requests"),
        *_whole(_OFFSET_MAX, "total_us"),
        RecordField(_BUCKETS, pa.list_(pa.int64()), _COUNT_MAX),
    ),
    "event": (
        *_head(_HOUR_MS),
        *_texts("event", "subject", "detail"),
        *_whole(_COUNT_MAX, "count"),
    ),
}
"""The fields that are checked, by kind; a record may have others (docs/metrics.md)."""

_SCHEMAS: Final = {
    kind: pa.schema([(each.name, each.type) for each in fields]) for kind, fields in RECORDS.items()
}
_OTHER_SCHEMA: Final = pa.schema([("kind", pa.string()), ("v", pa.int64())])
"""The fields that are read in records of other kinds."""
_TYPES: Final = {
    kind: [(each.name, each.type) for each in fields] for kind, fields in RECORDS.items()
}
_OTHER_TYPES: Final = [(each.name, each.type) for each in _OTHER_SCHEMA]
"""The same as the schemas: iterating a schema creates an object for each field."""
_ALL: Final = pa.unify_schemas([*_SCHEMAS.values()])
_AT: Final = "@"
"""A field inserted into values before parsing, which relates rows to values."""
_ONE_BY_ONE: Final = 50
"""Up to this many values, one of which the parser refuses, are parsed one by one."""
_PARTS: Final = 8
"""More are parsed in this many parts: one bad value must not make the others slow."""
_QUOTA_START: Final = b'{"v":1,"kind":"quota",'
START: Final = b'{"v":1,"kind":"'
"""The beginning of records that brokers write (`brokers/metrics/records.py`)."""


class Values(NamedTuple):
    """Successive values of a partition of the topic, with their keys and timestamps."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    timestamps_ms: Sequence[int]


@dataclass(slots=True)
class CheckedValues:
    """The result of checking the values of a block."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    """By kind the records from which windows can be made: their fields, `interval_start`, and `at`,
    the index of each in the block."""
    others: int = 0
    """Metric records of other kinds."""
    rejected: list[tuple[int, str]] = field(default_factory=list)
    """The index and the reason of each value that is not a metric record."""

    def late(self, before_us: int) -> list[int]:
        """The indices of records whose interval began before a time, in us since 1970; in order."""
        limit = pa.scalar(before_us, pa.int64())
        found = [
            at
            for table in self.tables.values()
            for at in table["at"]
            .filter(pc.less(pc.cast(table["interval_start"], pa.int64()), limit))
            .to_pylist()
        ]
        return sorted(found)


def checked(found: Values, now_ms: int) -> CheckedValues:
    """Parse and check the values of a block. `now_ms` is the reader's clock."""
    result = CheckedValues()
    places: dict[str, list[int]] = {kind: [] for kind in RECORDS}
    rest: list[int] = []
    quotas = places["quota"]
    head = len(START)
    for at, value in enumerate(found.values):
        if not value:
            result.rejected.append((at, "empty"))
        elif len(value) > VALUE_BYTES_MAX:
            result.rejected.append((at, f"longer than {VALUE_BYTES_MAX:,} bytes"))
        elif value.startswith(_QUOTA_START):
            quotas.append(at)
        elif value.startswith(START):
            kind = value[head : head + 16].partition(b'"')[0].decode("latin-1")
            places.get(kind, rest).append(at)
        else:
            rest.append(at)
    parsed = [
        (kind, _parse(found.values, of_kind, _SCHEMAS[kind], result))
        for kind, of_kind in places.items()
        if of_kind
    ]
    if rest:
        table = _parse(found.values, rest, _ALL, result)
        parsed += _by_kind(table, result)
    for kind, table in parsed:
        kept = _kept(table, kind, found, now_ms, result)
        if kept.num_rows:
            known = result.tables.get(kind)
            result.tables[kind] = kept if known is None else pa.concat_tables([known, kept])
    result.rejected.sort()
    return result


def _by_kind(table: pa.Table, result: CheckedValues) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each kind with its fields; other kinds are counted."""
    named = pc.and_(
        pc.is_valid(table["kind"]), pc.fill_null(pc.equal(table["v"], _VERSION), fill_value=False)
    )
    unnamed = table.filter(pc.invert(named))
    for at, version in zip(unnamed["at"].to_pylist(), unnamed["v"].to_pylist(), strict=True):
        reason = "kind: missing" if version == _VERSION else f"v: not version {_VERSION}"
        result.rejected.append((at, reason))
    table = table.filter(named)
    for kind in pc.unique(table["kind"]).to_pylist():
        of_kind = table.filter(pc.equal(table["kind"], kind))
        if kind in RECORDS:
            yield kind, of_kind.select([*_SCHEMAS[kind].names, "at"])
        else:
            result.others += of_kind.num_rows


def _parse(
    values: Sequence[bytes | None], places: Sequence[int], schema: pa.Schema, result: CheckedValues
) -> pa.Table:
    """The values at these indices as a table of the schema with `at`.

    Values that are not objects with such fields are rejected.
    """
    present = [value for at in places if (value := values[at])]
    text = b"\n".join(present)
    # Flat objects have one brace each: as many braces as values mean one object in each.
    if schema is _SCHEMAS["quota"] and text.count(b"{") == len(present) == text.count(b"}"):
        table = _read(text, schema)
        if table is not None and table.num_rows == len(present):
            return table.append_column("at", pa.array(places, pa.int64()))
    if all(value.startswith(b'{"') for value in present):
        marked = b"\n".join(
            b'{"%s":%d,%s' % (_AT.encode(), at, value[1:])
            for at, value in zip(places, present, strict=True)
        )
        table = _read(marked, schema.append(pa.field(_AT, pa.int64())))
        if table is not None and table[_AT].equals(
            pa.chunked_array([pa.array(places, pa.int64())])
        ):
            return table.rename_columns([*schema.names, "at"])
    if len(places) <= _ONE_BY_ONE:
        return _one_by_one(present, places, schema, result)
    size = -(-len(places) // _PARTS)
    parts = [places[begin : begin + size] for begin in range(0, len(places), size)]
    return pa.concat_tables([_parse(values, part, schema, result) for part in parts])


def _read(text: bytes, schema: pa.Schema) -> pa.Table | None:
    """A row for each JSON object in a text; None if the parser refuses it."""
    try:
        table = pa.json.read_json(
            io.BytesIO(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
        table.validate(full=True)  # the parser accepts bytes that are not UTF-8
    except pa.ArrowInvalid:
        return None
    return table.select(schema.names)


def _one_by_one(
    present: Sequence[bytes], places: Sequence[int], schema: pa.Schema, result: CheckedValues
) -> pa.Table:
    rows = []
    for at, value in zip(places, present, strict=True):
        row = _row(value)
        if isinstance(row, str):
            result.rejected.append((at, row))
        else:
            rows.append({**row, "at": at})
    return pa.Table.from_pylist(rows, schema=schema.append(pa.field("at", pa.int64())))


def _row(value: bytes) -> dict[str, Any] | str:
    """The fields of its kind in one value, or the reason why they are missing."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return "not JSON"
    if not isinstance(found, dict):
        return "not a JSON object"
    kind = found.get("kind")
    types = _TYPES.get(kind, _OTHER_TYPES) if isinstance(kind, str) else _OTHER_TYPES
    row = {name: found.get(name) for name, _ in types}
    for name, wanted in types:
        if not _fits(row[name], wanted):
            return f"{name}: wrong type"
    return row


def _fits(value: object, kind: pa.DataType) -> bool:
    if value is None:
        return True
    if kind == pa.string():
        return isinstance(value, str) and _has_utf8(value)
    if pa.types.is_struct(kind):
        return isinstance(value, dict) and all(_fits(value.get(one.name), one.type) for one in kind)
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_fits(one, kind.value_type) for one in value)
    if isinstance(value, bool):
        return False
    if kind == pa.float64():
        return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63)
    return isinstance(value, int) and abs(value) < 1 << 63


def _has_utf8(text: str) -> bool:
    """Whether the text can be encoded: JSON can contain unpaired surrogates, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kept(
    table: pa.Table, kind: str, found: Values, now_ms: int, result: CheckedValues
) -> pa.Table:
    """The rows of one kind within all bounds, with `interval_start`.

    The others are rejected for the first bound that they violate.
    """
    is_kept = pa.repeat(pa.scalar(value=True), table.num_rows)
    failures = []
    for reason, condition in _conditions(table, kind, found, now_ms):
        passed = one_array(pc.fill_null(condition, fill_value=False))
        if not pc.all(passed).as_py():
            failures.append((reason, passed))
            is_kept = pc.and_(is_kept, passed)
    if failures:
        for at, row in zip(
            table["at"].filter(pc.invert(is_kept)).to_pylist(),
            zip(*(one.filter(pc.invert(is_kept)).to_pylist() for _, one in failures), strict=True),
            strict=True,
        ):
            first = next(place for place, passed in enumerate(row) if not passed)
            result.rejected.append((at, failures[first][0]))
        table = table.filter(is_kept)
    start_us = pc.multiply(pc.subtract(table["ts"], table["interval_ms"]), 1000)
    for each in RECORDS[kind]:
        if each.type == pa.float64():  # -0.0 is another key than 0.0, and another bucket
            at = table.schema.get_field_index(each.name)
            table = table.set_column(at, each.name, pc.add(table[each.name], 0.0))
    for name in ("broker", "partition"):
        if name in table.column_names and name in KIND_OF[kind].keys:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, pc.cast(table[name], pa.int32()))
    return table.append_column("interval_start", pc.cast(start_us, TIMESTAMP))


_Condition = tuple[str, pa.ChunkedArray | pa.Array]


def _conditions(table: pa.Table, kind: str, found: Values, now_ms: int) -> Iterator[_Condition]:
    """The conditions on rows: a reason for rejection, and the rows that satisfy the condition."""
    yield f"v: not version {_VERSION}", pc.equal(table["v"], _VERSION)
    for each in RECORDS[kind]:
        yield from _of_field(each, table[each.name])
    yield "interval_ms: out of range", pc.greater(table["interval_ms"], 0)
    yield from _of_place(table, found, now_ms)


def _of_field(each: RecordField, column: pa.ChunkedArray) -> Iterator[_Condition]:
    if each.is_needed:
        yield f"{each.name}: missing", pc.is_valid(column)
    missing = pc.is_null(column)
    if each.name in NESTED:
        whole = one_array(column)
        for inner in NESTED[each.name]:
            part = pc.struct_field(whole, inner.name)
            fits = _between(part, inner.most)
            yield f"{each.name}.{inner.name}: out of range", pc.or_kleene(pc.is_null(part), fits)
    elif each.name == _BUCKETS:
        yield f"{each.name}: out of range", _are_buckets(one_array(column), each.most)
    elif each.choices:
        known = pc.is_in(column, pa.array(each.choices))
        yield f"{each.name}: unknown", pc.or_(missing, known)
    elif each.type == pa.string():
        short = pc.less_equal(pc.binary_length(column), TEXT_BYTES_MAX)
        yield f"{each.name}: too long", pc.or_kleene(missing, short)
    else:
        yield f"{each.name}: out of range", pc.or_kleene(missing, _between(column, each.most))


def _are_buckets(lists: pa.Array, most: float) -> pa.Array:
    """Whether lists are no longer than the number of buckets, with counts up to `most`."""
    short = pc.less_equal(pc.list_value_length(lists), BUCKETS)
    flat = lists.flatten()
    bad = pc.invert(pc.fill_null(_between(flat, most), fill_value=False))
    parents = pc.list_parent_indices(lists).filter(bad)
    rows = pa.array(range(len(lists)), pa.int64())
    return pc.and_(short, pc.invert(pc.is_in(rows, pc.cast(parents, pa.int64()))))


def _of_place(table: pa.Table, found: Values, now_ms: int) -> Iterator[_Condition]:
    """The key must be the broker, and the time that of the record in the log."""
    places = table["at"].to_pylist()
    keys = pa.array([found.keys[at] for at in places], pa.binary())
    brokers = pc.cast(pc.cast(table["broker"], pa.string()), pa.binary())
    yield "key: not the broker of the record", pc.equal(keys, brokers)
    timestamps = pa.array([found.timestamps_ms[at] for at in places], pa.int64())
    ts = table["ts"]
    near = pc.less_equal(pc.abs(pc.subtract(ts, timestamps)), CLOCK_SKEW_MS)
    yield "ts: not the time of the record in the log", near
    yield "ts: in the future", pc.less_equal(ts, now_ms + CLOCK_SKEW_MS)
    yield "ts: before 2020", pc.greater_equal(ts, EARLIEST_MS)


def _between(numbers: pa.ChunkedArray | pa.Array, most: float) -> pa.ChunkedArray | pa.Array:
    """Whether numbers are from 0 to `most`; NaN is not."""
    limit = pa.scalar(most, numbers.type)
    return pc.and_(
        pc.greater_equal(numbers, pa.scalar(0, numbers.type)), pc.less_equal(numbers, limit)
    )


def reasons(rejected: Sequence[tuple[int, str]]) -> dict[str, int]:
    """The number of values rejected for each reason."""
    ordered = sorted(reason for _, reason in rejected)
    return {reason: len(list(found)) for reason, found in itertools.groupby(ordered)}
