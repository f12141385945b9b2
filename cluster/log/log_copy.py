"""Copies a log to another log directory: tracks the missing bytes and copies them.

A thread copies the segments' files while the log is being written. The copy replaces the log
(`relocate`) when only few bytes are missing. Records are not decoded.
"""

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from copy import copy as shallow_copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cluster.log.batch_walk import base_offset_at
from cluster.log.checkpoints import PARTITION_METADATA
from cluster.log.deleted_files import DeletedFiles
from cluster.log.files import files_of
from cluster.log.partition_log import OnDamage, PartitionLog
from cluster.log.producer_snapshots import snapshot_offsets, snapshot_path
from cluster.log.recovery import FilesState, RecoveredLog
from cluster.log.segment import Segment
from cluster.log.segment_paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    create_segment_file,
    segment_path,
    segment_paths,
)
from cluster.log.transaction_index import ENTRY_BYTES
from cluster.model.clocks import WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset

_BYTES_AT_ONCE: Final = 1 << 20
_NO_KERNEL_COPY: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})


@dataclass(slots=True)
class _Copied:
    """The copied part of one segment."""

    segment: Segment
    size_bytes: int = 0
    is_complete: bool = False
    """The segment was closed, and the files beside it are copied as well."""


class Piece(NamedTuple):
    """A range of one segment to copy; the last piece includes the files beside the segment."""

    source: Path
    target: Path
    position: int
    size_bytes: int
    beside: tuple[Path, ...]


class LogCopy:
    """The progress of one copy. Owned by the broker's thread."""

    def __init__(self, log: PartitionLog, directory: Path) -> None:
        self.log = log
        self.directory = directory
        self.settled_at: int | None = None
        """Base offset of the active segment for which `settle` was done."""
        self.size_bytes = 0
        """Bytes of batches that are copied."""
        self._copied: dict[int, _Copied] = {}
        self._seen = log.segments
        self._cuts = log.durability.cuts
        self._complete_count = 0
        """So many of the segments that were seen last are complete, from the first one on."""

    @property
    def log_end_offset(self) -> Offset:
        """The end offset of the copy, counting whole batches without a gap."""
        for segment in self.log.segments:
            copied = self._copied.get(segment.base_offset)
            if copied is None or copied.segment is not segment:
                return Offset(segment.base_offset)
            if copied.size_bytes < segment.file.size_bytes:
                position = segment.boundary_before(0, copied.size_bytes)
                return Offset(base_offset_at(segment.file.mapping(), position))
        return self.log.log_end_offset

    @property
    def has_changed(self) -> bool:
        """Whether segments were added, removed, replaced or truncated since `take_changes`."""
        return self.log.segments is not self._seen or self.log.durability.cuts != self._cuts

    def take_changes(self) -> list[Path]:
        """Forget removed, replaced and truncated segments; return their copied files for
        unlinking."""
        if not self.has_changed:
            return []
        present = {segment.base_offset: segment for segment in self.log.segments}
        was_cut = self.log.durability.cuts != self._cuts  # other records may follow the truncation
        gone = [
            base_offset
            for base_offset, copied in self._copied.items()
            if was_cut or present.get(base_offset) is not copied.segment
        ]
        self._seen, self._cuts = self.log.segments, self.log.durability.cuts
        self._complete_count = 0
        self.settled_at = None
        files: list[Path] = []
        for base_offset in gone:
            copied = self._copied.pop(base_offset)
            self.size_bytes -= copied.size_bytes
            files += [self.directory / path.name for path in _paths(copied.segment)]
        return files

    def next_piece(self, most_bytes: int) -> Piece | None:
        """The next piece to copy; None if at most bytes of the active segment are missing."""
        closed = len(self._seen) - 1
        while self._complete_count < closed:
            copied = self._of(self._seen[self._complete_count])
            if not copied.is_complete:
                return self._piece(copied, most_bytes, is_closed=True)
            self._complete_count += 1
        return None

    def active_piece(self, most_bytes: int) -> Piece | None:
        """The missing bytes of the active segment; None if there are none."""
        copied = self._of(self._seen[-1])
        if copied.size_bytes == copied.segment.file.size_bytes:
            return None
        return self._piece(copied, most_bytes, is_closed=False)

    @property
    def missing_bytes(self) -> int:
        """The number of bytes that the copy lacks."""
        return self.log.size_bytes - self.size_bytes

    def on_copied(self, piece: Piece) -> None:
        """Record that a piece was copied; do not call this if the log `has_changed` meanwhile."""
        copied = self._copied[int(piece.target.stem)]
        copied.size_bytes += piece.size_bytes
        copied.is_complete = bool(piece.beside)
        self.size_bytes += piece.size_bytes

    def is_nearly_there(self, most_bytes: int) -> bool:
        """Whether `settle` ran for the current segments and few bytes are missing."""
        return (
            not self.has_changed
            and self.settled_at == self._seen[-1].base_offset
            and self.next_piece(0) is None
            and self.missing_bytes <= most_bytes
        )

    def _of(self, segment: Segment) -> _Copied:
        return self._copied.setdefault(segment.base_offset, _Copied(segment))

    def _piece(self, copied: _Copied, most_bytes: int, *, is_closed: bool) -> Piece:
        segment = copied.segment
        left = segment.file.size_bytes - copied.size_bytes
        size = min(left, most_bytes)
        beside: tuple[Path, ...] = ()
        if is_closed and size == left:
            beside = tuple(path for path in _paths(segment) if path.suffix != LOG_SUFFIX)
        return Piece(
            segment.file.path,
            segment_path(self.directory, segment.base_offset),
            copied.size_bytes,
            size,
            beside,
        )


def make_directory(directory: Path, source: Path) -> None:
    """Create the directory of a copy, with the topic id. Runs on any thread. Raises
    StorageFailed."""
    try:
        files_of(directory).mkdir(directory)
        with suppress(FileNotFoundError):
            _copy_small(source / PARTITION_METADATA, directory / PARTITION_METADATA)
    except OSError as error:
        raise StorageFailed(f"cannot create {directory}: {error.strerror}") from error


def remove_files(files: Iterable[Path]) -> None:
    """Unlink the files that `take_changes` returned. Runs on any thread. Raises StorageFailed."""
    for path in files:
        try:
            files_of(path).unlink_if_there(path)
        except OSError as error:
            raise StorageFailed(f"cannot delete {path}: {error.strerror}") from error


def copy_piece(piece: Piece) -> bool:
    """Copy and sync a piece; False if the segment was removed. Runs on any thread.

    Raises StorageFailed.
    """
    try:
        source = files_of(piece.source).open(piece.source, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageFailed(f"cannot open {piece.source}: {error.strerror}") from error
    try:
        files = files_of(piece.target)
        target = files.open(piece.target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if piece.position == 0:
                files.truncate(target, 0)  # bytes of a forgotten copy
            if not _copy_bytes(source, target, piece):
                return False
            files.sync(target)
        finally:
            os.close(target)
        for path in piece.beside:
            beside = piece.target.with_name(path.name)
            with suppress(FileNotFoundError):
                _copy_small(path, beside)
                files_of(beside).sync_path(beside)
    except OSError as error:
        raise StorageFailed(f"cannot copy to {piece.target}: {error.strerror}") from error
    finally:
        os.close(source)
    return True


def settle(source: Path, directory: Path, active_base: int) -> None:
    """Copy the producer snapshots, and the transaction index of the active segment, and sync them.

    Runs on any thread. Repeat this after each roll and after each truncation. Raises StorageFailed.
    """
    wanted = snapshot_offsets(source)
    index = segment_path(source, active_base, TRANSACTION_INDEX_SUFFIX)
    try:
        for offset in set(snapshot_offsets(directory)).difference(wanted):
            files_of(directory).unlink(snapshot_path(directory, offset))
        for offset in wanted:
            target = snapshot_path(directory, offset)
            with suppress(FileNotFoundError):
                _copy_small(snapshot_path(source, offset), target)
                files_of(target).sync_path(target)
        with suppress(FileNotFoundError):
            _copy_small(index, directory / index.name)
        files_of(directory).sync_path(directory)
    except OSError as error:
        raise StorageFailed(f"cannot write {directory}: {error.strerror}") from error


def sync_moved(log: PartitionLog) -> None:
    """Sync a log that was just relocated. Runs on any thread.

    Raises StorageFailed.
    """
    directory = log.directory
    try:
        for path in (*_paths(log.segments[-1]), directory, directory.parent):
            files_of(path).sync_path(path)
    except OSError as error:
        raise StorageFailed(f"cannot sync {directory}: {error.strerror}") from error


def _paths(segment: Segment) -> list[Path]:
    return segment_paths(segment.directory, segment.base_offset)


def _relocated(segment: Segment, directory: Path) -> Segment:
    moved = shallow_copy(segment)
    moved.place_in(directory)
    return moved


def relocate(
    copy: LogCopy,
    directory: Path,
    wall_ms: WallMs,
    deleted_files: DeletedFiles,
    on_damage: OnDamage | None = None,
) -> PartitionLog:
    """Complete the copy, rename it to `directory` and return the relocated log.

    The old log must not be used afterwards. Call this between two requests when the copy
    `is_nearly_there`. If it raises StorageFailed, the old log stays in use.
    """
    old = copy.log
    active = old.segments[-1]
    epochs = old.epochs.relocated(copy.directory)
    try:
        _complete(copy, active)
        if epochs.entries:
            epochs.write()
        snapshots = snapshot_offsets(copy.directory)
        files_of(directory).rename(copy.directory, directory)
        segments = tuple(_relocated(segment, directory) for segment in old.segments)
    except OSError as error:
        raise StorageFailed(f"cannot complete {copy.directory}: {error.strerror}") from error
    written = epochs.written
    epochs = old.epochs.relocated(directory)
    epochs.written = written
    recovered = RecoveredLog(
        segments,
        old.log_start_offset,
        old.log_end_offset,
        epochs,
        old.producers,
        FilesState.CHANGED,
        snapshots=snapshots,
    )
    # The last copied bytes are not synced, so only the closed segments count as synced.
    recovery_point = min(old.durability.recovery_point, Offset(active.base_offset))
    new = PartitionLog(
        directory,
        old.partition,
        old.options,
        recovered,
        recovery_point,
        wall_ms,
        deleted_files,
        on_damage,
    )
    new.transactions = old.transactions.moved_to(new.files)
    new.cleaned_to = old.cleaned_to
    return new


def _complete(copy: LogCopy, active: Segment) -> None:
    """Add the last bytes of the active segment and of its transaction index. Raises OSError."""
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        create_segment_file(copy.directory, active.base_offset, suffix)
    _complete_transaction_index(copy.directory, active)
    piece = copy.active_piece(active.file.size_bytes)
    if piece is None:
        return
    files = files_of(piece.target)
    target = files.open(piece.target, os.O_WRONLY | os.O_CLOEXEC)
    try:
        missing = active.file.view(piece.position, piece.size_bytes)
        written = 0
        while written < len(missing):
            written += files.pwrite(target, missing[written:], piece.position + written)
        files.truncate(target, active.file.size_bytes)
    finally:
        os.close(target)


def _complete_transaction_index(directory: Path, active: Segment) -> None:
    """Add the entries that were written since `settle` has copied the file."""
    path = segment_path(active.directory, active.base_offset, TRANSACTION_INDEX_SUFFIX)
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return
    files = files_of(directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    target = files.open(directory / path.name, flags, 0o644)
    try:
        # Half an entry may have been copied while it was written.
        position = os.fstat(target).st_size // ENTRY_BYTES * ENTRY_BYTES
        missing = memoryview(files_of(path).read_part(path, position, max(0, size - position)))
        while missing:
            written = files.pwrite(target, missing, position)
            missing, position = missing[written:], position + written
    finally:
        os.close(target)


def _copy_bytes(source: int, target: int, piece: Piece) -> bool:
    """Copy a range; False if the source is shorter. Raises OSError."""
    position, end = piece.position, piece.position + piece.size_bytes
    reads, writes = files_of(piece.source), files_of(piece.target)
    copy_range = writes.copy_range
    while position < end:
        size = min(_BYTES_AT_ONCE, end - position)
        if copy_range is not None:
            try:
                copied = copy_range(source, target, size, position, position)
            except OSError as error:
                if error.errno not in _NO_KERNEL_COPY:
                    raise
                copy_range = None
                continue
        else:
            copied = writes.pwrite(target, reads.pread(source, size, position), position)
        if copied == 0:
            return False
        position += copied
    return True


def _copy_small(source: Path, target: Path) -> None:
    files_of(target).write_file(target, files_of(source).read_file(source))
