"""Removes windows of impossible times from a directory, whatever put them there."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.commits import Change, Commits
from cluster.analytics.windows.deltas import read_delta
from cluster.analytics.windows.layout import (
    HOUR_S,
    HOUR_WIDTHS,
    day_of,
    day_span,
    hour_of,
    hours_of_day,
    parsed,
    start_of,
)
from cluster.analytics.windows.manifest import VisibleFile
from cluster.analytics.windows.merge import MergeResult, MergeTask, merge_in
from cluster.analytics.windows.merge_plans import (
    day_task,
    drop_hours,
    hour_tasks,
    put_in_place,
    rows_by_hour,
)
from cluster.analytics.windows.parquet_files import opened
from cluster.analytics.windows.record_schema import EARLIEST_MS
from cluster.analytics.windows.store import Store
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S

AHEAD: Final = timedelta(minutes=10)
"""How much later than now windows may begin, since clocks differ."""
EARLIEST_S: Final = EARLIEST_MS // 1000
_MILLION: Final = 1_000_000


class _Possible(NamedTuple):
    """The times at which windows may begin."""

    begin_s: int
    end_s: int

    def holds(self, begin_s: int, end_s: int) -> bool:
        """Whether any time of a span is possible."""
        return begin_s < self.end_s and end_s > self.begin_s

    def holds_hour(self, hour: str) -> bool:
        """Whether any time of an hour is possible."""
        begin_s = start_of(hour)
        return self.holds(begin_s, begin_s + HOUR_S)


def repaired(commits: Commits, now: datetime) -> tuple[Change, dict[str, int]]:
    """The prepared change that removes windows of impossible times, and the removed rows by kind.

    Raises UnusableDirectory.
    """
    # 2020 began with a whole hour, so only the last hour can be possible in part.
    possible = _Possible(EARLIEST_S, int((now + AHEAD).timestamp()) + 1)
    before = commits.manifest
    change = Change(before)
    gone: Counter[str] = Counter()
    for day in before.days:
        if not possible.holds(*day_span(day)):
            change.days[day] = []
            gone += _rows_of(commits.files_of(day))
    _cut_last_day(commits, possible, change, gone)
    for delta in change.manifest.deltas:
        for hour in delta.hours:
            if not possible.holds_hour(hour):
                gone += _rows_in(commits.store, [delta.path], start_of(hour), None)
    drop_hours(change, lambda _, hour: not possible.holds_hour(hour))
    if gone:
        files = {day: commits.files_of(day) for day in before.days} | change.days
        newest_s = _newest_s(commits.store, change, files)
        slices = change.manifest.hours.items()
        change.manifest = replace(
            change.manifest,
            newest_s=newest_s,
            hours={
                each: count for each, count in slices if count > 1 and possible.holds_hour(each)
            },
        )
    return change, dict(gone)


def _cut_last_day(
    commits: Commits, possible: _Possible, change: Change, gone: Counter[str]
) -> None:
    """Remove the rest of the last possible day: its wider windows are rewritten."""
    manifest, store = commits.manifest, commits.store
    day, hour = day_of(possible.end_s - 1), hour_of(possible.end_s - 1)
    files = commits.files_of(day)
    rows: Counter[str] = Counter()
    for file in files:
        place = parsed(file.path)
        if place is not None:
            rows[place.kind] += _rows_from(store, file.path, possible.end_s)
    in_deltas = [delta.path for delta in manifest.deltas if hour in delta.hours]
    waiting = _rows_in(store, in_deltas, possible.end_s, start_of(hour) + HOUR_S)
    if not rows.total() and not waiting.total():
        return
    gone += rows
    gone += waiting
    tasks: list[MergeTask] = []
    results: list[MergeResult] = []
    sums: dict[str, list[str]] = {
        each: [] for each in hours_of_day(day) if not possible.holds_hour(each)
    }
    if manifest.keeps(NARROWEST, day):
        sums[hour] = []
        for task in hour_tasks(manifest, hour, rows_by_hour(manifest.deltas)[hour], files):
            result = merge_in(store, task._replace(until_s=possible.end_s))
            sums[hour] += [result.sums] if result.sums else []
            tasks.append(task)
            results.append(result)
        hours = {**manifest.hours, hour: len(tasks)}
        change.manifest = replace(change.manifest, hours=hours)
        drop_hours(change, lambda _, each: each == hour)
    last = day_task(manifest, day, sums, files)
    tasks.append(last)
    results.append(merge_in(store, last))
    left = [file for file in files if not _is_of_hours(file, set(sums) - {hour})]
    new = [file for result in results for file in result.files]
    written = [VisibleFile(file.final, file.rows, file.bytes) for file in new]
    put_in_place(change, day, left, tasks, written)
    change.moves += [(file.draft, file.final) for file in new]
    change.removals += [result.sums for result in results if result.sums]


def _is_of_hours(file: VisibleFile, hours: set[str]) -> bool:
    place = parsed(file.path)
    return (
        place is not None
        and place.width in HOUR_WIDTHS
        and f"{place.day}T{place.unit[:2]}" in hours
    )


def _rows_of(files: Iterable[VisibleFile]) -> Counter[str]:
    rows: Counter[str] = Counter()
    for file in files:
        place = parsed(file.path)
        if place is not None:
            rows[place.kind] += file.rows
    return rows


def _rows_from(store: Store, path: str, begin_s: int) -> int:
    with opened(store, path) as file:
        return int(file.read(["window_start"], begin_s, None).num_rows)


def _rows_in(store: Store, paths: Iterable[str], begin_s: int, end_s: int | None) -> Counter[str]:
    """The rows of deltas in a span of time, or in the hour that begins then."""
    end_s = begin_s + HOUR_S if end_s is None else end_s
    rows: Counter[str] = Counter()
    for path in paths:
        for kind, table in read_delta(store, path, begin_s, end_s).items():
            rows[kind] += table.num_rows
    return rows


def _newest_s(
    store: Store, change: Change, files: Mapping[str, Sequence[VisibleFile]]
) -> int | None:
    """The start of the newest remaining window."""
    starts: list[pa.ChunkedArray] = []
    hours = rows_by_hour(change.manifest.deltas)
    if hours:
        newest = max(hours)
        begin_s = start_of(newest)
        for delta in change.manifest.deltas:
            if newest in delta.hours:
                sums = read_delta(store, delta.path, begin_s, begin_s + HOUR_S)
                starts += [table["window_start"] for table in sums.values()]
    drafts = {final: draft for draft, final in change.moves}
    for path in _newest_files(files):
        with opened(store, drafts.get(path, path)) as file:
            starts.append(file.read(["window_start"], None, None)["window_start"])
    found = [pc.max(pc.cast(each, pa.int64())).as_py() // _MILLION for each in starts]
    return max(found, default=None)


def _newest_files(files: Mapping[str, Sequence[VisibleFile]]) -> list[str]:
    """The files, of all kinds, of the narrowest width and the last unit of the last day."""
    day = max((day for day, of_day in files.items() if of_day), default=None)
    if day is None:
        return []
    places = [place for file in files[day] if (place := parsed(file.path)) is not None]
    width = min((place.width for place in places), key=list(WIDTHS_S).index)
    unit = max(place.unit for place in places if place.width == width)
    return [str(place) for place in places if (place.width, place.unit) == (width, unit)]
