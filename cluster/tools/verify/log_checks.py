"""Checks the logs below a log directory by reading their files; brokers may go on meanwhile.

Segments may be closed, compacted or deleted while they are read: whatever looks damaged is looked
at again before it is reported.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cluster.log.directories import parse_directory_name
from cluster.log.segment_check import FileToCheck, Hole, SegmentCheck
from cluster.log.segment_paths import LOG_SUFFIX
from cluster.model.errors import UserError
from cluster.model.ids import TopicPartition

_NO_LIMIT: Final = 2**63 - 1
_LOOKS: Final = 5
_PAUSE_S: Final = 0.2
"""Between two looks at what seems damaged: what is being written is whole by then."""


@dataclass(slots=True)
class FileDamage:
    """What is wrong with one segment."""

    path: Path
    holes: list[Hole]
    index_defects: list[str]


@dataclass(slots=True)
class LogFindings:
    """What was found in the directory of one partition."""

    partition: TopicPartition
    directory: Path
    segments: int = 0
    checked_bytes: int = 0
    first_offset: int = 0
    next_offset: int = 0
    damages: list[FileDamage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Files that could not be read."""

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not self.damages and not self.problems

    def has(self, hole: Hole) -> bool:
        """Whether it has the records that are lost elsewhere."""
        return (
            self.first_offset <= hole.offset
            and hole.next_offset <= self.next_offset
            and not any(
                own.offset < hole.next_offset and hole.offset < own.next_offset
                for damage in self.damages
                for own in damage.holes
            )
        )


def partitions_in(directory: Path, topics: frozenset[str]) -> list[tuple[TopicPartition, Path]]:
    """The partitions of a log directory, of these topics where some are named. Raises UserError."""
    try:
        paths = sorted(directory.iterdir())
    except OSError as problem:
        raise UserError(f"cannot read {directory}: {problem.strerror}") from None
    found = []
    for path in paths:
        partition = parse_directory_name(path.name)
        if partition is not None and (not topics or partition.topic in topics) and path.is_dir():
            found.append((partition, path))
    return found


def check_log(
    partition: TopicPartition, directory: Path, sleep: Callable[[float], None] = time.sleep
) -> LogFindings:
    """Check every segment of a partition that is there until its turn comes."""
    found = LogFindings(partition, directory)
    is_first = True
    for path in _log_files(directory):
        try:
            check = _checked(path, sleep)
        except FileNotFoundError:
            continue  # deleted, or merged into another by compaction
        except OSError as problem:
            found.problems.append(f"cannot read {path}: {problem.strerror}")
            continue
        if is_first:
            found.first_offset, is_first = check.file.base_offset, False
        found.segments += 1
        found.checked_bytes += check.checked_bytes
        found.next_offset = max(found.next_offset, check.next_offset)
        if not check.is_good:
            found.damages.append(FileDamage(path, check.holes, check.index_defects))
    return found


def _checked(path: Path, sleep: Callable[[float], None]) -> SegmentCheck:
    """The check of a segment; of one that looks damaged the one that says the same twice."""
    check = SegmentCheck(_file(path)).run()
    for _ in range(_LOOKS):
        if check.is_good:
            break
        before = check
        sleep(_PAUSE_S)
        check = SegmentCheck(_file(path)).run()
        is_same = (before.holes, before.index_defects) == (check.holes, check.index_defects)
        if is_same and before.stamp == check.stamp:
            break
    return check


def _file(path: Path) -> FileToCheck:
    """A segment as the directory has it now; the last one is active. Raises FileNotFoundError."""
    base_offset = int(path.stem)
    later = [int(other.stem) for other in _log_files(path.parent)]
    limit = min((other for other in later if other > base_offset), default=_NO_LIMIT)
    return FileToCheck(path, base_offset, limit, None, is_active=limit == _NO_LIMIT)


def _log_files(directory: Path) -> Iterator[Path]:
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        names = []  # the topic is deleted
    for name in names:
        if name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdecimal():
            yield directory / name
