"""A directory of windows that grows: sums of new records go in together with how far they reach.

`progress.json` says up to which offset of each partition the windows hold the topic's records. It
is put in place with the windows as one change (`file_changes.py`), so that after a crash anywhere
each record is in the windows once, or is read again.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cluster.analytics.file_changes import FileChanges, finish
from cluster.analytics.metric_rows import REJECTED
from cluster.analytics.window_files import (
    NARROWEST,
    WHOLE_DAY,
    WIDTHS_S,
    WINDOW_KINDS,
    WindowKind,
    days_there,
    early_path,
    paths_of_day,
    piece_path,
    read_files,
    write_windows,
)
from cluster.analytics.window_sums import (
    ASIDE,
    added_up,
    fuller,
    of_kind,
    sums_of_windows,
    windows_of_sums,
)

LATE: Final = timedelta(minutes=1)
"""A record is late if its window began so long before the newest window of an earlier run."""
_PROGRESS: Final = "progress.json"
_ASIDE: Final = "aside"
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
    """Records of windows that began more than LATE before the newest of an earlier change."""
    first: datetime | None = None
    last: datetime | None = None


class RollupOutput:
    """The windows in a directory. Only one process may have it open (`sole_writer`)."""

    def __init__(self, directory: Path) -> None:
        """Finish what a killed process began. Raises OSError, UnknownProgress."""
        self._directory = directory
        try:
            finish(directory)
        except (ValueError, TypeError, KeyError):
            raise UnknownProgress(f"{directory / '.drafts'} is damaged: remove it") from None
        self.progress = _read_progress(directory)

    @property
    def has_early_files(self) -> bool:
        """Whether a version that did not keep its progress has written here."""
        return self.progress is None and any(
            days_there(self._directory, kind) for kind in WINDOW_KINDS
        )

    def add(
        self, sums: pa.Table, progress: Progress, *, whole: bool = False, late: timedelta = LATE
    ) -> Added:
        """Add sums (SUMS_SCHEMA) of the records between the present progress and the given one.

        With `whole` the sums are of all that the topic holds, and replace windows that are made of
        no more records; other windows stay. Raises OSError, pa.ArrowException.
        """
        before = self.progress
        before = self.progress
        windows: dict[str, dict[str, int]] = {}
        starts = []
        late_records = 0
        with FileChanges(self._directory) as changes:
            for kind in WINDOW_KINDS:
                found = of_kind(sums, kind)
                if not found.num_rows:
                    continue
                windows[kind.name] = self._write(changes, found, kind, whole=whole)
                starts.append(pc.min_max(found["window_start"]).as_py())
                late_records += _late(found, before, late)
            first = min((each["min"] for each in starts), default=None)
            last = max((each["max"] for each in starts), default=None)
            done = _after(before, progress, last)
            lines = _aside_lines(sums)
            if lines:
                place = changes.draft_of(self._directory / _ASIDE / f"{done.changes:08}.jsonl")
                place.write_text("".join(f"{line}\n" for line in lines))
            changes.write_json(self._directory / _PROGRESS, done.as_json())
        self.progress = done
        return Added(windows, _counts(sums), late_records, first, last)

    def compact(self) -> int:
        """Join the hours of every day but the newest to one file. Returns how many files went.

        Raises OSError, pa.ArrowException.
        """
        gone = 0
        for kind in WINDOW_KINDS:
            for width in WIDTHS_S:
                for day in days_there(self._directory, kind, width)[:-1]:
                    gone += self._compact_day(kind, width, day)
        return gone

    def forget(self, before: date) -> int:
        """Remove the windows of all days before this one. Returns how many files went. OSError."""
        limit_s = datetime(before.year, before.month, before.day, tzinfo=UTC).timestamp()
        gone = [
            path
            for kind in WINDOW_KINDS
            for width in WIDTHS_S
            for day in days_there(self._directory, kind, width)
            if day < before
            for path in paths_of_day(self._directory, kind, width, day)
        ]
        gone += [
            path
            for path in (self._directory / _ASIDE).glob("*.jsonl")
            if path.stat().st_mtime < limit_s
        ]
        with FileChanges(self._directory) as changes:
            for path in gone:
                changes.remove(path)
        return len(gone)

    def _compact_day(self, kind: WindowKind, width: str, day: date) -> int:
        paths = paths_of_day(self._directory, kind, width, day)
        whole = piece_path(self._directory, kind, width, day, WHOLE_DAY)
        hours = [path for path in whole.parent.glob("*.parquet") if path != whole]
        if not hours:
            return 0
        with FileChanges(self._directory) as changes:
            if paths != [whole]:
                schema = kind.stored_schema if width == NARROWEST else kind.schema
                write_windows(read_files(paths, schema), changes.draft_of(whole))
            for path in hours:
                changes.remove(path)
        return len(hours)

    def _write(
        self, changes: FileChanges, found: pa.Table, kind: WindowKind, *, whole: bool
    ) -> dict[str, int]:
        """Write the pieces in which the windows lie, of all widths. Returns windows by width."""
        counts = dict.fromkeys(WIDTHS_S, 0)
        for day, piece, part in self._pieces(found, kind):
            stored = self._stored(changes, kind, day, piece)
            computed = added_up(part, kind)
            merged = (
                fuller(stored, computed, kind)
                if whole
                else added_up(pa.concat_tables([stored, computed]), kind)
            )
            for width in WIDTHS_S:
                table = windows_of_sums(merged, kind, width)
                place = piece_path(self._directory, kind, width, day, piece)
                write_windows(table, changes.draft_of(place))
                counts[width] += _touched(computed, kind, width)
        return counts

    def _pieces(self, found: pa.Table, kind: WindowKind) -> Iterable[tuple[date, str, pa.Table]]:
        """The sums by the file in which they belong."""
        dates = pc.cast(found["window_start"], pa.date32())
        days = pc.unique(dates).to_pylist()
        newest = max([*days, *days_there(self._directory, kind)[-1:]])
        for day in sorted(days):
            part = found.filter(pc.equal(dates, day))
            paths = paths_of_day(self._directory, kind, NARROWEST, day)
            whole = piece_path(self._directory, kind, NARROWEST, day, WHOLE_DAY)
            early = early_path(self._directory, kind, NARROWEST, day)
            if paths in ([whole], [early]) or (not paths and day < newest):
                yield day, WHOLE_DAY, part
                continue
            hours = pc.hour(part["window_start"])
            for hour in sorted(pc.unique(hours).to_pylist()):
                yield day, f"{hour:02}", part.filter(pc.equal(hours, hour))

    def _stored(self, changes: FileChanges, kind: WindowKind, day: date, piece: str) -> pa.Table:
        """The sums of a piece as it is; an early file of the day goes with this change."""
        paths = [piece_path(self._directory, kind, NARROWEST, day, piece)]
        if piece == WHOLE_DAY and not paths[0].exists():
            paths = [early_path(self._directory, kind, NARROWEST, day)]
            for width in WIDTHS_S:
                early = early_path(self._directory, kind, width, day)
                if early.exists():
                    changes.remove(early)
        there = [path for path in paths if path.exists()]
        return sums_of_windows(read_files(there, kind.stored_schema), kind)


def _read_progress(directory: Path) -> Progress | None:
    """The stored progress; None if there is none. Raises OSError, UnknownProgress."""
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


def _after(before: Progress | None, reached: Progress, last: datetime | None) -> Progress:
    """The progress to be stored with windows of which `last` is the latest."""
    known = [before.newest_s] if before and before.newest_s is not None else []
    newest = known + ([int(last.timestamp())] if last else [])
    number = 1 + (before.changes if before else 0)
    return replace(reached, changes=number, newest_s=max(newest, default=None))


def _touched(computed: pa.Table, kind: WindowKind, width: str) -> int:
    if width == NARROWEST:
        return int(computed.num_rows)
    keys = kind.key_names[1:]
    starts = pc.cast(computed["window_start"], pa.int64())
    numbers = pc.divide(starts, WIDTHS_S[width] * 1_000_000)
    found = computed.select(keys).append_column("number", numbers)
    return int(found.group_by([*keys, "number"]).aggregate([]).num_rows)


def _late(found: pa.Table, before: Progress | None, late: timedelta) -> int:
    if before is None or before.newest_s is None:
        return 0
    limit = datetime.fromtimestamp(before.newest_s, UTC) - late
    is_late = pc.less(found["window_start"], pa.scalar(limit, found["window_start"].type))
    return int(pc.sum(found.filter(is_late)["records"]).as_py() or 0)


def _counts(sums: pa.Table) -> dict[str, int]:
    found = sums.group_by("kind").aggregate([("records", "sum")])
    return dict(zip(found["kind"].to_pylist(), found["records_sum"].to_pylist(), strict=True))


def _aside_lines(sums: pa.Table) -> list[str]:
    rows = sums.filter(pc.equal(sums["kind"], REJECTED))[ASIDE].to_pylist()
    return [line for lines in rows for line in lines or ()]
