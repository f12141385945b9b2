"""The directory of windows for its only writer: its content and its changes.

Each method makes one atomic change (`commits.py`). Records of a topic arrive as deltas, which count
together with the progress that names them; merges turn them into files that any reader of Parquet
understands.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from cluster.analytics.windows.commits import Change, Commits
from cluster.analytics.windows.deltas import PieceResult
from cluster.analytics.windows.earlier_version import is_earlier, take_over
from cluster.analytics.windows.layout import (
    HOUR_S,
    HOUR_WIDTHS,
    parsed,
    start_of,
)
from cluster.analytics.windows.manifest import Manifest, Progress, VisibleFile
from cluster.analytics.windows.merge import DayTask, HourTask, MergeResult, MergeTask
from cluster.analytics.windows.merge_plans import (
    day_of,
    day_task,
    drop_hours,
    has_hour,
    hour_tasks,
    put_in_place,
    rows_by_hour,
)
from cluster.analytics.windows.parquet_files import in_words
from cluster.analytics.windows.quarantine import quarantine_lines
from cluster.analytics.windows.repair import repaired
from cluster.analytics.windows.store import Store
from cluster.analytics.windows.widths import NARROWEST, WIDTHS_S

LATE_AFTER: Final = timedelta(minutes=1)
"""A record is late if its window began this long before the newest stored window."""


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding."""

    counts: Mapping[str, int]
    """Records by kind."""
    rejected: Mapping[str, int]
    """Records that are in no window, by reason."""
    late: int
    lost: int
    rows: int
    """Rows of deltas."""
    first: datetime | None
    """The start of the first window that records were added to."""
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging."""

    units: int
    """Hours, or slices of them."""
    windows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Windows in the written files, by kind of record and width."""


RunMerges = Callable[[Sequence[MergeTask]], Sequence[MergeResult]]
"""Carries out tasks, each by `run_merge`, and returns the results in their order."""


class WindowDirectory:
    """The windows in a store. `open` creates it; only one process may have it open until `close`.

    Methods raise UnusableDirectory, and then leave the windows as before or after the change.
    """

    def __init__(self, commits: Commits, held: ExitStack) -> None:
        self._commits = commits
        self._held = held

    @classmethod
    def open(cls, store: Store) -> Self:
        """Lock the directory, finish what a killed process began, and take over version 1.

        Raises UnusableDirectory, and InUse if another process has it open; without locks in the
        store that shows later (`Commits`).
        """
        with ExitStack() as held:
            with in_words(store):
                held.enter_context(store.lock())
            commits = Commits(store)
            commits.begin()
            with in_words(store):
                is_earlier_version = commits.manifest == Manifest() and is_earlier(store)
            if is_earlier_version:
                take_over(commits)
            return cls(commits, held.pop_all())

    def close(self) -> None:
        """Let others open the directory."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def store(self) -> Store:
        """The place of the windows."""
        return self._commits.store

    @property
    def manifest(self) -> Manifest:
        """The content of the directory."""
        return self._commits.manifest

    @property
    def next_change(self) -> int:
        """The number of the change that deltas are named after (`layout.delta_path`)."""
        return self.manifest.change + 1

    def append(self, results: Sequence[PieceResult], progress: Progress) -> Added:
        """Let deltas count, together with their position. Changes nothing without new ones."""
        self._commits.make_sure()
        before = self.manifest
        deltas = [delta for result in results for delta in result.deltas]
        lines = [line for result in results for line in result.quarantined]
        last = max((delta.last_s for delta in deltas), default=None)
        if deltas or lines or progress != before.progress:
            change = Change(
                replace(
                    before,
                    progress=progress,
                    newest_s=_highest(before.newest_s, last),
                    deltas=(*before.deltas, *deltas),
                )
            )
            drop_hours(change, lambda _, hour: self._is_forgotten(change.manifest, hour))
            self._quarantine(change, lines)
            self._commits.commit(change)
        return Added(
            _total(result.counts for result in results),
            _total(result.rejected for result in results),
            sum(result.late for result in results),
            sum(result.lost for result in results),
            sum(delta.rows for delta in deltas),
            _time(min((delta.first_s for delta in deltas), default=None)),
            _time(last),
        )

    def merges(
        self,
        everything: bool = False,
        *,
        watermark: timedelta = LATE_AFTER,
        with_late: bool = True,
    ) -> list[HourTask]:
        """The tasks that make deltas visible: for hours that the watermark closes, or with
        `everything` for all.

        `with_late` says whether hours that were merged before are due again.
        """
        self._commits.make_sure()
        rows = rows_by_hour(self.manifest.deltas)
        closed = closed_until(self.manifest.newest_s, watermark)
        tasks: list[HourTask] = []
        for hour in sorted(rows):
            is_closed = closed is not None and start_of(hour) + HOUR_S <= closed.timestamp()
            if everything or is_closed:
                visible = self._commits.files_of(hour[:10])
                if everything or with_late or not has_hour(visible, hour):
                    tasks += hour_tasks(self.manifest, hour, rows[hour], visible)
        return tasks

    def reread_merges(self, results: Sequence[PieceResult]) -> list[HourTask]:
        """The tasks for deltas of everything in the topic, which do not count yet.

        Of each window the version made from more records is kept. See `merged`.
        """
        self._commits.make_sure()
        reread = [delta for result in results for delta in result.deltas]
        rows = rows_by_hour([*self.manifest.deltas, *reread])
        return [
            task._replace(reread=tuple(delta.path for delta in reread if hour in delta.hours))
            for hour in sorted({hour for delta in reread for hour in delta.hours})
            if self.manifest.keeps(NARROWEST, hour[:10])
            for task in hour_tasks(
                self.manifest, hour, rows[hour], self._commits.files_of(hour[:10])
            )
        ]

    def day_merges(
        self, tasks: Sequence[HourTask], results: Sequence[MergeResult]
    ) -> list[DayTask]:
        """The second step of merges: the tasks for the days of hours that are written."""
        by_day: dict[str, dict[str, list[str]]] = {}
        added = {task.unit.day for task in tasks if NARROWEST not in task.widths}
        for task, result in zip(tasks, results, strict=True):
            sums = by_day.setdefault(task.unit.day, {}).setdefault(task.unit.hour, [])
            sums += [result.sums] if result.sums else []
        return [
            day_task(self.manifest, day, hours, self._commits.files_of(day), is_added=day in added)
            for day, hours in sorted(by_day.items())
        ]

    def merged(
        self,
        tasks: Sequence[MergeTask],
        results: Sequence[MergeResult],
        *,
        progress: Progress | None = None,
        read: Sequence[PieceResult] = (),
    ) -> Merged:
        """Put in place what both steps of merges wrote.

        After `reread_merges`, `read` is its argument, and `progress` the position in the topic.
        """
        self._commits.make_sure()
        before = self.manifest
        units = [task for task in tasks if isinstance(task, HourTask)]
        taken = {(path, task.unit.hour) for task in units for path in task.deltas}
        made = [file for result in results for file in result.files]
        # Windows that were removed since the merge was planned stay removed.
        new = [file for file in made if _is_kept(file.final, before)]
        reread = [delta for result in read for delta in result.deltas]
        newest_s = max((delta.last_s for delta in reread), default=None)
        sliced = {each.unit.hour: 60 // each.unit.minutes for each in units}
        change = Change(
            replace(
                before,
                progress=progress or before.progress,
                newest_s=_highest(before.newest_s, newest_s),
                hours={
                    hour: slices
                    for hour, slices in {**before.hours, **sliced}.items()
                    if slices > 1
                },
            ),
            moves=[(file.draft, file.final) for file in new],
            removals=[
                *(result.sums for result in results if result.sums),
                *(file.draft for file in made if not _is_kept(file.final, before)),
                *(delta.path for delta in reread),
            ],
        )
        drop_hours(change, lambda path, hour: (path, hour) in taken)
        written = [VisibleFile(file.final, file.rows, file.bytes) for file in new]
        for day in sorted({day_of(task) for task in tasks}):
            put_in_place(change, day, self._commits.files_of(day), tasks, written)
        self._quarantine(change, [line for result in read for line in result.quarantined])
        self._commits.commit(change)
        return Merged(len(units), _windows_in(written))

    def merge(
        self,
        run: RunMerges,
        everything: bool = False,
        *,
        watermark: timedelta = LATE_AFTER,
        with_late: bool = True,
    ) -> list[Merged]:
        """Carry out both steps of `merges`: one change for each day."""
        due = self.merges(everything, watermark=watermark, with_late=with_late)
        found = []
        for _, of_day in itertools.groupby(due, lambda task: task.unit.day):
            hours = list(of_day)
            results = run(hours)
            days = self.day_merges(hours, results)
            found.append(self.merged([*hours, *days], [*results, *run(days)]))
        return found

    def forget(self, keep: Mapping[str, timedelta], today: date) -> int:
        """Remove windows of days beyond their age, by width, and files of quarantined records like
        the narrowest.

        Returns the number of files removed. Raises ValueError if windows are to be kept for a
        shorter time than narrower ones.
        """
        self._commits.make_sure()
        spans = [keep.get(width, timedelta.max) for width in WIDTHS_S]
        if spans != sorted(spans):
            raise ValueError("windows must be kept at least as long as narrower ones")
        before = self.manifest
        limits = {
            width: max(_day_before(today, span), before.forgotten.get(width, ""))
            for width, span in keep.items()
        }
        change = Change(replace(before, forgotten={**before.forgotten, **limits}))
        oldest = limits.get(NARROWEST, "")
        expired = [each for each in before.quarantined if each.day < oldest]
        gone = len(expired)
        for day in before.days:
            files = self._commits.files_of(day)
            kept = [file for file in files if _is_kept(file.path, change.manifest)]
            gone += len(files) - len(kept)
            if kept != files:
                change.days[day] = kept
        drop_hours(change, lambda _, hour: self._is_forgotten(change.manifest, hour))
        change.removals += [each.path for each in expired]
        change.manifest = replace(
            change.manifest,
            quarantined=tuple(each for each in before.quarantined if each not in expired),
            hours={
                hour: slices
                for hour, slices in before.hours.items()
                if any(change.manifest.keeps(width, hour[:10]) for width in HOUR_WIDTHS)
            },
        )
        if gone or change.manifest.deltas != before.deltas:
            self._commits.commit(change)
        return gone

    def repair(self, now: datetime) -> dict[str, int]:
        """Remove impossible windows, which begin later than 10 min from now, or before 2020.

        Returns the number of removed rows of all files, by kind of record.
        """
        self._commits.make_sure()
        change, gone = repaired(self._commits, now)
        if gone:
            self._commits.commit(change)
        return gone

    def _is_forgotten(self, manifest: Manifest, hour: str) -> bool:
        return not any(manifest.keeps(width, hour[:10]) for width in WIDTHS_S)

    def _quarantine(self, change: Change, lines: Sequence[str]) -> None:
        today = datetime.now(UTC).date().isoformat()
        quarantine_lines(self.store, change, self.next_change, lines, today)


def closed_until(newest_s: int | None, watermark: timedelta) -> datetime | None:
    """The time before which windows of the narrowest width are closed.

    These began longer than the watermark before the newest. None without windows.
    """
    if newest_s is None:
        return None
    width_s = WIDTHS_S[NARROWEST]
    spans = -((int(watermark.total_seconds()) - newest_s) // width_s)
    return datetime.fromtimestamp(spans * width_s, UTC)


def _is_kept(path: str, manifest: Manifest) -> bool:
    place = parsed(path)
    return place is None or manifest.keeps(place.width, place.day)


def _windows_in(files: Iterable[VisibleFile]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for file in files:
        place = parsed(file.path)
        if place is not None:
            of_kind = found.setdefault(place.kind, {})
            of_kind[place.width] = of_kind.get(place.width, 0) + file.rows
    return found


def _day_before(today: date, span: timedelta) -> str:
    """The first day that did not end that long ago, at any time of today."""
    try:
        return (today + -span // timedelta(days=1) * timedelta(days=1)).isoformat()
    except OverflowError:
        return date.min.isoformat()


def _total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _highest(*times: int | None) -> int | None:
    return max((each for each in times if each is not None), default=None)


def _time(seconds: int | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
