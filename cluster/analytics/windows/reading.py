"""Reads windows for reports: visible files and deltas together, as one change left them.

A writer may be at work meanwhile. The manifest says which files belong together; if it has changed
once they are read, reading starts again. Every function raises UnusableDirectory.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.windows.commits import read_day_list, read_manifest
from cluster.analytics.windows.deltas import read_delta
from cluster.analytics.windows.earlier_version import is_earlier
from cluster.analytics.windows.kinds import WIDTHS_S, WindowKind
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
from cluster.analytics.windows.parquet_files import MissingFile, between, in_words, opened
from cluster.analytics.windows.store import Store, UnknownStore, open_store
from cluster.analytics.windows.window_sums import coarser, sums_of, windows_of

Place = Store | str | os.PathLike[str]

_ATTEMPTS: Final = 20
_T = TypeVar("_T")


def read_windows(
    place: Place,
    kind: WindowKind,
    width: str,
    since: datetime | None = None,
    until: datetime | None = None,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
) -> pa.Table:
    """The windows that begin in [since, until) and of which `where` holds, in the order of
    `kind.key_names`; `columns` of `kind.schema`, or all."""
    names = list(columns) if columns is not None else kind.names
    begin_s, end_s = _seconds(since), _seconds(until)

    def read(store: Store, manifest: Manifest) -> pa.Table:
        reader = _Reader(store, manifest, kind, width, begin_s, end_s)
        tables = list(reader.tables(names, where))
        return pa.concat_tables([_schema(kind, names).empty_table(), *tables])

    found = _consistent(place, read)
    return _schema(kind, names).empty_table() if found is None else found


def days_there(place: Place, kind: WindowKind, width: str) -> list[date]:
    """The days of which there are windows, in order."""

    def read(store: Store, manifest: Manifest) -> list[date]:
        reader = _Reader(store, manifest, kind, width)
        days = {day for day in manifest.days if reader.paths_of(day)}
        days |= {hour[:10] for hour in reader.waiting}
        return [date.fromisoformat(day) for day in sorted(days)]

    return _consistent(place, read) or []


def widths_there(place: Place, kind: WindowKind) -> list[str]:
    """The widths of which there are windows, narrowest first."""

    def read(store: Store, manifest: Manifest) -> list[str]:
        readers = {width: _Reader(store, manifest, kind, width) for width in WIDTHS_S}
        return [
            width
            for width, reader in readers.items()
            if reader.waiting or any(reader.paths_of(day) for day in manifest.days)
        ]

    return _consistent(place, read) or []


def _consistent(place: Place, read: Callable[[Store, Manifest], _T]) -> _T | None:
    """What `read` makes of one state of the directory; None if nothing is there."""
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
    return replace(manifest, writer="")  # who has it open changes nothing


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
    ) -> None:
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
        days = {*self._manifest.days, *(hour[:10] for hour in self.waiting)}
        for day in sorted(days):
            if not self._is_wanted(*day_span(day)):
                continue
            pieces: dict[str, list[str]] = {}
            for path in self.paths_of(day):
                pieces.setdefault(_hour_of(path), []).append(str(path))
            waiting: dict[str, list[str]] = {}
            for hour in sorted(self.waiting):
                if hour[:10] == day:
                    piece = hour if self._width in HOUR_WIDTHS else day
                    waiting.setdefault(piece, []).append(hour)
            for piece in sorted({*pieces, *waiting}):
                paths = sorted(pieces.get(piece, []))
                if piece in waiting:
                    table = self._together(paths, waiting[piece])
                    yield (table if where is None else table.filter(where)).select(names)
                else:
                    for each in paths:
                        yield self._read(each, names, where)

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

    def _together(self, paths: Sequence[str], hours: Sequence[str]) -> pa.Table:
        """The windows of files and of these hours in deltas."""
        kind = self._kind
        parts = [sums_of(self._read(path, kind.sum_names, None), kind) for path in paths]
        for delta in self._manifest.deltas:
            if kind.name not in delta.kinds:
                continue
            for hour in hours:
                if hour in delta.hours:
                    begin_s = start_of(hour)
                    found = read_delta(
                        self._store, delta.path, begin_s, begin_s + HOUR_S, kinds=[kind]
                    )
                    parts += found.values()
        if not parts:
            return kind.schema.empty_table()
        sums = coarser(pa.concat_tables(parts), kind, self._width)
        windows = windows_of(sums, kind, self._width)
        return between(windows, self._begin_s, self._end_s)

    def _read(self, path: str, names: Sequence[str], where: pc.Expression | None) -> pa.Table:
        """The wanted windows in a file, from its draft if it has not been moved yet."""
        if path in self._drafts:
            try:
                return self._read_file(self._drafts[path], names, where)
            except MissingFile:
                pass
        return self._read_file(path, names, where)

    def _read_file(self, path: str, names: Sequence[str], where: pc.Expression | None) -> pa.Table:
        with opened(self._store, path) as file:
            if where is None:
                return file.read(names, self._begin_s, self._end_s)
            return (
                file.read(self._kind.names, self._begin_s, self._end_s).filter(where).select(names)
            )

    def _is_wanted(self, begin_s: int, end_s: int) -> bool:
        return (self._begin_s is None or end_s > self._begin_s) and (
            self._end_s is None or begin_s < self._end_s
        )

    def _span_of(self, hour: str) -> tuple[int, int]:
        """Where windows begin to which records of an hour belong."""
        begin_s = start_of(hour)
        if self._width in HOUR_WIDTHS:
            return begin_s, begin_s + HOUR_S
        begin_s -= begin_s % WIDTHS_S[self._width]
        return begin_s, begin_s + 1


def _hour_of(place: VisiblePath) -> str:
    """The hour of a file, or its day if it holds a day."""
    return place.day if place.width in DAY_WIDTHS else f"{place.day}T{place.unit[:2]}"


def _schema(kind: WindowKind, names: Sequence[str]) -> pa.Schema:
    return pa.schema([kind.schema.field(name) for name in names])


def _seconds(time: datetime | None) -> int | None:
    """The first whole second that is not before a time."""
    if time is None:
        return None
    utc = time.astimezone(UTC)
    return int(utc.replace(microsecond=0).timestamp()) + (utc.microsecond > 0)
