"""The windows made from each kind of metric record: keys, columns, and how columns are added up.

This is the only statement of it: tables of sums, files, merges and readers are derived. All kinds
share one schema, in which the columns of other kinds are null, so that any reader of Parquet can
read the whole directory as one table.
"""

import enum
from collections.abc import Iterable
from typing import Final, NamedTuple

import pyarrow as pa

from cluster.model.quota_usage import CLIENT_KEYS, USAGE_FIELDS, Adding

SCHEMA_VERSION: Final = 2
"""The version of the columns and their meaning, noted in each file. 1 had a folder per kind, and
floats."""

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_COUNT: Final = pa.int64()
MILLIONTHS: Final = pa.decimal128(38, 6)
WHOLE: Final = pa.decimal128(38, 0)
HISTOGRAM: Final = pa.map_(pa.int32(), pa.int64())
"""The count of each bucket (`histogram.py`)."""

STATES: Final = {
    "Empty": "empty_ms",
    "PreparingRebalance": "preparing_rebalance_ms",
    "CompletingRebalance": "completing_rebalance_ms",
    "Assigning": "assigning_ms",
    "Reconciling": "reconciling_ms",
    "Stable": "stable_ms",
}
"""The column of the time in each state of a group, of either protocol."""


class Rule(enum.Enum):
    """How the values of one column are added up. No rule depends on the order of records."""

    total = "sum"
    """At most 1e9 in a record, so that 64 bits hold the sum of every record of a topic."""
    exact = "exact"
    """The same in 128 bits, for larger values and millionths. Columns end in `_exact`."""
    highest = "max"
    last = "last"
    """The value with the latest `last_at`, of equals the highest."""
    histogram = "histogram"


class Column(NamedTuple):
    """A column of sums."""

    name: str
    rule: Rule
    type: pa.DataType


class WindowKind(NamedTuple):
    """The windows of one kind of metric record."""

    name: str
    """The kind of the records (docs/metrics.md), which also names the folder."""
    keys: tuple[str, ...]
    """Beside `window_start`, which comes first: the key of a window."""
    columns: tuple[Column, ...]
    """The columns that are added up."""
    derived: tuple[str, ...]
    """Columns computed from the sums (`window_sums.windows_of`); floats."""

    @property
    def key_names(self) -> list[str]:
        """The columns of a window's key, by which files are sorted."""
        return ["window_start", *self.keys]

    @property
    def sum_names(self) -> list[str]:
        """The columns of a table of sums."""
        return [*self.key_names, *(column.name for column in self.columns)]

    @property
    def names(self) -> list[str]:
        """The columns of a window, without those of other kinds."""
        return [*self.sum_names, *self.derived]

    @property
    def schema(self) -> pa.Schema:
        """The schema of a table of its windows, without the columns of other kinds."""
        return pa.schema([WINDOW_SCHEMA.field(name) for name in self.names])


def _columns(rule: Rule, kind: pa.DataType, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, rule, kind) for name in names)


_RECORDS: Final = Column("records", Rule.total, _COUNT)
_LAST_AT: Final = Column("last_at", Rule.highest, TIMESTAMP)
_HISTOGRAM: Final = Column("histogram", Rule.histogram, HISTOGRAM)

_SUMMED: Final = [field for field in USAGE_FIELDS.values() if Adding.SUM in field.in_windows]
QUOTA_AMOUNTS: Final = tuple(field.name for field in _SUMMED if not field.is_count)
"""Fields of quota records whose sum is kept exactly."""
QUOTA_COUNTS: Final = tuple(field.name for field in _SUMMED if field.is_count)
QUOTA_MAXIMA: Final = tuple(
    field.name for field in USAGE_FIELDS.values() if Adding.MAX in field.in_windows
)
QUOTA: Final = WindowKind(
    "quota",
    ("broker", *CLIENT_KEYS, "rule", "limit"),
    (
        *_columns(Rule.exact, MILLIONTHS, *(f"{name}_exact" for name in QUOTA_AMOUNTS)),
        *_columns(Rule.highest, pa.float64(), *(f"{name}_max" for name in QUOTA_MAXIMA)),
        *_columns(
            *(Rule.total, _COUNT),
            *(*QUOTA_COUNTS, "seconds_over_limit", "seconds_throttled", "covered_ms"),
        ),
        _RECORDS,
        _HISTOGRAM,
    ),
    (
        *(f"{name}_sum" for name in QUOTA_AMOUNTS),
        *("rate_avg", "rate_p95", "rate_p99", "utilization"),
    ),
)
_LAGS: Final = (
    *_columns(Rule.exact, WHOLE, "lag_exact"),
    *_columns(Rule.highest, _COUNT, "lag_max"),
    *_columns(Rule.last, _COUNT, "lag_last"),
    _LAST_AT,
    _RECORDS,
)
GROUP: Final = WindowKind(
    "group",
    ("group",),
    (
        *_LAGS,
        *_columns(Rule.highest, _COUNT, "members_max"),
        *_columns(Rule.total, _COUNT, *STATES.values()),
    ),
    ("lag_sum", "lag_avg"),
)
LAG: Final = WindowKind(
    "lag",
    ("group", "topic", "partition"),
    (*_LAGS, *_columns(Rule.highest, _COUNT, "log_end_max", "committed_max")),
    ("lag_sum", "lag_avg"),
)
_TRAFFIC: Final = ("bytes_in", "bytes_out", "messages_in")
BROKER: Final = WindowKind(
    "broker",
    ("broker",),
    (
        *_columns(
            *(Rule.exact, WHOLE),
            *(f"{name}_exact" for name in _TRAFFIC),
            *("replication_bytes_in_exact", "replication_bytes_out_exact"),
        ),
        *_columns(
            *(Rule.total, _COUNT),
            *("requests", "isr_shrinks", "isr_expands", "covered_ms", "idle_ms"),
        ),
        *_columns(Rule.highest, pa.float64(), "busy_max"),
        *_columns(
            *(Rule.highest, _COUNT),
            *("connections_max", "partitions_max", "leaders_max", "under_replicated_max"),
            "log_size_max",
        ),
        *_columns(Rule.last, _COUNT, "log_size_last", "disk_total_last", "disk_usable_last"),
        _LAST_AT,
        _RECORDS,
    ),
    (
        *(f"{name}_sum" for name in _TRAFFIC),
        *("replication_bytes_in_sum", "replication_bytes_out_sum", "idle_avg"),
    ),
)
TOPIC: Final = WindowKind(
    "topic",
    ("broker", "topic"),
    (
        *_columns(Rule.exact, WHOLE, *(f"{name}_exact" for name in _TRAFFIC)),
        *_columns(
            *(Rule.total, _COUNT),
            *("produces", "failed_produces", "fetches", "failed_fetches", "covered_ms"),
        ),
        *_columns(Rule.highest, _COUNT, "log_size_max"),
        *_columns(Rule.last, _COUNT, "log_size_last", "partitions_last", "leaders_last"),
        _LAST_AT,
        _RECORDS,
    ),
    tuple(f"{name}_sum" for name in _TRAFFIC),
)
LATENCY: Final = WindowKind(
    "latency",
    ("broker", "api"),
    (
        *_columns(Rule.exact, WHOLE, "total_us_exact"),
        *_columns(Rule.total, _COUNT, "requests"),
        _HISTOGRAM,
        _RECORDS,
    ),
    ("latency_ms_avg", "latency_ms_p50", "latency_ms_p95", "latency_ms_p99"),
)
EVENT: Final = WindowKind(
    "event",
    ("broker", "event", "subject"),
    (
        *_columns(Rule.total, _COUNT, "events"),
        *_columns(Rule.last, pa.string(), "detail"),
        _LAST_AT,
        _RECORDS,
    ),
    (),
)
WINDOW_KINDS: Final = (QUOTA, GROUP, LAG, BROKER, TOPIC, LATENCY, EVENT)
KIND_OF: Final = {kind.name: kind for kind in WINDOW_KINDS}

_KEY_TYPES: Final = {
    "window_start": TIMESTAMP,
    "broker": pa.int32(),
    "partition": pa.int32(),
    "limit": pa.float64(),
}


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _sums_schema() -> pa.Schema:
    keys = _unique(name for kind in WINDOW_KINDS for name in kind.key_names)
    columns = {column.name: column.type for kind in WINDOW_KINDS for column in kind.columns}
    return pa.schema(
        [
            ("kind", pa.string()),
            *((name, _KEY_TYPES.get(name, pa.string())) for name in keys),
            *columns.items(),
        ]
    )


SUMS_SCHEMA: Final = _sums_schema()
"""Sums of all kinds in one table; columns of other kinds than the row's are null."""
WINDOW_SCHEMA: Final = pa.schema(
    [
        *(field for field in SUMS_SCHEMA if field.name != "kind"),
        *(
            (name, pa.float64())
            for name in _unique(name for kind in WINDOW_KINDS for name in kind.derived)
        ),
    ]
)
"""The schema of every file of windows: sums and derived columns. Kind and width are in the path."""
