"""Sums of metric records by window, which can be added up in any order, and their windows.

Pure, in PyArrow. A table of sums of one kind has the columns `kind.sum_names`, and a row for a
window or a part of one: each record gives one row; these are added up block by block, file by file.
Only files have the columns of all kinds (`wide`).
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows import histogram
from cluster.analytics.windows.kinds import (
    BROKER,
    EVENT,
    GROUP,
    KIND_OF,
    LAG,
    LATENCY,
    MILLIONTHS,
    QUOTA,
    QUOTA_AMOUNTS,
    QUOTA_COUNTS,
    QUOTA_MAXIMA,
    STATES,
    SUMS_SCHEMA,
    TIMESTAMP,
    TOPIC,
    WHOLE,
    WINDOW_KINDS,
    Rule,
    WindowKind,
)
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S

Sums = Mapping[str, pa.Table]
"""By kind's name a table of its `sum_names`; kinds without rows may be missing."""

_MILLION: Final = 1_000_000
_AGGREGATES: Final = {
    Rule.total: "sum",
    Rule.exact: "sum",
    Rule.highest: "max",
    Rule.last: "last",
    Rule.histogram: "list",
}
_IN_ORDER: Final = pc.ScalarAggregateOptions(skip_nulls=False)
_BROKER_COUNTERS: Final = {
    "bytes_in_exact": "BytesInPerSec",
    "bytes_out_exact": "BytesOutPerSec",
    "messages_in_exact": "MessagesInPerSec",
    "replication_bytes_in_exact": "ReplicationBytesInPerSec",
    "replication_bytes_out_exact": "ReplicationBytesOutPerSec",
    "requests": "RequestsPerSec",
    "isr_shrinks": "IsrShrinksPerSec",
    "isr_expands": "IsrExpandsPerSec",
}
"""Columns of brokers, and the rates per second from which they are computed."""
_BROKER_GAUGES: Final = {
    "connections_max": "ConnectionCount",
    "partitions_max": "PartitionCount",
    "leaders_max": "LeaderCount",
    "under_replicated_max": "UnderReplicatedPartitions",
    "log_size_max": "LogSize",
    "log_size_last": "LogSize",
    "disk_total_last": "LogDirectoryTotalBytes",
    "disk_usable_last": "LogDirectoryUsableBytes",
}
_IDLE: Final = "RequestHandlerAvgIdlePercent"
BROKER_VALUES: Final = tuple(
    dict.fromkeys((*_BROKER_COUNTERS.values(), *_BROKER_GAUGES.values(), _IDLE))
)
"""The values that are read in a broker's record."""


def first_sums(records: pa.Table, kind: WindowKind) -> pa.Table:
    """A row of sums for each record of one kind (`record_schema.CheckedValues.tables`)."""
    ones = pa.repeat(pa.scalar(1, pa.int64()), records.num_rows)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {
        **{name: records[name] for name in kind.keys},
        "window_start": _floor(records["interval_start"], WIDTHS_S[NARROWEST]),
        "last_at": records["interval_start"],
        "records": ones,
    }
    columns |= _FIRST[kind.name](records)
    return pa.table({name: columns[name] for name in kind.sum_names}, schema=_sums_schema(kind))


def _quota(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    over = pc.fill_null(pc.greater(records["rate"], records["limit"]), fill_value=False)
    return {
        **{f"{name}_exact": _millionths(records[name]) for name in QUOTA_AMOUNTS},
        **{f"{name}_max": records[name] for name in QUOTA_MAXIMA},
        **{name: records[name] for name in QUOTA_COUNTS},
        "seconds_over_limit": pc.cast(over, pa.int64()),
        "seconds_throttled": pc.cast(pc.greater(records["throttled"], 0), pa.int64()),
        "covered_ms": records["interval_ms"],
        "histogram": histogram.singles(histogram.rate_codes(records["rate"])),
    }


def _lags(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    lag = records["lag"]
    return {"lag_exact": pc.cast(lag, WHOLE), "lag_max": lag, "lag_last": lag}


def _group(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    states = histogram.one_array(records["state_ms"])
    return {
        **_lags(records),
        "members_max": records["members"],
        **{
            column: pc.fill_null(pc.struct_field(states, state), 0)
            for state, column in STATES.items()
        },
    }


def _lag(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    return {
        **_lags(records),
        "log_end_max": records["log_end"],
        "committed_max": records["committed"],
    }


def _broker(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    values = histogram.one_array(records["values"])
    interval_ms = histogram.one_array(records["interval_ms"])
    interval_s = pc.divide(pc.cast(interval_ms, pa.float64()), 1000.0)
    idle = pc.fill_null(pc.struct_field(values, _IDLE), 1.0)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {
        "covered_ms": interval_ms,
        "idle_ms": _whole(pc.multiply(idle, pc.cast(interval_ms, pa.float64()))),
        "busy_max": pc.subtract(1.0, idle),
    }
    for column, name in _BROKER_COUNTERS.items():
        rate = pc.fill_null(pc.struct_field(values, name), 0.0)
        columns[column] = pc.cast(
            _whole(pc.multiply(rate, interval_s)), SUMS_SCHEMA.field(column).type
        )
    for column, name in _BROKER_GAUGES.items():
        columns[column] = _whole(pc.struct_field(values, name))
    return columns


def _topic(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    return {
        **{
            f"{name}_exact": pc.cast(records[name], WHOLE)
            for name in ("bytes_in", "bytes_out", "messages_in")
        },
        **{
            name: records[name]
            for name in ("produces", "failed_produces", "fetches", "failed_fetches")
        },
        "covered_ms": records["interval_ms"],
        "log_size_max": records["size"],
        "log_size_last": records["size"],
        "partitions_last": records["partitions"],
        "leaders_last": records["leaders"],
    }


def _latency(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    return {
        "total_us_exact": pc.cast(records["total_us"], WHOLE),
        "requests": records["requests"],
        "histogram": histogram.of_counts(records["buckets"]),
    }


def _event(records: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
    return {"events": records["count"], "detail": records["detail"]}


_FIRST: Final = {
    QUOTA.name: _quota,
    GROUP.name: _group,
    LAG.name: _lag,
    BROKER.name: _broker,
    TOPIC.name: _topic,
    LATENCY.name: _latency,
    EVENT.name: _event,
}


def added_up(sums: pa.Table, kind: WindowKind) -> pa.Table:
    """One row for each window, in any order. The order and the parts of the input do not matter."""
    if sums.num_rows == 0:
        return sums.select(kind.sum_names)
    has_last = any(column.rule is Rule.last for column in kind.columns)
    if has_last:  # of equal times the row with the greatest values
        order = ["last_at", *(each.name for each in kind.columns if each.rule is Rule.last)]
        sums = sums.sort_by([(name, "ascending") for name in order])
    values = sums.select([name for name in kind.sum_names if name != "histogram"])
    wanted = [
        (each.name, _AGGREGATES[each.rule], _IN_ORDER)
        if each.rule is Rule.last
        else (each.name, _AGGREGATES[each.rule])
        for each in kind.columns
        if each.rule is not Rule.histogram
    ]
    names = [each[0] for each in wanted]
    has_histogram = "histogram" in kind.sum_names
    if has_histogram:
        values = values.append_column("row", pa.array(range(sums.num_rows), pa.int64()))
        wanted.append(("row", "list"))
        names.append("row")
    keys = kind.key_names
    grouped = values.group_by(keys, use_threads=False).aggregate(wanted)
    ordered = [*keys, *names] if grouped.column_names[0] in keys else [*names, *keys]
    found = grouped.rename_columns(ordered)
    if has_histogram:
        summed = histogram.added_up(sums["histogram"], found["row"])
        found = found.drop_columns(["row"]).append_column("histogram", summed)
    return found.select(kind.sum_names).cast(_sums_schema(kind))


def joined(parts: Iterable[Sums]) -> dict[str, pa.Table]:
    """The sums of all parts together, added up."""
    tables: dict[str, list[pa.Table]] = {}
    for part in parts:
        for name, table in part.items():
            if table.num_rows:
                tables.setdefault(name, []).append(table)
    return {
        name: added_up(pa.concat_tables(found), KIND_OF[name]) for name, found in tables.items()
    }


def coarser(sums: pa.Table, kind: WindowKind, width: str) -> pa.Table:
    """The sums of wider windows, added up."""
    at = sums.schema.get_field_index("window_start")
    starts = _floor(sums["window_start"], WIDTHS_S[width])
    return added_up(sums.set_column(at, "window_start", starts), kind)


def windows_of(sums: pa.Table, kind: WindowKind, width: str) -> pa.Table:
    """The windows (`kind.schema`) of sums added up for this width, in the order of files."""
    columns = {name: sums[name] for name in kind.sum_names}
    for name in kind.sum_names:
        if name.endswith("_exact"):
            columns[name.removesuffix("_exact") + "_sum"] = pc.cast(sums[name], pa.float64())
    if kind is QUOTA:
        columns |= _of_quota(columns, WIDTHS_S[width])
    elif kind in (GROUP, LAG):
        records = pc.cast(sums["records"], pa.float64())
        columns["lag_avg"] = pc.divide(columns["lag_sum"], records)
    elif kind is BROKER:
        covered = pc.cast(
            pc.if_else(pc.greater(sums["covered_ms"], 0), sums["covered_ms"], None), pa.float64()
        )
        columns["idle_avg"] = pc.divide(pc.cast(sums["idle_ms"], pa.float64()), covered)
    elif kind is LATENCY:
        columns |= _of_latency(columns)
    found = pa.table({name: columns[name] for name in kind.names}, schema=kind.schema)
    return found.sort_by([(name, "ascending") for name in kind.key_names])


def _of_quota(columns: Mapping[str, pa.ChunkedArray], width_s: int) -> dict[str, pa.ChunkedArray]:
    rate_avg = pc.divide(columns["usage_sum"], float(width_s))
    limit = pc.if_else(pc.greater(columns["limit"], 0.0), columns["limit"], None)
    return {
        "rate_avg": rate_avg,
        "utilization": pc.divide(rate_avg, limit),
        **{
            f"rate_p{percent}": pc.min_element_wise(
                histogram.rate_quantile(columns["histogram"], percent),
                columns["rate_max"],
                skip_nulls=False,
            )
            for percent in (95, 99)
        },
    }


def _of_latency(columns: Mapping[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    requests = pc.cast(
        pc.if_else(pc.greater(columns["requests"], 0), columns["requests"], None), pa.float64()
    )
    return {
        "latency_ms_avg": pc.divide(pc.divide(columns["total_us_sum"], 1000.0), requests),
        **{
            f"latency_ms_p{percent}": pc.divide(
                histogram.duration_quantile_us(columns["histogram"], percent), 1000.0
            )
            for percent in (50, 95, 99)
        },
    }


def sums_of(windows: pa.Table, kind: WindowKind) -> pa.Table:
    """The sums behind windows."""
    return windows.select(kind.sum_names)


def wide(table: pa.Table, schema: pa.Schema, **constants: str) -> pa.Table:
    """A table with all columns of a schema of files, null if missing.

    `constants` are the values of columns with a single value.
    """
    count = table.num_rows
    columns = []
    for field in schema:
        if field.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[field.name], field.type), count))
        elif field.name in table.column_names:
            columns.append(table[field.name])
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _sums_schema(kind: WindowKind) -> pa.Schema:
    return pa.schema([SUMS_SCHEMA.field(name) for name in kind.sum_names])


def _millionths(numbers: pa.ChunkedArray) -> pa.Array:
    # pc.round takes ten times as long.
    whole = _whole(pc.multiply(histogram.one_array(numbers), float(_MILLION)))
    return pc.cast(whole, WHOLE).view(MILLIONTHS)


def _whole(numbers: pa.Array) -> pa.Array:
    return pc.cast(pc.floor(pc.add(numbers, 0.5)), pa.int64(), safe=False)


def _floor(times: pa.ChunkedArray, width_s: int) -> pa.ChunkedArray:
    width_us = width_s * _MILLION
    return pc.cast(
        pc.multiply(pc.divide(pc.cast(times, pa.int64()), width_us), width_us), TIMESTAMP
    )


assert set(_FIRST) == {kind.name for kind in WINDOW_KINDS}
