"""Takes over a directory of version 1: a folder for each kind, `progress.json`, and floats.

Its windows of 10 s become files of this version, hour by hour, as one change, which removes the
earlier files. If interrupted before that is decided, it is begun again; after, it is finished.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cluster.analytics.windows import histogram
from cluster.analytics.windows.commits import Change, Commits
from cluster.analytics.windows.kinds import (
    GROUP,
    LAG,
    MILLIONTHS,
    QUOTA,
    STATES,
    TIMESTAMP,
    WHOLE,
    Rule,
    WindowKind,
)
from cluster.analytics.windows.layout import (
    HOUR_WIDTHS,
    QUARANTINE,
    FileUnit,
    hours_of_day,
    start_of,
)
from cluster.analytics.windows.manifest import (
    Manifest,
    Progress,
    QuarantineFile,
    UnusableDirectory,
    VisibleFile,
)
from cluster.analytics.windows.merge import NewFile, UnitDrafts, merge_in
from cluster.analytics.windows.merge_plans import day_task
from cluster.analytics.windows.parquet_files import in_words
from cluster.analytics.windows.repair import AHEAD
from cluster.analytics.windows.store import LocalStore, Store, locked_folder
from cluster.analytics.windows.widths import NARROWEST
from cluster.analytics.windows.window_sums import added_up

VERSION: Final = 1
_PROGRESS: Final = "progress.json"
_QUARANTINE: Final = "aside"
_FOLDERS: Final = {QUOTA: "", GROUP: "groups/", LAG: "lag/"}
_WIDTHS: Final = ("10s", "1m", "1h")
_WHOLE_DAY: Final = "day.parquet"
_FILE: Final = re.compile(r"(?:day=)?(\d{4}-\d\d-\d\d)(?:/(\d\d|day))?\.parquet")
_DRAFTS: Final = ".drafts"
_LEFT_OVER: Final = (_DRAFTS, ".anew", ".follow")
"""Files that runs of that version kept for themselves."""
_STORED: Final = {
    "limit": pa.float64(),
    **dict.fromkeys(("usage_sum", "throttle_ms_sum", "muted_ms_sum"), pa.float64()),
    "rates": pa.list_(pa.float32()),
    "lag_sum": pa.int64(),
    "lag_last_at": TIMESTAMP,
}
"""Columns of that version that this one has under another name or not at all."""


def is_earlier(store: Store) -> bool:
    """Whether the directory has files of version 1, and hence no manifest. Raises OSError."""
    return store.is_local and (
        store.exists(_PROGRESS)
        or any(store.list(f"{folder}width={NARROWEST}") for folder in _FOLDERS.values())
    )


def take_over(commits: Commits) -> None:
    """Convert a directory of version 1 to this version.

    Raises UnusableDirectory, and InUse if software of that version works in it.
    """
    store = commits.store
    assert isinstance(store, LocalStore)
    with locked_folder(store.root), in_words(store):  # which software of version 1 locks
        _finish_earlier_change(store)
        progress, number, newest_s = _progress(store)
        end_s = int((datetime.now(UTC) + AHEAD).timestamp())
        if newest_s is not None and newest_s > end_s:
            newest_s = None  # an impossible time, after which all records would be late
        commits.manifest = replace(commits.manifest, change=number)
        change = Change(replace(commits.manifest, progress=progress, newest_s=newest_s))
        for day, paths in sorted(_days(store).items()):
            new = list(_written(store, commits.manifest, day, paths))
            change.moves += [(file.draft, file.final) for file in new]
            change.days[day] = [VisibleFile(file.final, file.rows, file.bytes) for file in new]
            if newest_s is None:
                newest = _newest_s(store, new, end_s) or change.manifest.newest_s
                change.manifest = replace(change.manifest, newest_s=newest)
        _take_quarantine(store, change)
        change.removals += [
            path
            for folder in _FOLDERS.values()
            for width in _WIDTHS
            for path in store.list(f"{folder}width={width}")
        ]
        change.removals += [path for path in [_PROGRESS] if store.exists(path)]
        commits.commit(change)
        for name in _LEFT_OVER:
            shutil.rmtree(store.root / name, ignore_errors=True)


def _finish_earlier_change(store: LocalStore) -> None:
    """Carry out a change that version 1 had decided: its drafts and removals."""
    drafts = store.root / _DRAFTS
    decided = drafts / "commit.json"
    if not decided.exists():
        return
    try:
        removed = [str(path) for path in json.loads(decided.read_text())["remove"]]
    except (ValueError, TypeError, KeyError):
        raise UnusableDirectory(f"{decided} is damaged: remove {drafts}") from None
    prefix = f"{_DRAFTS}/files/"
    for draft in store.list(prefix):
        store.move(draft, draft.removeprefix(prefix))
    for path in removed:
        store.remove(path)


def _progress(store: LocalStore) -> tuple[Progress | None, int, int | None]:
    """The position of the windows, the number of the last change, and the newest window."""
    try:
        found = json.loads(store.read_bytes(_PROGRESS))
        if found["version"] != VERSION:
            raise UnusableDirectory(
                f"{store.shown(_PROGRESS)} is of version {str(found['version'])[:20]},"
                f" not {VERSION}"
            )
        progress = Progress(
            topic=str(found["topic"]),
            topic_id=found["topic_id"],
            offsets={int(number): int(offset) for number, offset in found["offsets"].items()},
        )
        newest_s = found["newest_window"]
        return progress, int(found["changes"]), None if newest_s is None else int(newest_s)
    except FileNotFoundError:
        return None, 0, None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UnusableDirectory(f"{store.shown(_PROGRESS)} is damaged") from None


def _days(store: LocalStore) -> dict[str, dict[WindowKind, list[str]]]:
    """The valid files of the narrowest windows, by day and kind."""
    found: dict[str, dict[WindowKind, list[str]]] = {}
    for kind, folder in _FOLDERS.items():
        place = f"{folder}width={NARROWEST}/"
        for path in store.list(place):
            name = _FILE.fullmatch(path.removeprefix(place))
            if name is not None:
                found.setdefault(name[1], {}).setdefault(kind, []).append(path)
    for kinds in found.values():
        for kind, paths in kinds.items():
            # Hours beside the file of the day have been merged into it; early versions had one
            # file, beside the folder.
            whole = [path for path in paths if path.endswith(f"/{_WHOLE_DAY}")]
            hours = [path for path in paths if "/day=" in path]
            kinds[kind] = whole or hours or paths
    return found


def _written(
    store: LocalStore, manifest: Manifest, day: str, paths: dict[WindowKind, list[str]]
) -> Iterator[NewFile]:
    """Write the windows of a day as drafts of the next change."""
    sums: dict[str, list[str]] = {}
    for hour in hours_of_day(day):
        drafts = UnitDrafts(store, manifest.change + 1, None, FileUnit(hour))
        for kind, of_kind in paths.items():
            tables = [
                _sums(_read(store, path, kind, hour), kind)
                for path in of_kind
                if not _is_of_other_hour(path, hour)
            ]
            if not tables:
                continue
            found = added_up(pa.concat_tables(tables), kind)
            for sums_of_hour in drafts.write(kind, [found], HOUR_WIDTHS):
                drafts.pass_on(kind, sums_of_hour)
        result = drafts.done()
        yield from result.files
        if result.sums is not None:
            sums[hour] = [result.sums]
    yield from merge_in(store, day_task(manifest, day, sums, [])).files
    for path in sums.values():
        store.remove(path[0])


def _is_of_other_hour(path: str, hour: str) -> bool:
    name = Path(path).stem
    return len(name) == len("13") and name != hour[11:]


def _read(store: LocalStore, path: str, kind: WindowKind, hour: str) -> pa.Table:
    """The stored windows of an hour; columns that an early file lacks are null."""
    names = dict.fromkeys([*kind.key_names, *_NAMES[kind]])
    schema = pa.schema(
        [(name, _STORED.get(name) or kind.schema.field(name).type) for name in names]
    )
    begin = datetime.fromtimestamp(start_of(hour), UTC)
    wanted = [
        ("window_start", ">=", begin),
        ("window_start", "<", datetime.fromtimestamp(start_of(hour) + 3600, UTC)),
    ]
    with in_words(store, path):
        table = pq.read_table(
            store.root / path, schema=schema, partitioning=None, filters=wanted, use_threads=False
        )
        if "records" not in pq.read_schema(store.root / path).names:
            raise UnusableDirectory(f"{store.shown(path)} was not written by the rollup")
        return table


_NAMES: Final = {
    QUOTA: (
        *("usage_sum", "rate_max", "requests", "throttled", "throttle_ms_sum", "throttle_ms_max"),
        *("muted_ms_sum", "seconds_over_limit", "seconds_throttled", "records", "rates"),
    ),
    GROUP: (
        *("members_max", "lag_max", "lag_last", "lag_sum", *STATES.values()),
        *("records", "lag_last_at"),
    ),
    LAG: (
        *("lag_max", "lag_last", "lag_sum", "log_end_max", "committed_max"),
        *("records", "lag_last_at"),
    ),
}
"""The columns that are read of each kind, beside the keys."""


def _sums(stored: pa.Table, kind: WindowKind) -> pa.Table:
    """The sums behind windows of version 1, with the columns of this version."""
    columns = {name: stored[name] for name in stored.column_names if name in kind.sum_names}
    if kind is QUOTA:
        # That version accepted any number, from any client, as a limit.
        limit = stored["limit"]
        is_limit = pc.and_(pc.is_finite(limit), pc.greater_equal(limit, 0.0))
        columns["limit"] = pc.if_else(is_limit, limit, None)
        for name in ("usage", "throttle_ms", "muted_ms"):
            columns[f"{name}_exact"] = pc.cast(stored[f"{name}_sum"], MILLIONTHS)
        columns["seconds_throttled"] = pc.fill_null(stored["seconds_throttled"], 0)
        columns["covered_ms"] = pc.multiply(stored["records"], 1000)  # as its reports assumed
        columns["histogram"], missing = _histograms(stored)
        found = _table(columns, kind)
        return found if missing is None else added_up(_with_rates(found, missing), kind)
    columns["lag_exact"] = pc.cast(stored["lag_sum"], WHOLE)
    columns["last_at"] = pc.coalesce(stored["lag_last_at"], stored["window_start"])
    for name in STATES.values():
        if name in columns:
            columns[name] = pc.fill_null(columns[name], 0)
    return _table(columns, kind)


def _histograms(stored: pa.Table) -> tuple[pa.Array, pa.Array | None]:
    """The rates of each window as a histogram, and the number of its records missing there; None if
    none is.
    """
    rates = histogram.one_array(stored["rates"])
    sizes = pc.fill_null(pc.list_value_length(rates), 0)
    ends = pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), sizes]))
    flat = rates.flatten()
    rows = pa.ListArray.from_arrays(ends.cast(pa.int32()), pa.array(range(len(flat)), pa.int64()))
    singles = histogram.singles(histogram.rate_codes(flat))
    records = histogram.one_array(stored["records"])
    missing = pc.max_element_wise(pc.subtract(records, pc.cast(sizes, pa.int64())), 0)
    found = histogram.added_up(pa.chunked_array([singles]), pa.chunked_array([rows]))
    return found, missing if pc.any(pc.greater(missing, 0)).as_py() else None


def _with_rates(sums: pa.Table, missing: pa.Array) -> pa.Table:
    """The sums, with the highest rate of a window for each record without one.

    So percentiles of such windows are too high rather than too low.
    """
    codes = histogram.rate_codes(sums["rate_max"])
    ends = pa.array(range(sums.num_rows + 1), pa.int32())
    columns = {
        column.name: pa.nulls(sums.num_rows, column.type)
        if column.rule in (Rule.highest, Rule.last)
        else pc.cast(pa.repeat(0, sums.num_rows), column.type)
        for column in QUOTA.columns
        if column.rule is not Rule.histogram
    }
    columns["histogram"] = pa.MapArray.from_arrays(ends, codes, missing)
    more = _table({**{name: sums[name] for name in QUOTA.key_names}, **columns}, QUOTA)
    return pa.concat_tables([sums, more.filter(pc.greater(missing, 0))])


def _table(columns: dict[str, pa.Array | pa.ChunkedArray], kind: WindowKind) -> pa.Table:
    schema = pa.schema([kind.schema.field(name) for name in kind.sum_names])
    return pa.table({name: columns[name] for name in kind.sum_names}).cast(schema)


def _newest_s(store: LocalStore, files: list[NewFile], end_s: int) -> int | None:
    """The start of the newest of these windows that does not begin after `end_s`."""
    end = datetime.fromtimestamp(end_s, UTC)
    newest = [
        pc.max(starts.filter(pc.less_equal(starts, pa.scalar(end, TIMESTAMP)))).as_py()
        for file in files
        if f"width={NARROWEST}/" in file.final
        for starts in pq.read_table(store.root / file.draft, columns=["window_start"]).columns
    ]
    return max((int(start.timestamp()) for start in newest if start), default=None)


def _take_quarantine(store: LocalStore, change: Change) -> None:
    """Keep the quarantined records."""
    files = []
    for path in store.list(_QUARANTINE):
        if Path(path).suffix == ".jsonl":
            found = (store.root / path).stat()
            day = datetime.fromtimestamp(found.st_mtime, UTC).date().isoformat()
            final = f"{QUARANTINE}/{Path(path).name}"
            change.moves.append((path, final))
            files.append(QuarantineFile(final, found.st_size, day))
    change.manifest = replace(change.manifest, quarantined=tuple(files))
