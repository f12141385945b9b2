"""Replaces segments with cleaned files by renames, which a crash may interrupt anywhere.

As in Kafka (`LocalLog.replaceSegments`, `LogLoader.load`): a cleaning writes `.cleaned` files,
which a start removes. Renaming them to `.swap` makes them valid; then the replaced segments are
deleted, and the files get their final names. `finish_interrupted` completes a swap after a crash.
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from struct import Struct
from typing import Final

from cluster.log.files import files_of
from cluster.log.producer_snapshots import SUFFIX as SNAPSHOT_SUFFIX
from cluster.log.segment_paths import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_path
from cluster.model.errors import StorageFailed
from cluster.records.batch import LENGTH_OVERHEAD_BYTES

log = logging.getLogger(__name__)

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_REPLACED_SUFFIXES: Final = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
_WALK: Final = Struct(">qi11xi")


def begin_swap(directory: Path, base_offset: int) -> None:
    """Make cleaned files valid by renaming them to `.swap`.

    If this raises StorageFailed, the files are removed and the log is unchanged.
    """
    try:
        _rename(directory, base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
    except OSError as error:
        for ending in (SWAP_SUFFIX, CLEANED_SUFFIX):
            for suffix in SEGMENT_SUFFIXES:
                _forget(segment_path(directory, base_offset, suffix + ending))
        raise StorageFailed(f"cannot rename {error.filename}: {error.strerror}") from error


def end_swap(directory: Path, base_offset: int) -> None:
    """Rename `.swap` files to their final names, which must be free.

    If this raises StorageFailed, the next start completes the swap.
    """
    try:
        _rename(directory, base_offset, SWAP_SUFFIX, "")
    except OSError as error:
        raise StorageFailed(f"cannot rename {error.filename}: {error.strerror}") from error


def remove_cleaned(directory: Path) -> None:
    """Remove the files of interrupted cleanings. Raises OSError."""
    with os.scandir(directory) as entries:
        paths = [entry.path for entry in entries if entry.name.endswith(CLEANED_SUFFIX)]
    for path in paths:
        files_of(path).unlink_if_there(Path(path))


def finish_interrupted(directory: Path, names: list[str]) -> list[str]:
    """Complete or undo a swap that a crash interrupted; returns the resulting file names.

    `names` are the names of the directory's files. Raises OSError.
    """
    if not any(name.endswith(SWAP_SUFFIX) for name in names):
        return names
    cleaned = [at for at in map(_offset_of(CLEANED_SUFFIX), names) if at is not None]
    swaps = {name: at for name in names if (at := _offset_of(SWAP_SUFFIX)(name)) is not None}
    left = set(names)
    # Only some files are renamed, so the replaced segments all still exist.
    for name, at in list(swaps.items()):
        if cleaned and at >= min(cleaned):
            files_of(directory).unlink(directory / name)
            left.discard(name)
            del swaps[name]
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        first = min(swaps[name] for name in logs)
        end = max(_next_offset(directory / name, swaps[name]) for name in logs)
        for name in _replaced(left, first, end):
            log.info("%s deleted: compaction replaced it", directory / name)
            files_of(directory).unlink(directory / name)
            left.discard(name)
    for name in sorted(swaps, key=_batches_first):
        final = name.removesuffix(SWAP_SUFFIX)
        log.info("completed the interrupted swap of %s", directory / name)
        files_of(directory).rename(directory / name, directory / final)
        left.discard(name)
        left.add(final)
    return list(left)


def _rename(directory: Path, base_offset: int, ending: str, new_ending: str) -> None:
    # The batches first: files without them are completed or ignored, never the reverse.
    for suffix in SEGMENT_SUFFIXES:
        path = segment_path(directory, base_offset, suffix + ending)
        try:
            target = segment_path(directory, base_offset, suffix + new_ending)
            files_of(path).rename(path, target)
        except FileNotFoundError:
            if suffix == LOG_SUFFIX:
                raise


def _forget(path: Path) -> None:
    try:
        files_of(path).unlink_if_there(path)
    except OSError as error:
        log.error(  # noqa: TRY400 - one line; the next start removes it
            "cannot delete %s: %s", path, error.strerror
        )


def _offset_of(ending: str) -> Callable[[str], int | None]:
    """Make a parser of `00000000000000000042.index.swap` as 42; None for names with another
    ending."""

    def offset(name: str) -> int | None:
        stem = name.partition(".")[0]
        return int(stem) if name.endswith(ending) and stem.isdigit() else None

    return offset


def _replaced(names: Iterable[str], first: int, end: int) -> list[str]:
    """File names of segments that begin in [first, end)."""
    found = []
    for name in names:
        stem, dot, suffix = name.partition(".")
        if dot + suffix in _REPLACED_SUFFIXES and stem.isdigit() and first <= int(stem) < end:
            found.append(name)
    return sorted(found)


def _batches_first(name: str) -> tuple[bool, str]:
    return not name.endswith(LOG_SUFFIX + SWAP_SUFFIX), name


def _next_offset(path: Path, base_offset: int) -> int:
    """The offset after the last record of a segment's file; its base offset if it is empty."""
    files, next_offset, position = files_of(path), base_offset, 0
    descriptor = files.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while len(head := files.pread(descriptor, _WALK.size, position)) == _WALK.size:
            base, length, last_delta = _WALK.unpack(head)
            if length <= 0:
                break
            next_offset = base + last_delta + 1
            position += length + LENGTH_OVERHEAD_BYTES
    finally:
        os.close(descriptor)
    return next_offset
