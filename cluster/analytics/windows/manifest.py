"""The content of a directory of windows: its manifest, and the lists of the files of a day. Pure.

The manifest is authoritative: a file that it does not name, directly or through the list of a day,
does not count. Replacing it decides a change (`directory.py`).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple, TypeVar

from cluster.analytics.windows.layout import parsed, start_of
from cluster.analytics.windows.widths import WIDTHS_S

VERSION: Final = 2

_T = TypeVar("_T")


class UnusableDirectory(Exception):
    """A directory of windows cannot be read or written; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class FormerTopic:
    """A deleted topic of the same name, and the position of the windows in it."""

    topic_id: str | None
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """The records in the windows of a directory: in each partition all below its offset."""

    topic: str
    topic_id: str | None
    """Differs once a topic was recreated; None if the cluster has no ids."""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """By partition the first offset that is not in the windows."""
    cluster_id: str | None = None
    """None if unknown: until the next run, in a directory of an earlier version."""
    former_topics: tuple[FormerTopic, ...] = ()


class DeltaFile(NamedTuple):
    """A file of sums of the narrowest windows, for hours that are not merged yet."""

    path: str
    rows: int
    bytes: int
    first_s: int
    """The start of its first window, in seconds since 1970."""
    last_s: int
    """The start of its last window."""
    hours: Mapping[str, int]
    """The hours whose rows count, with the number of rows of each; the others are merged."""
    kinds: tuple[str, ...]
    """The kinds of its rows."""


class VisibleFile(NamedTuple):
    """A file of windows in its place."""

    path: str
    rows: int
    bytes: int


class QuarantineFile(NamedTuple):
    """A file of lines about records that were quarantined on one day."""

    path: str
    bytes: int
    day: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of a directory after a change."""

    progress: Progress | None = None
    """None if the position of the windows in their topic is unknown."""
    change: int = 0
    writer: str = ""
    """The run that made this change, as a random text."""
    newest_s: int | None = None
    """The start of the newest window, in seconds since 1970."""
    deltas: tuple[DeltaFile, ...] = ()
    days: Mapping[str, int] = field(default_factory=dict)
    """By day the change that wrote the list of its visible files."""
    hours: Mapping[str, int] = field(default_factory=dict)
    """The number of slices of each hour; hours that are missing here have one."""
    forgotten: Mapping[str, str] = field(default_factory=dict)
    """The first day that was not removed for its age, by width."""
    quarantined: tuple[QuarantineFile, ...] = ()
    """Oldest first."""
    moves: tuple[tuple[str, str], ...] = ()
    """Drafts of this change and their destinations; they may have been moved."""
    removals: tuple[str, ...] = ()
    """Files that this change removes; they may be gone."""

    def keeps(self, width: str, day: str) -> bool:
        """Whether windows of this width are kept for this day."""
        return day >= self.forgotten.get(width, "")


def manifest_as_bytes(manifest: Manifest) -> bytes:
    """The stored document."""
    progress = manifest.progress
    document = {
        "version": VERSION,
        "cluster_id": progress.cluster_id if progress else None,
        "topic": progress.topic if progress else None,
        "topic_id": progress.topic_id if progress else None,
        "offsets": _offsets_json(progress.offsets if progress else {}),
        "former_topics": [
            {"topic_id": each.topic_id, "offsets": _offsets_json(each.offsets)}
            for each in (progress.former_topics if progress else ())
        ],
        "change": manifest.change,
        "writer": manifest.writer,
        "newest_s": manifest.newest_s,
        "deltas": [each._asdict() for each in manifest.deltas],
        "days": dict(sorted(manifest.days.items())),
        "hours": dict(sorted(manifest.hours.items())),
        "forgotten": dict(manifest.forgotten),
        "aside": [each._asdict() for each in manifest.quarantined],
        "moves": manifest.moves,
        "removals": manifest.removals,
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def manifest_from_bytes(content: bytes, shown: str) -> Manifest:
    """The manifest in a document; `shown` is the file's name in messages.

    Raises UnusableDirectory for a damaged one, or for another version.
    """
    return _read(content, shown, _manifest)


def day_list_as_bytes(files: list[VisibleFile]) -> bytes:
    """The document that lists the visible files of a day."""
    listed = [each._asdict() for each in sorted(files)]
    return (json.dumps({"version": VERSION, "files": listed}, indent=1) + "\n").encode()


def day_list_from_bytes(content: bytes, shown: str) -> list[VisibleFile]:
    """The visible files of a day. Raises UnusableDirectory."""
    return _read(content, shown, _day_list)


def delta_from_json(document: Any) -> DeltaFile:
    """A delta whose `_asdict` went through JSON. Raises ValueError, TypeError, KeyError."""
    hours = {_hour(hour): _whole(rows) for hour, rows in document["hours"].items()}
    return DeltaFile(
        _path(document["path"]),
        _whole(document["rows"]),
        _whole(document["bytes"]),
        _integer(document["first_s"]),
        _integer(document["last_s"]),
        hours,
        tuple(_text(kind) for kind in document["kinds"]),
    )


def _read(content: bytes, shown: str, parse: Callable[[dict[str, Any]], _T]) -> _T:
    try:
        document = json.loads(content)
        version = document["version"]
        if version == VERSION:
            return parse(document)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        raise UnusableDirectory(f"{shown} is damaged") from None
    raise UnusableDirectory(
        f"{shown} is of version {str(version)[:20]}, and this software knows {VERSION}"
    )


def _manifest(document: dict[str, Any]) -> Manifest:
    newest = document["newest_s"]
    forgotten = document["forgotten"].items()
    return Manifest(
        progress=_progress(document),
        change=_whole(document["change"]),
        writer=_text(document["writer"]),
        newest_s=None if newest is None else _integer(newest),
        deltas=tuple(delta_from_json(each) for each in document["deltas"]),
        days={_day(day): _whole(change) for day, change in document["days"].items()},
        hours={_hour(hour): _slices(count) for hour, count in document["hours"].items()},
        forgotten={_width(width): _day(day) for width, day in forgotten},
        quarantined=tuple(
            QuarantineFile(_path(each["path"]), _whole(each["bytes"]), _day(each["day"]))
            for each in document["aside"]
        ),
        moves=tuple((_path(draft), _path(final)) for draft, final in document["moves"]),
        removals=tuple(_path(each) for each in document["removals"]),
    )


def _progress(document: dict[str, Any]) -> Progress | None:
    topic = document["topic"]
    if topic is None:
        return None
    return Progress(
        topic=_text(topic),
        topic_id=_text_or_none(document["topic_id"]),
        offsets=_offsets(document["offsets"]),
        cluster_id=_text_or_none(document["cluster_id"]),
        former_topics=tuple(
            FormerTopic(_text_or_none(each["topic_id"]), _offsets(each["offsets"]))
            for each in document["former_topics"]
        ),
    )


def _day_list(document: dict[str, Any]) -> list[VisibleFile]:
    found = []
    for each in document["files"]:
        path = _path(each["path"])
        if parsed(path) is None:
            raise ValueError(path)
        found.append(VisibleFile(path, _whole(each["rows"]), _whole(each["bytes"])))
    return found


def _offsets_json(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offsets[number] for number in sorted(offsets)}


def _offsets(document: Any) -> dict[int, int]:
    return {int(number): _whole(offset) for number, offset in document.items()}


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(value)
    return value


def _whole(value: Any) -> int:
    if _integer(value) < 0:
        raise ValueError(value)
    return int(value)


def _slices(value: Any) -> int:
    if _whole(value) == 0 or 60 % value:
        raise ValueError(value)
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _path(value: Any) -> str:
    """A path that stays below the directory."""
    if not _text(value) or "\\" in value or {"", ".", ".."} & set(value.split("/")):
        raise ValueError(value)
    return str(value)


def _hour(value: Any) -> str:
    start_of(_text(value))
    return str(value)


def _day(value: Any) -> str:
    return date.fromisoformat(_text(value)).isoformat()


def _width(value: Any) -> str:
    if value not in WIDTHS_S:
        raise ValueError(value)
    return str(value)
