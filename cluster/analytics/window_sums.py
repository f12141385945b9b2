"""Sums of metric records by window, which can be added up in any order, and the windows of them.

Pure, in PyArrow. A table of sums has a row for a window or a part of one: workers make them of
blocks of records, Spark hands those over as bytes, and the driver adds them to what is stored,
which is turned into sums again. Totals are whole millionths: a total of floats would depend
on the order of addition.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.metric_rows import GROUP, LAG, QUOTA, STATES, TIMESTAMP
from cluster.analytics.window_files import (
    NARROWEST,
    QUOTA_WINDOWS,
    WIDTHS_S,
    WINDOW_KINDS,
    WindowKind,
    sorted_windows,
)

RATES: Final = "rates"
LAST_AT: Final = "lag_last_at"
ASIDE: Final = "aside"
"""Lines about records that were put aside (`metric_rows.count_row`)."""

TOTALS: Final = {
    QUOTA: (
        *("usage_sum", "requests", "throttled", "throttle_ms_sum", "muted_ms_sum"),
        *("seconds_over_limit", "seconds_throttled", "records"),
    ),
    GROUP: ("lag_sum", *STATES.values(), "records"),
    LAG: ("lag_sum", "records"),
}
"""By kind: what is added up."""
MAXIMA: Final = {
    QUOTA: ("rate_max", "throttle_ms_max"),
    GROUP: ("members_max", "lag_max", LAST_AT),
    LAG: ("lag_max", "log_end_max", "committed_max", LAST_AT),
}
"""By kind: what the highest is taken of. `lag_last` goes with the highest LAST_AT."""
_MILLIONTHS: Final = ("usage_sum", "throttle_ms_sum", "muted_ms_sum")
_MILLION: Final = 1_000_000
_P95: Final = 95

_KEYS: Final = [
    field
    for name in dict.fromkeys(name for kind in WINDOW_KINDS for name in kind.key_names)
    for kind in WINDOW_KINDS
    if name in kind.key_names
    for field in [kind.schema.field(name)]
]
_FLOATS: Final = ("rate_max", "throttle_ms_max")


def _value_type(name: str) -> pa.DataType:
    if name == LAST_AT:
        return TIMESTAMP
    return pa.float64() if name in _FLOATS else pa.int64()


KEY_NAMES: Final = tuple(dict.fromkeys(field.name for field in _KEYS))
_VALUE_NAMES: Final = tuple(
    dict.fromkeys(name for table in (TOTALS, MAXIMA) for names in table.values() for name in names)
)
SUMS_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        *{field.name: field for field in _KEYS}.values(),
        *((name, _value_type(name)) for name in _VALUE_NAMES),
        ("lag_last", pa.int64()),
        (RATES, pa.list_(pa.float32())),
        (ASIDE, pa.list_(pa.string())),
    ]
)
"""Sums of all kinds in one table; columns of other kinds than the row's are null."""
PACKED: Final = "sums"
PACKED_SQL: Final = f"`{PACKED}` binary"
"""How sums pass through Spark, in its DDL syntax: each value is a table of them (`packed`)."""


def sums_of_rows(rows: Iterable[pa.RecordBatch]) -> pa.Table:
    """Sums of metric records (ROW_SCHEMA, each batch of one kind), one row for each window that
    they touch, or each kind without windows."""
    tables = [SUMS_SCHEMA.empty_table()]
    by_kind: dict[str, list[pa.RecordBatch]] = {}
    for batch in rows:
        by_kind.setdefault(batch["kind"][0].as_py(), []).append(batch)
    for name, batches in by_kind.items():
        found = pa.Table.from_batches(batches)
        kind = next((each for each in WINDOW_KINDS if each.name == name), None)
        if kind is None:
            tables.append(_aligned(found.select(["kind", "records", ASIDE])))
        else:
            tables.append(_widened_schema(added_up(_first_sums(found, kind), kind), kind))
    return pa.concat_tables(tables).combine_chunks()


def packed(sums: pa.Table) -> bytes:
    """A table of sums as bytes. Spark does not look into them: of a row with its 39 columns and a
    list it would make objects twice."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, sums.schema, options=options) as writer:
        writer.write_table(sums)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def unpacked(column: pa.ChunkedArray) -> pa.Table:
    """The sums in a column of tables that `packed` has made."""
    tables = [pa.ipc.open_stream(each.as_buffer()).read_all() for each in column]
    return pa.concat_tables([SUMS_SCHEMA.empty_table(), *tables])


def of_kind(sums: pa.Table, kind: WindowKind) -> pa.Table:
    """The rows of one kind out of a table of SUMS_SCHEMA, with its own columns."""
    return sums.filter(pc.equal(sums["kind"], kind.name)).select(sums_names(kind))


def sums_names(kind: WindowKind) -> list[str]:
    """The columns of a table of sums of one kind."""
    last = (RATES,) if kind is QUOTA_WINDOWS else ("lag_last",)
    return [*kind.key_names, *TOTALS[kind.name], *MAXIMA[kind.name], *last]


def added_up(sums: pa.Table, kind: WindowKind) -> pa.Table:
    """One row for each window, in any order. The rates of each are sorted."""
    keys = kind.key_names
    if kind is not QUOTA_WINDOWS:
        sums = sums.sort_by([(LAST_AT, "ascending"), ("lag_last", "ascending")])
    wanted = [
        *((name, "sum") for name in TOTALS[kind.name]),
        *((name, "max") for name in MAXIMA[kind.name]),
    ]
    values = sums.select([*keys, *(name for name, _ in wanted)])
    if kind is not QUOTA_WINDOWS:
        values = values.append_column("lag_last", sums["lag_last"])
        wanted.append(("lag_last", "last"))
    else:
        values = values.append_column("row", pa.array(range(sums.num_rows), pa.int64()))
        wanted.append(("row", "list"))
    grouped = values.group_by(keys, use_threads=False).aggregate(wanted)
    renamed = grouped.rename_columns(
        [*(keys), *(name for name, _ in wanted)]
        if grouped.column_names[0] in keys
        else [*(name for name, _ in wanted), *keys]
    )
    if kind is QUOTA_WINDOWS:
        lists = _joined(sums[RATES], renamed["row"])
        renamed = renamed.drop_columns(["row"]).append_column(RATES, lists)
    return renamed.select(sums_names(kind))


def windows_of_sums(sums: pa.Table, kind: WindowKind) -> dict[str, pa.Table]:
    """By width the windows of sums of the narrowest ones, sorted; those of the narrowest width with
    the columns from which sums can be made again."""
    windows = {}
    for width, width_s in WIDTHS_S.items():
        if width != NARROWEST:
            at = sums.schema.get_field_index("window_start")
            sums = sums.set_column(at, "window_start", _floor(sums["window_start"], width_s))
        sums = added_up(sums, kind)
        windows[width] = _windows(sums, kind, width)
    return windows


def _windows(found: pa.Table, kind: WindowKind, width: str) -> pa.Table:
    width_s = WIDTHS_S[width]
    columns = {name: found[name] for name in found.column_names}
    if kind is QUOTA_WINDOWS:
        for name in _MILLIONTHS:
            columns[name] = pc.divide(pc.cast(found[name], pa.float64()), float(_MILLION))
        columns["rate_avg"] = pc.divide(columns["usage_sum"], float(width_s))
        columns["rate_p95"] = _p95(found)
        limit = pc.if_else(pc.greater(found["limit"], 0.0), found["limit"], None)
        columns["utilization"] = pc.divide(columns["rate_avg"], limit)
    else:
        columns["lag_avg"] = pc.divide(
            pc.cast(found["lag_sum"], pa.float64()), pc.cast(found["records"], pa.float64())
        )
    for name in STATES.values():
        if name in columns:
            columns[name] = pc.fill_null(columns[name], 0)
    schema = kind.stored_schema if width == NARROWEST else kind.schema
    return sorted_windows(pa.table({name: columns[name] for name in schema.names}), kind)


def sums_of_windows(stored: pa.Table, kind: WindowKind) -> pa.Table:
    """The sums from which windows of the narrowest width were made (`stored_schema`)."""
    columns = {name: stored[name] for name in sums_names(kind)}
    if kind is QUOTA_WINDOWS:
        for name in _MILLIONTHS:
            columns[name] = _millionths(stored[name])
        columns["seconds_throttled"] = pc.fill_null(stored["seconds_throttled"], 0)
    else:  # files of early versions do not have it
        columns[LAST_AT] = pc.coalesce(stored[LAST_AT], stored["window_start"])
    return pa.table(columns)


def fuller(stored: pa.Table, computed: pa.Table, kind: WindowKind) -> pa.Table:
    """For each window the sums made of more metric records; if they have as many, the computed.

    Retention can only remove records from a window, so the version with more records is right.
    """
    both = pa.concat_tables(
        [
            stored.append_column("is_new", pa.repeat(0, stored.num_rows)),
            computed.append_column("is_new", pa.repeat(1, computed.num_rows)),
        ]
    ).sort_by([("records", "ascending"), ("is_new", "ascending")])
    rows = both.select(kind.key_names).append_column("row", pa.array(range(both.num_rows)))
    best = rows.group_by(kind.key_names, use_threads=False).aggregate([("row", "last")])
    return both.take(best["row_last"]).select(sums_names(kind))


def starts_of(sums: Iterable[pa.Table]) -> tuple[object, object] | None:
    """The first and the last start of a window in tables of sums; None if they are empty."""
    found = [pc.min_max(table["window_start"]).as_py() for table in sums if table.num_rows]
    if not found:
        return None
    return min(each["min"] for each in found), max(each["max"] for each in found)


def _first_sums(rows: pa.Table, kind: WindowKind) -> pa.Table:
    """A row of sums for each record of one kind."""
    starts = _floor(rows["interval_start"], WIDTHS_S[NARROWEST])
    columns = {name: rows[name] for name in (*kind.key_names[1:], "records")}
    columns["window_start"] = starts
    if kind is QUOTA_WINDOWS:
        for name in _MILLIONTHS:
            columns[name] = _millionths(rows[name.removesuffix("_sum")])
        over = pc.fill_null(pc.greater(rows["rate"], rows["limit"]), fill_value=False)
        columns |= {
            "requests": rows["requests"],
            "throttled": rows["throttled"],
            "seconds_over_limit": pc.cast(over, pa.int64()),
            "seconds_throttled": pc.cast(pc.greater(rows["throttled"], 0), pa.int64()),
            "rate_max": rows["rate"],
            "throttle_ms_max": rows["throttle_ms"],
            RATES: _singles(pc.cast(rows["rate"], pa.float32())),
        }
    else:
        columns |= dict.fromkeys(("lag_sum", "lag_max", "lag_last"), rows["lag"])
        columns[LAST_AT] = rows["interval_start"]
        if kind.name == GROUP:
            columns |= {name: rows[name] for name in STATES.values()}
            columns["members_max"] = rows["members"]
        else:
            columns |= {f"{name}_max": rows[name] for name in ("log_end", "committed")}
    return pa.table({name: columns[name] for name in sums_names(kind)})


def _millionths(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    # pc.round takes ten times as long.
    return pc.cast(pc.floor(pc.add(pc.multiply(numbers, float(_MILLION)), 0.5)), pa.int64())


def _singles(numbers: pa.ChunkedArray) -> pa.Array:
    """Each number as a list of itself."""
    flat = _one_array(numbers)
    return pa.ListArray.from_arrays(pa.array(range(len(flat) + 1), pa.int32()), flat)


def _joined(lists: pa.ChunkedArray, rows: pa.ChunkedArray) -> pa.Array:
    """The lists of the rows of each group as one sorted list; `rows` has a list for each group."""
    rows = _one_array(rows)
    ordered = _one_array(_one_array(lists).take(rows.flatten()))
    sizes = pc.fill_null(pc.list_value_length(ordered), 0)
    ends = pc.cumulative_sum(pa.concat_arrays([pa.array([0], sizes.type), sizes]))
    counts = pc.cumulative_sum(
        pa.concat_arrays([pa.array([0], pa.int32()), pc.list_value_length(rows)])
    )
    offsets = ends.take(counts)
    grouped = pa.ListArray.from_arrays(offsets, ordered.flatten())
    # Rates are not negative, and the bits of such floats are ordered as they are.
    bits = pc.cast(grouped.flatten().view(pa.int32()), pa.int64())
    marked = pc.add(pc.shift_left(pc.cast(pc.list_parent_indices(grouped), pa.int64()), 32), bits)
    in_order = marked.take(pc.array_sort_indices(marked))
    values = pc.cast(pc.bit_wise_and(in_order, 0x7FFFFFFF), pa.int32()).view(pa.float32())
    return pa.ListArray.from_arrays(offsets, values)


def _p95(found: pa.Table) -> pa.Array:
    """The nearest-rank 95th percentile of each row's sorted rates; null where some are unknown."""
    rates = _one_array(found[RATES])
    sizes = pc.fill_null(pc.list_value_length(rates), 0)
    rank = pc.divide(pc.add(pc.multiply(pc.cast(sizes, pa.int64()), _P95), 99), 100)
    at = pc.subtract(pc.add(pc.cast(rates.offsets[:-1], pa.int64()), rank), 1)
    is_whole = pc.and_(pc.equal(sizes, found["records"]), pc.greater(sizes, 0))
    chosen = _one_array(pc.if_else(is_whole, at, None))
    values = pc.cast(rates.values.take(chosen), pa.float64())
    return pc.min_element_wise(values, found["rate_max"], skip_nulls=False)


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _floor(times: pa.ChunkedArray, width_s: int) -> pa.ChunkedArray:
    width_us = width_s * 1_000_000
    return pc.cast(
        pc.multiply(pc.divide(pc.cast(times, pa.int64()), width_us), width_us), TIMESTAMP
    )


def _widened_schema(sums: pa.Table, kind: WindowKind) -> pa.Table:
    return _aligned(sums.append_column("kind", pa.repeat(kind.name, sums.num_rows)))


def _aligned(table: pa.Table) -> pa.Table:
    """The table with all columns of SUMS_SCHEMA, null where it has none."""
    return pa.table(
        {
            field.name: table[field.name].cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in SUMS_SCHEMA
        }
    )
