"""A directory of windows that grows: sums of new records go in together with how far they reach.

`progress.json` says up to which offset of each partition the windows hold the topic's records. It
is put in place with the windows as one change (`file_changes.py`), so that after a crash anywhere
each record is in the windows once, or is read again.
"""

import bisect
import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.file_changes import FileChanges, finish
from cluster.analytics.metric_rows import LATE
from cluster.analytics.window_files import (
    NARROWEST,
    WHOLE_DAY,
    WIDTHS_S,
    WINDOW_KINDS,
    WindowKind,
    days_there,
    early_path,
    hours_in,
    hours_of,
    paths_of_day,
    piece_path,
    read_files,
    window_writer,
)
from cluster.analytics.window_sums import (
    ASIDE,
    fuller,
    of_kind,
    sums_of_windows,
    windows_of_sums,
)

LATE_AFTER: Final = timedelta(minutes=1)
"""A record is late if its window began so long before the newest window of an earlier run."""
ASIDE_BYTES: Final = 64 << 20
"""What is put aside never holds more; the oldest goes."""
_ASIDE_SMALL: Final = 256 << 10
"""A file of records put aside is added to until it is this large."""
_PROGRESS: Final = "progress.json"
_ASIDE: Final = "aside"
_ANEW: Final = ".anew"
"""Where `computed_anew` keeps windows. No reader looks there."""
_VERSION: Final = 1


class UnknownProgress(Exception):
    """The directory's `progress.json` cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Which records the windows of a directory hold: of each partition all below its offset."""

    topic: str
    topic_id: str | None
    """Differs once a topic was deleted and made again; None if the cluster does not tell."""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """By partition the first offset that is not in the windows."""
    changes: int = 0
    """How often windows were added."""
    newest_s: int | None = None
    """The start of the newest window, in seconds since 1970."""

    def as_json(self) -> dict[str, Any]:
        """The document that is stored."""
        return {
            "version": _VERSION,
            "topic": self.topic,
            "topic_id": self.topic_id,
            "offsets": {str(number): self.offsets[number] for number in sorted(self.offsets)},
            "changes": self.changes,
            "newest_window": self.newest_s,
        }


@dataclass(frozen=True, slots=True)
class Added:
    """What one change added."""

    windows: dict[str, dict[str, int]]
    """Windows that it touched, by kind of record and width; without kinds that have none."""
    counts: dict[str, int]
    """Records by kind."""
    late: int = 0
    """Records of windows that began more than LATE_AFTER before the newest of an earlier change."""
    first: datetime | None = None
    last: datetime | None = None


class RollupOutput:
    """The windows in a directory. Only one process may have it open (`sole_writer`)."""

    def __init__(self, directory: Path) -> None:
        """Finish what a killed process began. Raises OSError, UnknownProgress."""
        self.directory = directory
        try:
            finish(directory)
        except (ValueError, TypeError, KeyError):
            raise UnknownProgress(f"{directory / '.drafts'} is damaged: remove it") from None
        self.progress = read_progress(directory)

    @property
    def has_early_files(self) -> bool:
        """Whether a version that did not keep its progress has written here."""
        return self.progress is None and any(
            days_there(self.directory, kind) for kind in WINDOW_KINDS
        )

    def add(self, sums: pa.Table, progress: Progress, *, late: timedelta = LATE_AFTER) -> Added:
        """Add sums (SUMS_SCHEMA) of the records between the present progress and the given one.

        Records of windows that `closed_until` says are closed count as late. Raises OSError,
        pa.ArrowException.
        """
        closed = closed_until(self.progress, late)
        windows: dict[str, dict[str, int]] = {}
        starts = []
        late_records = 0
        with FileChanges(self.directory) as changes:
            for kind in WINDOW_KINDS:
                found = of_kind(sums, kind)
                if not found.num_rows:
                    continue
                self._write(changes, kind, _Table(found), _both)
                windows[kind.name] = {width: _touched(found, kind, width) for width in WIDTHS_S}
                starts.append(pc.min_max(found["window_start"]).as_py())
                late_records += _late(found, closed)
            first = min((each["min"] for each in starts), default=None)
            last = max((each["max"] for each in starts), default=None)
            done = _after(self.progress, progress, int(last.timestamp()) if last else None)
            self._put_aside(changes, done, _aside_lines(sums))
            changes.write_json(self.directory / _PROGRESS, done.as_json())
        self.progress = done
        return Added(windows, _counts(sums), late_records, first, last)

    @contextmanager
    def computed_anew(self) -> Iterator["RollupOutput"]:
        """An empty output for `take_over`, which goes at the end of the block."""
        shutil.rmtree(self.directory / _ANEW, ignore_errors=True)  # of a process that was killed
        try:
            yield RollupOutput(self.directory / _ANEW)
        finally:
            shutil.rmtree(self.directory / _ANEW, ignore_errors=True)

    def take_over(self, anew: "RollupOutput") -> None:
        """Let windows of `anew`, which holds all that the topic does, replace those that are made
        of no more records; other windows stay. Raises OSError, pa.ArrowException.

        Memory is needed for an hour of windows at a time.
        """
        if anew.progress is None:
            return
        done = _after(self.progress, anew.progress, anew.progress.newest_s)
        with FileChanges(self.directory) as changes:
            for kind in WINDOW_KINDS:
                self._write(changes, kind, _Directory(anew.directory, kind), fuller)
            kept_aside = (anew.directory / _ASIDE).glob("*.jsonl")
            lines = [line for path in sorted(kept_aside) for line in path.read_text().splitlines()]
            self._put_aside(changes, done, lines)
            changes.write_json(self.directory / _PROGRESS, done.as_json())
        self.progress = done

    def compact(self) -> int:
        """Join the hours of every day but the newest to one file. Returns how many files went.

        Raises OSError, pa.ArrowException.
        """
        gone = 0
        for kind in WINDOW_KINDS:
            for width in WIDTHS_S:
                for day in days_there(self.directory, kind, width)[:-1]:
                    gone += self._compact_day(kind, width, day)
        return gone

    def forget(self, before: date) -> int:
        """Remove the windows of all days before this one. Returns how many files went. OSError."""
        limit_s = datetime(before.year, before.month, before.day, tzinfo=UTC).timestamp()
        gone = [
            path
            for kind in WINDOW_KINDS
            for width in WIDTHS_S
            for day in days_there(self.directory, kind, width)
            if day < before
            for path in paths_of_day(self.directory, kind, width, day)
        ]
        gone += [
            path
            for path in (self.directory / _ASIDE).glob("*.jsonl")
            if path.stat().st_mtime < limit_s
        ]
        with FileChanges(self.directory) as changes:
            for path in gone:
                changes.remove(path)
        return len(gone)

    def _compact_day(self, kind: WindowKind, width: str, day: date) -> int:
        paths = paths_of_day(self.directory, kind, width, day)
        whole = piece_path(self.directory, kind, width, day, WHOLE_DAY)
        hours = [path for path in whole.parent.glob("*.parquet") if path != whole]
        if not hours:
            return 0
        with FileChanges(self.directory) as changes:
            if paths != [whole]:
                schema = kind.stored_schema if width == NARROWEST else kind.schema
                with window_writer(changes.draft_of(whole), kind, width) as writer:
                    for path in paths:
                        writer.write_table(read_files([path], schema))
            for path in hours:
                changes.remove(path)
        return len(hours)

    def _put_aside(self, changes: FileChanges, done: Progress, lines: list[str]) -> None:
        """Write lines to a file of this change, as many as fit; the oldest files go where there are
        too many.

        A small file of the same day is taken into the new one: a rollup that follows may put
        something aside every second.
        """
        if not lines:
            return
        written = [f"{line}\n".encode() for line in lines]
        ends = list(itertools.accumulate(map(len, written)))
        fitting = bisect.bisect_right(ends, ASIDE_BYTES)
        place = self.directory / _ASIDE / f"{done.changes:08}.jsonl"
        files = sorted((self.directory / _ASIDE).glob("*.jsonl"))
        earlier = b""
        if files and _is_small_of_today(files[-1], ASIDE_BYTES - ends[-1]):
            earlier = files[-1].read_bytes()
            changes.remove(files.pop())
        changes.draft_of(place).write_bytes(earlier + b"".join(written[:fitting]))
        held = len(earlier) + (ends[fitting - 1] if fitting else 0)
        for path in reversed(files):
            held += path.stat().st_size
            if held > ASIDE_BYTES:
                changes.remove(path)

    def _write(
        self,
        changes: FileChanges,
        kind: WindowKind,
        new: "_Sums",
        joined: Callable[[pa.Table, pa.Table, WindowKind], pa.Table],
    ) -> None:
        """Write the pieces in which new sums lie, of all widths, hour by hour: in each what
        `joined` makes of the sums that are stored and the new ones."""
        for day, piece, hours in self._pieces(kind, new.hours):
            paths = self._stored(changes, kind, day, piece)
            wanted = sorted({*hours, *hours_in(paths)}) if piece == WHOLE_DAY else hours
            with ExitStack() as open_files:
                writers = {
                    width: open_files.enter_context(
                        window_writer(
                            changes.draft_of(piece_path(self.directory, kind, width, day, piece)),
                            kind,
                            width,
                        )
                    )
                    for width in WIDTHS_S
                }
                for hour in wanted:
                    stored = read_files(paths, kind.stored_schema, hour)
                    sums = joined(sums_of_windows(stored, kind), new.of_hour(hour), kind)
                    for width, table in windows_of_sums(sums, kind).items():
                        writers[width].write_table(table)

    def _pieces(
        self, kind: WindowKind, hours: Iterable[datetime]
    ) -> Iterator[tuple[date, str, list[datetime]]]:
        """The files in which the windows of hours, given in order, belong."""
        by_day = {
            day: list(found) for day, found in itertools.groupby(hours, lambda hour: hour.date())
        }
        newest = max([*by_day, *days_there(self.directory, kind)[-1:]], default=None)
        for day, of_day in by_day.items():
            paths = paths_of_day(self.directory, kind, NARROWEST, day)
            whole = piece_path(self.directory, kind, NARROWEST, day, WHOLE_DAY)
            early = early_path(self.directory, kind, NARROWEST, day)
            if paths in ([whole], [early]) or (not paths and day != newest):
                yield day, WHOLE_DAY, of_day
            else:
                for hour in of_day:
                    yield day, f"{hour.hour:02}", [hour]

    def _stored(self, changes: FileChanges, kind: WindowKind, day: date, piece: str) -> list[Path]:
        """The files of a piece as it is; an early file of the day goes with this change."""
        paths = [piece_path(self.directory, kind, NARROWEST, day, piece)]
        if piece == WHOLE_DAY and not paths[0].exists():
            paths = [early_path(self.directory, kind, NARROWEST, day)]
            for width in WIDTHS_S:
                early = early_path(self.directory, kind, width, day)
                if early.exists():
                    changes.remove(early)
        return [path for path in paths if path.exists()]


class _Sums(Protocol):
    """Sums of one kind that are to be stored."""

    hours: list[datetime]
    """In order."""

    def of_hour(self, hour: datetime) -> pa.Table:
        """Those of windows in one hour; empty if there are none."""


class _Table:
    """Sums that are in memory."""

    def __init__(self, sums: pa.Table) -> None:
        self._sums = sums
        self._hours = pc.floor_temporal(sums["window_start"], unit="hour")
        self.hours = hours_of(sums["window_start"])

    def of_hour(self, hour: datetime) -> pa.Table:
        """See _Sums."""
        return self._sums.filter(pc.equal(self._hours, pa.scalar(hour, self._hours.type)))


class _Directory:
    """Sums that windows of the narrowest width in a directory are made of, added up."""

    def __init__(self, directory: Path, kind: WindowKind) -> None:
        self._kind = kind
        days = days_there(directory, kind)
        self._paths = {day: paths_of_day(directory, kind, NARROWEST, day) for day in days}
        self.hours = [hour for day in days for hour in hours_in(self._paths[day])]

    def of_hour(self, hour: datetime) -> pa.Table:
        """See _Sums. Raises OSError, pa.ArrowInvalid."""
        paths = self._paths.get(hour.date(), [])
        return sums_of_windows(read_files(paths, self._kind.stored_schema, hour), self._kind)


def closed_until(progress: Progress | None, late: timedelta) -> datetime | None:
    """Windows of the narrowest width that began before this are closed, because they began longer
    than `late` before the newest. None if there are no windows."""
    if progress is None or progress.newest_s is None:
        return None
    width_s = WIDTHS_S[NARROWEST]
    spans = -((int(late.total_seconds()) - progress.newest_s) // width_s)
    return datetime.fromtimestamp(spans * width_s, UTC)


def read_progress(directory: Path) -> Progress | None:
    """The progress that is stored in a directory of windows; None if there is none.

    Raises OSError, UnknownProgress.
    """
    path = directory / _PROGRESS
    try:
        found = json.loads(path.read_text())
        if found["version"] != _VERSION:
            raise UnknownProgress(f"{path} is of version {found['version']}, not {_VERSION}")
        return Progress(
            topic=found["topic"],
            topic_id=found["topic_id"],
            offsets={int(number): int(offset) for number, offset in found["offsets"].items()},
            changes=int(found["changes"]),
            newest_s=found["newest_window"],
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UnknownProgress(f"{path} is damaged") from None


def _after(before: Progress | None, reached: Progress, newest_s: int | None) -> Progress:
    """The progress to be stored with windows of which the latest begins at `newest_s`."""
    known = [before.newest_s, newest_s] if before else [newest_s]
    newest = max((each for each in known if each is not None), default=None)
    number = 1 + (before.changes if before else 0)
    return replace(reached, changes=number, newest_s=newest)


def _both(stored: pa.Table, new: pa.Table, _kind: WindowKind) -> pa.Table:
    return pa.concat_tables([stored, new])


def _touched(sums: pa.Table, kind: WindowKind, width: str) -> int:
    keys = kind.key_names[1:]
    starts = pc.cast(sums["window_start"], pa.int64())
    numbers = pc.divide(starts, WIDTHS_S[width] * 1_000_000)
    found = sums.select(keys).append_column("number", numbers)
    return int(found.group_by([*keys, "number"]).aggregate([]).num_rows)


def _late(found: pa.Table, closed: datetime | None) -> int:
    if closed is None:
        return 0
    is_late = pc.less(found["window_start"], pa.scalar(closed, found["window_start"].type))
    return int(pc.sum(found.filter(is_late)["records"]).as_py() or 0)


def _counts(sums: pa.Table) -> dict[str, int]:
    found = sums.filter(pc.not_equal(sums["kind"], LATE)).group_by("kind")
    found = found.aggregate([("records", "sum")])
    return dict(zip(found["kind"].to_pylist(), found["records_sum"].to_pylist(), strict=True))


def _is_small_of_today(path: Path, most: int) -> bool:
    """Whether a file of records put aside may still grow, by which it has at most so many bytes."""
    found = path.stat()
    is_of_today = datetime.fromtimestamp(found.st_mtime, UTC).date() == datetime.now(UTC).date()
    return is_of_today and found.st_size <= min(_ASIDE_SMALL, most)


def _aside_lines(sums: pa.Table) -> list[str]:
    rows = sums.filter(pc.is_valid(sums[ASIDE]))[ASIDE].to_pylist()
    return [line for lines in rows for line in lines]
