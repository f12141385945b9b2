"""The tasks that merge what a directory holds, and the files that a change removes. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from cluster.analytics.windows.commits import Change
from cluster.analytics.windows.layout import DAY_WIDTHS, HOUR_WIDTHS, parsed, units_of
from cluster.analytics.windows.manifest import DeltaFile, Manifest, VisibleFile
from cluster.analytics.windows.merge import DayTask, HourTask, MergeTask

UNIT_ROWS: Final = 500_000
"""An hour with more rows, in deltas and in its files, is merged in slices: this bounds the memory
of a task."""
_SLICES: Final = [count for count in range(1, 61) if 60 % count == 0]


def hour_tasks(
    manifest: Manifest, hour: str, rows: int, visible: Sequence[VisibleFile]
) -> list[HourTask]:
    """The tasks that merge an hour with this many rows in deltas; `visible` are the files of its
    day.

    The slices of an hour with files stay the same, or each of them is cut.
    """
    widths = _widths(manifest, hour[:10], HOUR_WIDTHS)
    former = manifest.hours.get(hour, 1) if has_hour(visible, hour) else 1
    rows += sum(file.rows for file in visible if _is_in(file, widths[:1], hour))
    possible = [count for count in _SLICES if count % former == 0]
    slices = next((count for count in possible if rows <= count * UNIT_ROWS), possible[-1])
    files_of = [unit.name for unit in units_of(hour, former) for _ in range(slices // former)]
    return [
        HourTask(
            manifest.change + 1,
            _cluster_id(manifest),
            unit,
            widths,
            visible=_paths(visible, widths[:1], name),
            deltas=tuple(
                delta.path
                for delta in manifest.deltas
                if hour in delta.hours
                and delta.first_s < unit.end_s
                and delta.last_s >= unit.begin_s
            ),
        )
        for unit, name in zip(units_of(hour, slices), files_of, strict=True)
    ]


def day_task(
    manifest: Manifest,
    day: str,
    sums: dict[str, list[str]],
    visible: Sequence[VisibleFile],
    *,
    is_added: bool = False,
) -> DayTask:
    """The task that writes the wider windows of a day.

    `sums` has the files that each written hour passes on, `visible` are the files of the day; for
    `is_added` see `DayTask`.
    """
    widths = _widths(manifest, day, DAY_WIDTHS)
    return DayTask(
        manifest.change + 1,
        _cluster_id(manifest),
        day,
        hours=tuple(sorted(sums)),
        is_added=is_added,
        sums={hour: tuple(paths) for hour, paths in sorted(sums.items()) if paths},
        widths=widths,
        visible=_paths(visible, widths[:1]),
    )


def put_in_place(
    change: Change,
    day: str,
    visible: Sequence[VisibleFile],
    tasks: Iterable[MergeTask],
    written: Iterable[VisibleFile],
) -> None:
    """Replace the files of a day by those of tasks, and keep the others."""
    of_day = [task for task in tasks if day_of(task) == day]
    change.days[day] = [
        *(file for file in visible if not _is_replaced(file, of_day)),
        *(file for file in written if f"/day={day}/" in file.path),
    ]


def drop_hours(change: Change, is_dropped: Callable[[str, str], bool]) -> None:
    """Drop hours of deltas, by path and hour; deltas without hours are removed."""
    kept = []
    for delta in change.manifest.deltas:
        hours = {
            hour: rows for hour, rows in delta.hours.items() if not is_dropped(delta.path, hour)
        }
        if hours:
            kept.append(delta._replace(hours=hours))
        else:
            change.removals.append(delta.path)
    change.manifest = replace(change.manifest, deltas=tuple(kept))


def rows_by_hour(deltas: Iterable[DeltaFile]) -> Counter[str]:
    """The number of rows of each hour in deltas."""
    rows: Counter[str] = Counter()
    for delta in deltas:
        rows.update(delta.hours)
    return rows


def has_hour(files: Iterable[VisibleFile], hour: str) -> bool:
    """Whether an hour is among the files of its day."""
    return any(_is_in(file, HOUR_WIDTHS, hour) for file in files)


def day_of(task: MergeTask) -> str:
    """The day whose windows a task writes."""
    return task.day if isinstance(task, DayTask) else task.unit.day


def _widths(manifest: Manifest, day: str, among: Iterable[str]) -> tuple[str, ...]:
    return tuple(width for width in among if manifest.keeps(width, day))


def _cluster_id(manifest: Manifest) -> str | None:
    return manifest.progress.cluster_id if manifest.progress else None


def _paths(
    files: Iterable[VisibleFile], widths: Sequence[str], unit: str | None = None
) -> tuple[str, ...]:
    """The paths of the files with these widths and of this unit."""
    found = []
    for file in files:
        place = parsed(file.path)
        if place is not None and place.width in widths and unit in (None, place.unit):
            found.append(file.path)
    return tuple(sorted(found))


def _is_in(file: VisibleFile, widths: Sequence[str], hour: str) -> bool:
    """Whether a file of the day has windows of the hour, with one of these widths, which have files
    for each hour.
    """
    place = parsed(file.path)
    return place is not None and place.width in widths and place.unit[:2] == hour[11:]


def _is_replaced(file: VisibleFile, tasks: Iterable[MergeTask]) -> bool:
    """Whether these tasks of its day, which cover whole hours, rewrote its windows."""
    place = parsed(file.path)
    return place is not None and any(
        place.width in task.widths
        and (isinstance(task, DayTask) or _is_in(file, HOUR_WIDTHS, task.unit.hour))
        for task in tasks
    )
