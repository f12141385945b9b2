"""The Parquet files of the rollup: a folder per kind and width, in it one file per day (UTC).

Files are replaced as a whole, after all new files have been written. Readers need no Spark.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.analytics.metric_rows import GROUP, LAG, QUOTA, STATES, TIMESTAMP

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
        ("requests", pa.int64()),
        ("throttled", pa.int64()),
        ("throttle_ms_sum", pa.float64()),
        ("throttle_ms_max", pa.float64()),
        ("muted_ms_sum", pa.float64()),
        ("seconds_over_limit", pa.int64()),
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


QUOTA_WINDOWS: Final = WindowKind(QUOTA, "", WINDOW_SCHEMA, 7)
GROUP_WINDOWS: Final = WindowKind(GROUP, "groups", GROUP_SCHEMA, 2)
LAG_WINDOWS: Final = WindowKind(LAG, "lag", LAG_SCHEMA, 4)
WINDOW_KINDS: Final = (QUOTA_WINDOWS, GROUP_WINDOWS, LAG_WINDOWS)

_SUFFIX: Final = ".parquet"
_DAY: Final = timedelta(days=1)


def folder(output: Path, width: str) -> Path:
    """The folder of the windows of a width; readers of Hive partitions see a column `width`."""
    return output / f"width={width}"


def read_windows(
    output: Path,
    width: str,
    days: Iterable[date] | None = None,
    kind: WindowKind = QUOTA_WINDOWS,
) -> pa.Table:
    """The windows of these days in order of time; None for all. Raises OSError, pa.ArrowInvalid."""
    place = folder(output / kind.folder, width)
    if days is None:
        paths = sorted(place.glob(f"*{_SUFFIX}"))
    else:
        paths = [path for path in (_path(place, day) for day in sorted(days)) if path.exists()]
    tables = [pq.read_table(path, schema=kind.schema, partitioning=None) for path in paths]
    return pa.concat_tables(tables) if tables else kind.schema.empty_table()


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
    output = output / kind.folder
    output.mkdir(parents=True, exist_ok=True)
    drafts = output / ".drafts"
    shutil.rmtree(drafts, ignore_errors=True)  # of a run that was killed
    try:
        moves = [
            (draft, _path(folder(output, width), day))
            for width, table in windows.items()
            for draft, day in _write_drafts(folder(drafts, width), table, kind)
        ]
        for _, final in moves:
            final.parent.mkdir(exist_ok=True)
        for draft, final in moves:
            draft.replace(final)
    finally:
        shutil.rmtree(drafts, ignore_errors=True)


def sorted_windows(table: pa.Table, kind: WindowKind = QUOTA_WINDOWS) -> pa.Table:
    """The windows in the order of the files, which does not depend on the order of the input."""
    order = [(name, "ascending") for name in kind.schema.names[: kind.keys]]
    return table.select(kind.schema.names).cast(kind.schema).sort_by(order)


def days_of(first: datetime, last: datetime) -> tuple[date, ...]:
    """Every day that a span of time touches, both ends included."""
    begin, end = first.astimezone(UTC).date(), last.astimezone(UTC).date()
    return tuple(begin + _DAY * number for number in range((end - begin).days + 1))


def _write_drafts(place: Path, table: pa.Table, kind: WindowKind) -> Iterator[tuple[Path, date]]:
    place.mkdir(parents=True)
    ordered = sorted_windows(table, kind)
    dates = pc.cast(ordered["window_start"], pa.date32())
    for day in pc.unique(dates).to_pylist():
        draft = _path(place, day)
        pq.write_table(ordered.filter(pc.equal(dates, day)), draft, compression="zstd")
        yield draft, day


def _path(place: Path, day: date) -> Path:
    return place / f"{day.isoformat()}{_SUFFIX}"
