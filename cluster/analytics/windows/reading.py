"""Reads windows for reports: visible files and deltas together, in one consistent state.

A writer may work meanwhile. The manifest says which files belong together; if it has changed once
they are read, reading starts again. Every function raises UnusableDirectory.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.commits import read_day_list, read_manifest
from cluster.analytics.windows.deltas import read_delta
from cluster.analytics.windows.earlier_version import is_earlier
from cluster.analytics.windows.kinds import HISTOGRAM, WINDOW_SCHEMA, Rule, WindowKind
from cluster.analytics.windows.layout import (
    DAY_WIDTHS,
    HOUR_S,
    HOUR_WIDTHS,
    VisiblePath,
    day_span,
    parsed,
    start_of,
)
from cluster.analytics.windows.manifest import Manifest, UnusableDirectory
from cluster.analytics.windows.parquet_files import (
    DICTIONARIES,
    MissingFile,
    between,
    in_words,
    opened,
)
from cluster.analytics.windows.store import Store, UnknownStore, open_store
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S
from cluster.analytics.windows.window_sums import coarser, sums_of, windows_of

Place = Store | str | os.PathLike[str]

_ATTEMPTS: Final = 20
_NEEDS_HISTOGRAM: Final = re.compile(r"histogram|.*_p\d\d")
_TEXTS: Final = pa.dictionary(pa.int32(), pa.string())
_T = TypeVar("_T")


def read_windows(
    place: Place,
    kind: WindowKind,
    width: str,
    since: datetime | None = None,
    until: datetime | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    *,
    with_dictionaries: bool = False,
) -> pa.Table:
    """The windows that begin in [since, until) and satisfy `where`, in the order of
    `kind.key_names`.

    `columns` are some of `kind.schema`, by default all. `with_dictionaries` gives texts as
    dictionaries and reads columns in parallel: a third of the CPU time, and of the time.
    """
    names = list(columns) if columns is not None else kind.names
    begin_s, end_s = _seconds(since), _seconds(until)
    schema = _schema(kind, names, with_dictionaries)

    def read(store: Store, manifest: Manifest) -> pa.Table:
        reader = _Reader(store, manifest, kind, width, begin_s, end_s, with_dictionaries)
        tables = [table.cast(schema) for table in reader.tables(names, where)]
        return pa.concat_tables([schema.empty_table(), *tables])

    found = _consistent(place, read)
    return schema.empty_table() if found is None else found


class Split(NamedTuple):
    """Windows for a reader of files: the others are not, or not completely, in visible files."""

    paths: list[str]
    """Visible files, in order, all of whose windows count, including those of other times."""
    others: list[pa.Table]
    """The windows of hours in deltas, or of files that are not in place yet."""


def split_windows(
    place: Place,
    kind: WindowKind,
    columns: Sequence[str],
    since: datetime | None = None,
    until: datetime | None = None,
) -> Split:
    """The narrowest windows of the hours that [since, until) touches."""

    def read(store: Store, manifest: Manifest) -> Split:
        reader = _Reader(store, manifest, kind, NARROWEST, _seconds(since), _seconds(until))
        return reader.split(list(columns))

    return _consistent(place, read) or Split([], [])


def days_by_width(place: Place, kind: WindowKind) -> dict[str, list[date]]:
    """The days with windows by width, in order; each list of a day is read once."""

    def read(store: Store, manifest: Manifest) -> dict[str, list[date]]:
        readers = {width: _Reader(store, manifest, kind, width) for width in WIDTHS_S}
        found = {width: {hour[:10] for hour in reader.waiting} for width, reader in readers.items()}
        for day in manifest.days:
            for file in read_day_list(store, manifest, day):
                path = parsed(file.path)
                if path is not None and path.kind == kind.name:
                    found[path.width].add(day)
        return {
            width: [date.fromisoformat(day) for day in sorted(days)]
            for width, days in found.items()
        }

    return _consistent(place, read) or {width: [] for width in WIDTHS_S}


def _consistent(place: Place, read: Callable[[Store, Manifest], _T]) -> _T | None:
    """The result of `read` for one state of the directory; None for an empty directory."""
    try:
        store = open_store(place) if isinstance(place, str | os.PathLike) else place
    except UnknownStore as problem:
        raise UnusableDirectory(str(problem)) from None
    manifest = _state(store)
    for _ in range(_ATTEMPTS):
        if manifest is None:
            return None
        problem_found: UnusableDirectory | None = None
        try:
            found = read(store, manifest)
        except UnusableDirectory as problem:
            problem_found = problem
        before, manifest = manifest, _state(store)
        if manifest == before:
            if problem_found is not None:
                raise problem_found
            return found
    raise UnusableDirectory(f"{store.shown()} changes faster than it can be read: try again")


def _state(store: Store) -> Manifest | None:
    manifest = read_manifest(store)
    if manifest is None:
        with in_words(store):
            if is_earlier(store):
                raise UnusableDirectory(
                    f"{store.shown()} was written by an earlier version: run `rollup` once"
                )
        return None
    return replace(manifest, writer="")  # the current writer does not matter


class _Reader:
    """Reads windows of one kind and width that begin in [begin_s, end_s)."""

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        kind: WindowKind,
        width: str,
        begin_s: int | None = None,
        end_s: int | None = None,
        with_dictionaries: bool = False,
    ) -> None:
        self._with_dictionaries = with_dictionaries
        self._store = store
        self._manifest = manifest
        self._kind = kind
        self._width = width
        self._begin_s = begin_s
        self._end_s = end_s
        self._drafts = {final: draft for draft, final in manifest.moves}
        self.waiting = {
            hour
            for delta in manifest.deltas
            if kind.name in delta.kinds
            for hour in delta.hours
            if manifest.keeps(width, hour[:10]) and self._is_wanted(*self._span_of(hour))
        }
        """The hours whose windows are, or may be, in deltas."""

    def tables(self, names: Sequence[str], where: pc.Expression | None) -> Iterator[pa.Table]:
        """The windows piece by piece, in order."""
        for paths, hours in self._pieces():
            if hours:
                table = self._together(paths, hours, _with_fields(names, where))
                yield (table if where is None else table.filter(where)).select(names)
            else:
                for path in paths:
                    yield self._read(path, names, where)

    def split(self, names: Sequence[str]) -> Split:
        found = Split([], [])
        for paths, hours in self._pieces():
            if hours:
                found.others.append(self._together(paths, hours, names).select(names))
                continue
            for path in paths:
                if path in self._drafts:
                    found.others.append(self._read(path, names, None))
                else:
                    found.paths.append(path)
        return found

    def _pieces(self) -> Iterator[tuple[list[str], list[str]]]:
        """Visible files in order of time, and the hours of deltas that may belong to their
        windows.
        """
        days = {*self._manifest.days, *(hour[:10] for hour in self.waiting)}
        for day in sorted(days):
            if not self._is_wanted(*day_span(day)):
                continue
            paths: dict[str, list[str]] = {}
            for path in self.paths_of(day):
                paths.setdefault(_hour_of(path), []).append(str(path))
            waiting: dict[str, list[str]] = {}
            for hour in sorted(self.waiting):
                if hour[:10] == day:
                    piece = hour if self._width in HOUR_WIDTHS else day
                    waiting.setdefault(piece, []).append(hour)
            for piece in sorted({*paths, *waiting}):
                yield sorted(paths.get(piece, [])), waiting.get(piece, [])

    def paths_of(self, day: str) -> list[VisiblePath]:
        """The visible files of a day."""
        listed = read_day_list(self._store, self._manifest, day)
        places = [parsed(file.path) for file in listed]
        return [
            place
            for place in places
            if place is not None
            and (place.kind, place.width) == (self._kind.name, self._width)
            and (self._width in DAY_WIDTHS or self._is_wanted(*self._span_of(_hour_of(place))))
        ]

    def _together(
        self, paths: Sequence[str], hours: Sequence[str], names: Sequence[str]
    ) -> pa.Table:
        """The windows of files and of these hours in deltas; columns not named may be null."""
        kind = self._kind
        if not any(map(_NEEDS_HISTOGRAM.fullmatch, names)):
            columns = (each for each in kind.columns if each.rule is not Rule.histogram)
            kind = kind._replace(columns=tuple(columns))
        parts = [sums_of(self._read(path, kind.sum_names, None), kind) for path in paths]
        # A window that begins within the period has no records from before it, and some from after.
        first_s = self._begin_s
        last_s = None if self._end_s is None else self._end_s + WIDTHS_S[self._width]
        for delta in self._manifest.deltas:
            is_early = first_s is not None and delta.last_s < first_s
            is_late = last_s is not None and delta.first_s >= last_s
            if kind.name not in delta.kinds or is_early or is_late:
                continue
            for hour in hours:
                if hour in delta.hours:
                    begin_s = start_of(hour)
                    found = read_delta(
                        self._store, delta.path, begin_s, begin_s + HOUR_S, kinds=[kind]
                    )
                    parts += found.values()
        if not parts:
            return self._kind.schema.empty_table()
        plain = [part.cast(_schema(kind, part.column_names)) for part in parts]
        sums = coarser(pa.concat_tables(plain), kind, self._width)
        if kind is not self._kind and "histogram" in self._kind.sum_names:
            nothing = pa.nulls(sums.num_rows, HISTOGRAM)
            sums = sums.append_column("histogram", nothing).select(self._kind.sum_names)
        windows = windows_of(sums, self._kind, self._width)
        return between(windows, self._begin_s, self._end_s)

    def _read(self, path: str, names: Sequence[str], where: pc.Expression | None) -> pa.Table:
        """The wanted windows in a file, or in its draft if it has not been moved yet."""
        if path in self._drafts:
            try:
                return self._read_file(self._drafts[path], names, where)
            except MissingFile:
                pass
        return self._read_file(path, names, where)

    def _read_file(self, path: str, names: Sequence[str], where: pc.Expression | None) -> pa.Table:
        with_dictionaries = self._with_dictionaries
        with opened(self._store, path, with_dictionaries=with_dictionaries) as file:
            table = file.read(_with_fields(names, where), self._begin_s, self._end_s)
            return (table if where is None else table.filter(where)).select(names)

    def _is_wanted(self, begin_s: int, end_s: int) -> bool:
        return (self._begin_s is None or end_s > self._begin_s) and (
            self._end_s is None or begin_s < self._end_s
        )

    def _span_of(self, hour: str) -> tuple[int, int]:
        """The span of the starts of windows with records of an hour."""
        begin_s = start_of(hour)
        if self._width in HOUR_WIDTHS:
            return begin_s, begin_s + HOUR_S
        begin_s -= begin_s % WIDTHS_S[self._width]
        return begin_s, begin_s + 1


def _hour_of(place: VisiblePath) -> str:
    """The hour of a file, or its day if it holds a day."""
    return place.day if place.width in DAY_WIDTHS else f"{place.day}T{place.unit[:2]}"


def _with_fields(names: Sequence[str], where: pc.Expression | None) -> list[str]:
    """The names, and the columns of a condition."""
    text = str(where)
    return list(dict.fromkeys([*names, *(name for name in WINDOW_SCHEMA.names if name in text)]))


def _schema(kind: WindowKind, names: Sequence[str], with_dictionaries: bool = False) -> pa.Schema:
    schema = kind.schema
    fields = [schema.field(name) for name in names]
    if with_dictionaries:
        fields = [
            field.with_type(_TEXTS) if field.name in DICTIONARIES else field for field in fields
        ]
    return pa.schema(fields)


def _seconds(time: datetime | None) -> int | None:
    """The first whole second that is not before a time."""
    if time is None:
        return None
    utc = time.astimezone(UTC)
    return int(utc.replace(microsecond=0).timestamp()) + (utc.microsecond > 0)
