"""Names in a directory of windows, and the spans of time that its files hold. Pure.

kind=quota/width=10s/day=2026-11-26/13.parquet    windows of an hour, in slices if it is large
kind=quota/width=1h/day=2026-11-26/day.parquet    windows of a day
_open/CHANGE-NAME.parquet                         deltas: sums of hours that are not merged
_meta/manifest.json                               what counts (`manifest.py`)
_meta/days/2026-11-26.CHANGE.json                 the files of a day
_meta/drafts/CHANGE/...                           files that are to be moved into place
_meta/aside/CHANGE.jsonl                          quarantined records
"""

import re
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

META: Final = "_meta"
MANIFEST: Final = "_meta/manifest.json"
OPEN: Final = "_open"
DRAFTS: Final = "_meta/drafts"
DAYS: Final = "_meta/days"
QUARANTINE: Final = "_meta/aside"
WHOLE_DAY: Final = "day"
"""The unit of the widths that have a file for each day."""
HOUR_WIDTHS: Final = ("10s", "1m")
DAY_WIDTHS: Final = ("1h", "1d")

HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_VISIBLE: Final = re.compile(
    r"kind=([a-z]+)/width=([0-9]+[a-z])/day=(\d{4}-\d\d-\d\d)/(\d\d(?:-\d\d)?|day)\.parquet"
)


class FileUnit(NamedTuple):
    """An hour, or one of its equal parts, whose windows of a kind and width are in one file."""

    hour: str
    """Such as `2026-11-26T13`, in UTC."""
    minute: int = 0
    minutes: int = 60

    @property
    def day(self) -> str:
        return self.hour[:10]

    @property
    def name(self) -> str:
        """The name of its files, without folder and suffix."""
        return self.hour[11:] if self.minutes == 60 else f"{self.hour[11:]}-{self.minute:02}"

    @property
    def begin_s(self) -> int:
        """Its begin in seconds since 1970."""
        return start_of(self.hour) + self.minute * 60

    @property
    def end_s(self) -> int:
        """Its end."""
        return self.begin_s + self.minutes * 60


class VisiblePath(NamedTuple):
    """A file that any reader of Parquet sees."""

    kind: str
    width: str
    day: str
    unit: str

    def __str__(self) -> str:
        return f"kind={self.kind}/width={self.width}/day={self.day}/{self.unit}.parquet"


def parsed(path: str) -> VisiblePath | None:
    """The parts of the path of a visible file; None for other paths."""
    found = _VISIBLE.fullmatch(path)
    return VisiblePath(*found.groups()) if found else None


def units_of(hour: str, slices: int) -> list[FileUnit]:
    """The hour in this many equal parts."""
    minutes = 60 // slices
    return [FileUnit(hour, number * minutes, minutes) for number in range(slices)]


def hour_of(seconds: int) -> str:
    """The hour of a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H")


def day_of(seconds: int) -> str:
    """The day of a time."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def start_of(hour: str) -> int:
    """The begin of an hour, in seconds since 1970. Raises ValueError for other texts."""
    if len(hour) != len("2026-11-26T13"):
        raise ValueError(f"not an hour: {hour}")
    return int(datetime.strptime(f"{hour}+0000", "%Y-%m-%dT%H%z").timestamp())


def hours_of_day(day: str) -> list[str]:
    """The hours of a day in order."""
    return [f"{day}T{number:02}" for number in range(24)]


def day_span(day: str) -> tuple[int, int]:
    """The begin and end of a day, in seconds since 1970."""
    found = date.fromisoformat(day)
    begin_s = int(datetime(found.year, found.month, found.day, tzinfo=UTC).timestamp())
    return begin_s, begin_s + _DAY_S


def delta_path(change: int, name: str) -> str:
    """The path of a delta of a change; `name` differs among those of one change."""
    return f"{OPEN}/{change}-{name}.parquet"


def draft_path(change: int, final: str) -> str:
    """The path of a file until its change is decided."""
    return f"{DRAFTS}/{change}/{final}"


def day_list_path(day: str, change: int) -> str:
    """The list of the visible files of a day as a change left it."""
    return f"{DAYS}/{day}.{change}.json"


def quarantine_path(change: int) -> str:
    """The path of the lines about records that a change quarantined."""
    return f"{QUARANTINE}/{change:08}.jsonl"
