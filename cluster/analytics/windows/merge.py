"""Merges deltas into visible files: functions of plain values, which any process may run.

First hours, then their days: an hour's windows of 10 s and 1 min are made from the stored ones and
the deltas, those of 1 h and 1 d from the sums that the hours pass on. Everything written is a
draft.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

import pyarrow as pa

from cluster.analytics.windows.deltas import read_delta, write_delta
from cluster.analytics.windows.kinds import WINDOW_KINDS, WINDOW_SCHEMA, WindowKind
from cluster.analytics.windows.layout import (
    DAY_WIDTHS,
    HOUR_S,
    WHOLE_DAY,
    FileUnit,
    VisiblePath,
    draft_path,
    hours_of_day,
    parsed,
    start_of,
)
from cluster.analytics.windows.parquet_files import FileWriter, between, opened, written_file
from cluster.analytics.windows.store import Store, open_store
from cluster.analytics.windows.widths import NARROWEST
from cluster.analytics.windows.window_sums import (
    Sums,
    added_up,
    coarser,
    joined,
    sums_of,
    windows_of,
)

PART_ROWS: Final = 200_000
"""Rows of a kind that are added up at a time, if they span several minutes."""
_HOUR: Final = "1h"
_DAY: Final = "1d"


class HourTask(NamedTuple):
    """The task to rewrite the windows of one unit."""

    change: int
    """The change in whose folder the drafts are written."""
    cluster_id: str | None
    unit: FileUnit
    widths: tuple[str, ...]
    """The widths of HOUR_WIDTHS to write, which have not been removed for their age."""
    visible: tuple[str, ...]
    """The files of the unit with the first of these widths."""
    deltas: tuple[str, ...]
    """The deltas with rows of the hour."""
    reread: tuple[str, ...] = ()
    """Deltas of everything in the topic: of a window in these and in the files, the version made
    from more records is kept."""
    until_s: int | None = None
    """Windows that begin there or later are left out."""


class DayTask(NamedTuple):
    """The task to rewrite the windows of 1 h and 1 d of a day, once its hours are written."""

    change: int
    cluster_id: str | None
    day: str
    hours: tuple[str, ...]
    """The hours that were written."""
    is_added: bool
    """Whether `sums` are added to the existing windows rather than replacing them: the narrowest
    have been removed for their age, so `sums` contain only new records."""
    sums: Mapping[str, tuple[str, ...]]
    """Files of the sums of its units, by hour."""
    widths: tuple[str, ...]
    """The widths of DAY_WIDTHS to write."""
    visible: tuple[str, ...]
    """The files of the first of these widths."""


MergeTask = HourTask | DayTask


class NewFile(NamedTuple):
    """A file that was written."""

    draft: str
    final: str
    rows: int
    bytes: int


class MergeResult(NamedTuple):
    """The files that a task wrote; small, to be passed on as JSON."""

    files: tuple[NewFile, ...]
    sums: str | None = None
    """A file with the sums that an hour passes on to its day, of windows of 1 h; None without
    any."""

    def as_json(self) -> str:
        """The result as text."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> "MergeResult":
        """The result in a text of `as_json`."""
        found = json.loads(text)
        return cls(tuple(NewFile(*each) for each in found["files"]), found["sums"])


def run_merge(store_place: str, task: MergeTask) -> MergeResult:
    """Carry out one task. Raises UnusableDirectory, UnknownStore."""
    return merge_in(open_store(store_place), task)


def merge_in(store: Store, task: MergeTask) -> MergeResult:
    """Carry out one task in a store that is open. Raises UnusableDirectory."""
    if isinstance(task, HourTask):
        return _merge_hour(store, task)
    return _merge_day(store, task)


def fuller(stored: pa.Table, computed: pa.Table, kind: WindowKind) -> pa.Table:
    """For each window the sums made from more metric records; if equal, the computed ones.

    Both are added up. Retention can only remove records from a window, so the version with more
    records is right.
    """
    both = pa.concat_tables(
        [
            stored.append_column("is_new", pa.repeat(0, stored.num_rows)),
            computed.append_column("is_new", pa.repeat(1, computed.num_rows)),
        ]
    ).sort_by([("records", "ascending"), ("is_new", "ascending")])
    rows = both.select(kind.key_names).append_column("row", pa.array(range(both.num_rows)))
    best = rows.group_by(kind.key_names, use_threads=False).aggregate([("row", "last")])
    return both.take(best["row_last"]).select(kind.sum_names)


class UnitDrafts:
    """Writes the windows of one unit, and the sums that it passes on to its day."""

    def __init__(self, store: Store, change: int, cluster_id: str | None, unit: FileUnit) -> None:
        self._store = store
        self._change = change
        self._notes = {"cluster": cluster_id or "", "units": [unit.hour, unit.minute, unit.minutes]}
        self._unit = unit
        self._files: list[NewFile] = []
        self._passed_on: dict[str, list[pa.Table]] = {}

    def write(
        self, kind: WindowKind, parts: Iterable[pa.Table], widths: tuple[str, ...]
    ) -> Iterator[pa.Table]:
        """Write windows of a kind in parts: sums added up for the first of the widths, in order of
        time, each of whole minutes.

        Yields those of the last width of each part.
        """
        with ExitStack() as open_files:
            files: dict[str, FileWriter] = {}
            for sums in parts:
                for width in widths:
                    if width != widths[0]:
                        sums = coarser(sums, kind, width)
                    if width not in files and sums.num_rows:
                        final = VisiblePath(kind.name, width, self._unit.day, self._unit.name)
                        files[width] = open_files.enter_context(
                            _window_file(self._store, self._change, final, self._notes, self._files)
                        )
                    if sums.num_rows:
                        files[width].write(windows_of(sums, kind, width))
                yield sums

    def pass_on(self, kind: WindowKind, sums: pa.Table) -> None:
        """Keep sums of any width below 1 h for the day."""
        if sums.num_rows:
            self._passed_on.setdefault(kind.name, []).append(coarser(sums, kind, _HOUR))

    def done(self) -> MergeResult:
        """All that was written."""
        place = draft_path(self._change, f"sums/{self._unit.hour}-{self._unit.minute:02}.parquet")
        parts = ({name: part} for name, found in self._passed_on.items() for part in found)
        written = write_delta(self._store, place, joined(parts))
        return MergeResult(tuple(self._files), place if written else None)


def _merge_hour(store: Store, task: HourTask) -> MergeResult:
    begin_s, end_s = task.unit.begin_s, task.unit.end_s
    if task.until_s is not None:
        end_s = max(begin_s, min(end_s, task.until_s))
    new = [read_delta(store, path, begin_s, end_s) for path in task.deltas]
    reread = [read_delta(store, path, begin_s, end_s) for path in task.reread]
    drafts = UnitDrafts(store, task.change, task.cluster_id, task.unit)
    for kind in WINDOW_KINDS:
        unit = _KindOfUnit(
            kind,
            task,
            _stored(store, task.visible, kind, begin_s, end_s),
            [sums.pop(kind.name) for sums in new if kind.name in sums],
            [sums.pop(kind.name) for sums in reread if kind.name in sums],
        )
        unit.write(drafts)
    return drafts.done()


class _KindOfUnit(NamedTuple):
    """The input of one kind of a unit's windows."""

    kind: WindowKind
    task: HourTask
    stored: pa.Table | None
    """Added up for the first width of the task."""
    new: list[pa.Table]
    reread: list[pa.Table]

    def write(self, drafts: UnitDrafts) -> None:
        """Write them."""
        widths = self.task.widths
        if widths[:1] == (NARROWEST,):
            for sums in drafts.write(self.kind, self._parts(), widths):
                drafts.pass_on(self.kind, sums)
            return
        # The narrowest have been removed for their age: the wider ones are added to.
        for _ in drafts.write(self.kind, self._parts(), widths):
            pass
        for sums in self.new:
            drafts.pass_on(self.kind, sums)

    def _parts(self) -> Iterator[pa.Table]:
        """The sums for the first of the widths, some minutes at a time.

        Adding up few of them at once needs less memory, and less time.
        """
        widths = self.task.widths
        if not widths:
            return
        stored = [] if self.stored is None else [self.stored]
        rows = sum(table.num_rows for table in (*stored, *self.new, *self.reread))
        minutes = self.task.unit.minutes
        count = next(
            (n for n in range(1, minutes) if minutes % n == 0 and rows <= n * PART_ROWS), minutes
        )
        step_s = minutes // count * 60
        for begin_s in range(self.task.unit.begin_s, self.task.unit.end_s, step_s):
            found = [between(table, begin_s, begin_s + step_s) for table in (*stored, *self.new)]
            sums = coarser(pa.concat_tables(found), self.kind, widths[0]) if found else None
            reread = [between(table, begin_s, begin_s + step_s) for table in self.reread]
            if reread and widths[0] == NARROWEST:
                sums = fuller(
                    _sums_schema(self.kind).empty_table() if sums is None else sums,
                    added_up(pa.concat_tables(reread), self.kind),
                    self.kind,
                )
            if sums is not None:
                yield sums


def _merge_day(store: Store, task: DayTask) -> MergeResult:
    files: list[NewFile] = []
    for kind in WINDOW_KINDS:
        if task.widths == DAY_WIDTHS:
            _write_hours(store, task, kind, files)
        elif task.widths:
            stored = _stored(store, task.visible, kind)
            new = [coarser(sums, kind, _DAY) for sums in _hourly(store, task, kind).values()]
            _write_days(store, task, kind, _together(kind, stored, *new), files)
    return MergeResult(tuple(files))


def _write_hours(store: Store, task: DayTask, kind: WindowKind, files: list[NewFile]) -> None:
    """Write a day's windows of 1 h, one hour after the other, and of 1 d, their sum."""
    final = VisiblePath(kind.name, _HOUR, task.day, WHOLE_DAY)
    days: pa.Table | None = None
    with ExitStack() as open_files:
        file: FileWriter | None = None
        for sums in _hours_of(store, task, kind):
            if file is None:
                file = open_files.enter_context(
                    _window_file(store, task.change, final, _day_notes(task), files)
                )
            file.write(windows_of(sums, kind, _HOUR))
            days = _together(kind, days, coarser(sums, kind, _DAY))
    if days is not None:
        _write_days(store, task, kind, days, files)


def _hours_of(store: Store, task: DayTask, kind: WindowKind) -> Iterator[pa.Table]:
    """The sums of each hour of a day that has any."""
    for hour in hours_of_day(task.day):
        stored = None
        if task.is_added or hour not in task.hours:
            begin_s = start_of(hour)
            stored = _stored(store, task.visible, kind, begin_s, begin_s + HOUR_S)
        sums = _together(kind, stored, _hourly(store, task, kind, hour).get(hour))
        if sums.num_rows:
            yield sums


def _write_days(
    store: Store, task: DayTask, kind: WindowKind, sums: pa.Table, files: list[NewFile]
) -> None:
    if sums.num_rows:
        final = VisiblePath(kind.name, _DAY, task.day, WHOLE_DAY)
        with _window_file(store, task.change, final, _day_notes(task), files) as file:
            file.write(windows_of(sums, kind, _DAY))


def _hourly(
    store: Store, task: DayTask, kind: WindowKind, hour: str | None = None
) -> dict[str, pa.Table]:
    """The sums of a kind that hours pass on, added up."""
    found = {}
    for each in task.sums if hour is None else (hour,):
        parts: list[Sums] = [
            read_delta(store, path, kinds=[kind]) for path in task.sums.get(each, ())
        ]
        sums = joined(parts).get(kind.name)
        if sums is not None:
            found[each] = sums
    return found


def _day_notes(task: DayTask) -> dict[str, object]:
    return {"cluster": task.cluster_id or "", "units": [task.day]}


@contextmanager
def _window_file(
    store: Store,
    change: int,
    final: VisiblePath,
    notes: Mapping[str, object],
    files: list[NewFile],
) -> Iterator[FileWriter]:
    """A draft of a visible file, which is noted in `files`."""
    draft = draft_path(change, str(final))
    with written_file(store, draft, WINDOW_SCHEMA, notes) as (writer, size):
        yield writer
    files.append(NewFile(draft, str(final), writer.rows, size.bytes))


def _together(kind: WindowKind, *parts: pa.Table | None) -> pa.Table:
    found = [part for part in parts if part is not None]
    if not found:
        return _sums_schema(kind).empty_table()
    if len(found) == 1:
        return found[0]  # each part is added up
    return added_up(pa.concat_tables(found), kind)


def _sums_schema(kind: WindowKind) -> pa.Schema:
    """The schema of a table of sums of a kind."""
    return pa.schema([WINDOW_SCHEMA.field(name) for name in kind.sum_names])


def _is_of(path: str, kind: WindowKind) -> bool:
    found = parsed(path)
    return found is not None and found.kind == kind.name


def _stored(
    store: Store,
    paths: tuple[str, ...],
    kind: WindowKind,
    begin_s: int | None = None,
    end_s: int | None = None,
) -> pa.Table | None:
    """The sums in the file of a kind; None if there is none."""
    path = next((each for each in paths if _is_of(each, kind)), None)
    return None if path is None else _read(store, path, kind, begin_s, end_s)


def _read(
    store: Store, path: str, kind: WindowKind, begin_s: int | None, end_s: int | None
) -> pa.Table:
    with opened(store, path) as file:
        return sums_of(file.read(kind.sum_names, begin_s, end_s), kind)
