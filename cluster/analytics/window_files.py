"""The Parquet files of the rollup: a folder per kind, width and day (UTC). Readers need no Spark.

A day that grows has a file per hour; later one file, which then counts alone.
Files are replaced as a whole (`file_changes.py`).
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.analytics.file_changes import FileChanges
from cluster.analytics.windows.kinds import STATES, TIMESTAMP

WIDTHS_S: Final = {"10s": 10, "1m": 60, "1h": 3600}
"""Widths by the name of their folder, narrowest first; each is a multiple of those before."""
NARROWEST: Final = "10s"

WINDOW_SCHEMA: Final = pa.schema(
    [
        ("window_start", TIMESTAMP),
        ("broker", pa.int32()),
        ("user", pa.string()),
        ("client_id", pa.string()),
        ("quota", pa.string()),
        ("rule", pa.string()),
        ("limit", pa.float64()),
        ("usage_sum", pa.float64()),
        ("rate_avg", pa.float64()),
        ("rate_max", pa.float64()),
        ("rate_p95", pa.float64()),
        ("utilization", pa.float64()),
        ("requests", pa.int64()),
        ("throttled", pa.int64()),
        ("throttle_ms_sum", pa.float64()),
        ("throttle_ms_max", pa.float64()),
        ("muted_ms_sum", pa.float64()),
        ("seconds_over_limit", pa.int64()),
        ("seconds_throttled", pa.int64()),
        ("records", pa.int64()),
    ]
)
"""The schema of every file about quotas."""

GROUP_SCHEMA: Final = pa.schema(
    [
        ("window_start", TIMESTAMP),
        ("group", pa.string()),
        ("members_max", pa.int64()),
        ("lag_avg", pa.float64()),
        ("lag_max", pa.int64()),
        ("lag_last", pa.int64()),
        ("lag_sum", pa.int64()),
        *((name, pa.int64()) for name in STATES.values()),
        ("records", pa.int64()),
    ]
)
LAG_SCHEMA: Final = pa.schema(
    [
        ("window_start", TIMESTAMP),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("lag_avg", pa.float64()),
        ("lag_max", pa.int64()),
        ("lag_last", pa.int64()),
        ("lag_sum", pa.int64()),
        ("log_end_max", pa.int64()),
        ("committed_max", pa.int64()),
        ("records", pa.int64()),
    ]
)


class WindowKind(NamedTuple):
    """What the windows of one kind of metric record are like."""

    name: str
    """That of the records."""
    folder: str
    """Below the output directory; empty for that itself."""
    schema: pa.Schema
    keys: int
    """So many columns, the first, identify a window; files are sorted by them."""
    more: pa.Schema
    """Columns that only the narrowest windows have, from which others are made exactly."""

    @property
    def key_names(self) -> list[str]:
        """The columns that identify a window."""
        names: list[str] = self.schema.names
        return names[: self.keys]

    @property
    def stored_schema(self) -> pa.Schema:
        """The schema of the files of the narrowest windows."""
        return pa.schema([*self.schema, *self.more])


_LAST_AT: Final = pa.schema([("lag_last_at", TIMESTAMP)])
QUOTA_WINDOWS: Final = WindowKind(
    "quota", "", WINDOW_SCHEMA, 7, pa.schema([("rates", pa.list_(pa.float32()))])
)
GROUP_WINDOWS: Final = WindowKind("group", "groups", GROUP_SCHEMA, 2, _LAST_AT)
LAG_WINDOWS: Final = WindowKind("lag", "lag", LAG_SCHEMA, 4, _LAST_AT)
WINDOW_KINDS: Final = (QUOTA_WINDOWS, GROUP_WINDOWS, LAG_WINDOWS)

WHOLE_DAY: Final = "day"
"""The piece of a day that holds all of it; the others are its hours, 00 to 23."""
_SUFFIX: Final = ".parquet"
_DAY_PREFIX: Final = "day="
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)


def folder(output: Path, width: str, kind: WindowKind = QUOTA_WINDOWS) -> Path:
    """The folder of the windows of a kind and width; readers of Hive partitions see `width`."""
    return output / kind.folder / f"width={width}"


def piece_path(output: Path, kind: WindowKind, width: str, day: date, piece: str) -> Path:
    """The file of one piece of a day: an hour (`07`) or `WHOLE_DAY`."""
    return folder(output, width, kind) / f"{_DAY_PREFIX}{day.isoformat()}" / f"{piece}{_SUFFIX}"


def days_there(output: Path, kind: WindowKind, width: str = NARROWEST) -> list[date]:
    """The days of which there are windows, in order. Raises OSError."""
    found = set()
    for path in folder(output, width, kind).glob("*"):
        try:
            found.add(date.fromisoformat(path.name.removeprefix(_DAY_PREFIX).removesuffix(_SUFFIX)))
        except ValueError:
            continue  # somebody else's file
    return sorted(found)


def paths_of_day(output: Path, kind: WindowKind, width: str, day: date) -> list[Path]:
    """The files that hold the windows of a day, in order of time; none if there are none."""
    whole = piece_path(output, kind, width, day, WHOLE_DAY)
    if whole.exists():
        return [whole]  # hours beside it have been taken into it, and not been removed yet
    hours = sorted(whole.parent.glob(f"[0-9][0-9]{_SUFFIX}"))
    early = early_path(output, kind, width, day)
    return hours or ([early] if early.exists() else [])


def early_path(output: Path, kind: WindowKind, width: str, day: date) -> Path:
    """Where versions of this software before the folders of days put the windows of a day."""
    return folder(output, width, kind) / f"{day.isoformat()}{_SUFFIX}"


def window_paths(
    output: Path,
    width: str,
    days: Iterable[date] | None = None,
    kind: WindowKind = QUOTA_WINDOWS,
) -> list[Path]:
    """The files of the windows of these days in order of time; None for all. Raises OSError."""
    chosen = days_there(output, kind, width) if days is None else sorted(days)
    return [path for day in chosen for path in paths_of_day(output, kind, width, day)]


def read_windows(
    output: Path,
    width: str,
    days: Iterable[date] | None = None,
    kind: WindowKind = QUOTA_WINDOWS,
) -> pa.Table:
    """The windows of these days in order of time; None for all. Raises OSError, pa.ArrowInvalid."""
    return read_files(window_paths(output, width, days, kind), kind.schema)


def read_files(paths: Iterable[Path], schema: pa.Schema, hour: datetime | None = None) -> pa.Table:
    """The rows of files, of one hour if it is given; columns that a file lacks are null.

    Raises OSError, pa.ArrowInvalid.
    """
    chosen = None
    if hour is not None:
        chosen = [("window_start", ">=", hour), ("window_start", "<", hour + _HOUR)]
    tables = []
    for path in paths:
        table = pq.read_table(path, schema=schema, partitioning=None, filters=chosen)
        if table["window_start"].null_count:
            raise pa.ArrowInvalid(f"{path} was not written by the rollup: it has no window_start")
        tables.append(table)
    return pa.concat_tables(tables) if tables else schema.empty_table()


def hours_of(starts: pa.ChunkedArray) -> list[datetime]:
    """The hours in which times lie, in order, without repeats."""
    found: list[datetime] = pc.unique(pc.floor_temporal(starts, unit="hour")).to_pylist()
    return sorted(found)


def hours_in(paths: Iterable[Path]) -> list[datetime]:
    """The hours that windows in files lie in, in order. Raises OSError, pa.ArrowInvalid."""
    starts = pa.schema([("window_start", TIMESTAMP)])
    return hours_of(read_files(paths, starts)["window_start"])


class InUse(Exception):
    """Another process is writing windows to this directory."""


@contextmanager
def sole_writer(output: Path) -> Iterator[None]:
    """Lock the directory within the block, so that no other process writes there.

    The lock is on the directory itself, so it leaves no file, and ends with the process even after
    a kill -9. Raises InUse if another process holds it, and OSError.
    """
    output.mkdir(parents=True, exist_ok=True)
    place = os.open(output, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse from None
        yield
    finally:
        os.close(place)


def replace_windows(
    output: Path, windows: Mapping[str, pa.Table], kind: WindowKind = QUOTA_WINDOWS
) -> None:
    """Replace the files of all days that the given windows, by width, lie in.

    The same windows give the same bytes. A crash leaves whole files, old or new. Raises OSError.
    """
    with FileChanges(output) as changes:
        for width, table in windows.items():
            ordered = sorted_windows(table, kind)
            dates = pc.cast(ordered["window_start"], pa.date32())
            for day in pc.unique(dates).to_pylist():
                place = piece_path(output, kind, width, day, WHOLE_DAY)
                of_day = ordered.filter(pc.equal(dates, day))
                pq.write_table(of_day, changes.draft_of(place), compression="zstd")


@contextmanager
def window_writer(path: Path, kind: WindowKind, width: str) -> Iterator[pq.ParquetWriter]:
    """Writes a file of windows; each hour is a table of its own. Raises OSError."""
    schema = kind.stored_schema if width == NARROWEST else kind.schema
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        yield writer


def sorted_windows(table: pa.Table, kind: WindowKind = QUOTA_WINDOWS) -> pa.Table:
    """The windows in the order of the files, which does not depend on the order of the input."""
    is_stored = set(kind.more.names) <= set(table.schema.names)
    schema = kind.stored_schema if is_stored else kind.schema
    order = [(name, "ascending") for name in kind.key_names]
    return table.select(schema.names).cast(schema).sort_by(order)


def days_of(first: datetime, last: datetime) -> tuple[date, ...]:
    """Every day that a span of time touches, both ends included."""
    begin, end = first.astimezone(UTC).date(), last.astimezone(UTC).date()
    return tuple(begin + _DAY * number for number in range((end - begin).days + 1))
