"""The registry's files: a journal on disk before a reply leaves, snapshots, recovery, purge.

    journal.<zxid>    transactions from that zxid on (16 hex digits; layout: journal_format)
    snapshot.<zxid>   the state after that zxid (layout: snapshot)
    registry.lock     held by the one process that may write here
    reserve           zeros, removed when the disk is full: so much can still be written then

Guarantee: `append` returns when its transactions survive kill -9 and, with fsync, a power cut.
"""

import errno
import fcntl
import itertools
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from cluster.coordinator.registry.server.journal_format import (
    FILE_HEADER,
    TornEntry,
    encode_entry,
    scan_entries,
)
from cluster.coordinator.registry.server.snapshot import decode_snapshot, encode_snapshot
from cluster.coordinator.registry.server.state import RegistryState
from cluster.coordinator.registry.server.transactions import decode_transaction
from cluster.coordinator.registry.wire.jute import MalformedRecord
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import StorageFailed

_logger = logging.getLogger(__name__)
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync
KEPT_SNAPSHOTS: Final = 3
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class JournalFiles:
    """The data directory of one registry, open for writing.

    Invariant: the newest journal file ends with a whole entry whenever no call is in progress.

    After StorageFailed the object must not be used any more: unacknowledged transactions may or may
    not have been written.
    """

    def __init__(self, directory: Path, lock: int, journal: int, *, fsync: bool) -> None:
        self._directory = directory
        self._lock = lock
        self._journal = journal
        self._fsync = fsync
        self._reserve = directory / "reserve"
        self.unsnapshotted_count = 0

    @classmethod
    def open(
        cls, directory: Path, tick_time_ms: int, now_ms: MonotonicMs, *, fsync: bool
    ) -> tuple[Self, RegistryState]:
        """Lock the directory, creating it if needed, and recover the state.

        Raises StorageFailed when another process holds it, when it cannot be read or written, or
        when acknowledged transactions are missing from it.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(directory)
            try:
                journal, state = _recover(directory, tick_time_ms, now_ms)
            except BaseException:
                os.close(lock)
                raise
            files = cls(directory, lock, journal, fsync=fsync)
            files.unsnapshotted_count = state.last_zxid - _newest_snapshot_zxid(directory)
            files._sync_directory()
        except OSError as error:
            raise StorageFailed(f"registry directory {directory}: {error}") from error
        return files, state

    def append(self, payloads: Iterable[bytes]) -> None:
        """Write transactions with one fsync. Raises StorageFailed; then the registry must neither
        answer for them nor continue.
        """
        entries = [encode_entry(payload) for payload in payloads]
        content = b"".join(entries)
        try:
            end = os.fstat(self._journal).st_size
            try:
                _write_whole(self._journal, content)
            except OSError as error:
                if error.errno not in _NO_ROOM or not self.release_reserve():
                    raise
                os.ftruncate(self._journal, end)
                _write_whole(self._journal, content)
            if self._fsync:
                _sync_data(self._journal)
        except OSError as error:
            raise StorageFailed(f"registry journal in {self._directory}: {error}") from error
        self.unsnapshotted_count += len(entries)

    def free_bytes(self) -> int:
        """Free bytes on the disk, without the reserve. Raises StorageFailed."""
        try:
            disk = os.statvfs(self._directory)
        except OSError as error:
            raise StorageFailed(f"registry directory {self._directory}: {error}") from error
        return disk.f_bavail * disk.f_frsize

    def keep_reserve(self, size_bytes: int) -> None:
        """Keep a file of this size that can be removed later, if there is space for it."""
        try:
            if self._reserve.exists() and self._reserve.stat().st_size == size_bytes:
                return
            self._reserve.touch(mode=0o600)  # as every file here
            self._reserve.write_bytes(bytes(size_bytes))
        except OSError:
            self.release_reserve()

    def release_reserve(self) -> bool:
        """Remove the reserve to free its space; False if there was none."""
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    def write_snapshot(self, state: RegistryState) -> None:
        """Write a snapshot of the state, continue in a new journal file and remove files that are
        no longer needed. Every transaction of the state must have been appended.

        If the system refuses (no space, no descriptor left), the journal goes on as it is, since it
        contains everything that a snapshot would; the next snapshot is due after as many
        transactions again. Raises StorageFailed when the new journal file can be neither used nor
        removed.
        """
        self.unsnapshotted_count = 0
        path = self._directory / f"snapshot.{state.last_zxid:016x}"
        temporary = path.with_suffix(path.suffix + ".tmp")
        try:
            # Nobody else may read it: it holds what ACLs protect, and passwords of sessions.
            private = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(private, "wb") as file:
                for chunk in encode_snapshot(state):
                    file.write(chunk)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            temporary.replace(path)
            self._sync_directory()
            self._begin_journal(_journal_path(self._directory, state.last_zxid + 1))
            self._purge()
        except OSError as error:
            _logger.warning("no snapshot in %s: %s", self._directory, error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _begin_journal(self, path: Path) -> None:
        """Switch to another journal file; on an OSError stay with the present one."""
        is_new = not path.exists()
        try:
            following = _open_journal(path)
            try:
                self._sync_directory()
            except OSError:
                os.close(following)
                raise
        except OSError as error:
            # The old file goes on growing, and recovery would take this one for its continuation.
            try:
                if is_new:
                    path.unlink(missing_ok=True)
            except OSError as stuck:
                raise StorageFailed(f"registry journal {path}: {error}; {stuck}") from error
            raise
        os.close(self._journal)
        self._journal = following

    def size_bytes(self) -> int:
        """The size of journal and snapshots on disk; 0 if it cannot be determined."""
        try:
            return sum(
                path.stat().st_size
                for kind in ("journal", "snapshot")
                for _, path in _numbered(self._directory, kind)
            )
        except OSError:
            return 0

    def close(self) -> None:
        """Close the files and release the lock."""
        os.close(self._journal)
        os.close(self._lock)

    def _purge(self) -> None:
        """Remove all but the newest snapshots and the journal from the oldest of them on."""
        snapshots = _numbered(self._directory, "snapshot")
        for _, path in snapshots[:-KEPT_SNAPSHOTS]:
            path.unlink(missing_ok=True)
        if len(snapshots) < KEPT_SNAPSHOTS:
            return
        oldest_kept_zxid = snapshots[-KEPT_SNAPSHOTS][0]
        journals = _numbered(self._directory, "journal")
        for (_, path), (following_zxid, _) in itertools.pairwise(journals):
            if following_zxid <= oldest_kept_zxid + 1:
                path.unlink(missing_ok=True)

    def _sync_directory(self) -> None:
        if self._fsync:
            directory = os.open(self._directory, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)


def _take_lock(directory: Path) -> int:
    lock = os.open(directory / "registry.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise StorageFailed(f"registry directory {directory} is used by another process") from error
    return lock


def _recover(directory: Path, tick_time_ms: int, now_ms: MonotonicMs) -> tuple[int, RegistryState]:
    """The newest journal file, open for appending, and the recovered state."""
    for leftover in directory.glob("*.tmp"):
        leftover.unlink()
    state, snapshot_zxid = _load_snapshot(directory, tick_time_ms, now_ms)
    newest = _replay(directory, state, now_ms)
    if state.last_zxid < snapshot_zxid:
        raise StorageFailed(
            f"{directory}: the newest snapshot is damaged, and the journal ends at zxid "
            f"{state.last_zxid:#x} before it: restore it from a copy"
        )
    return _open_journal(newest or _journal_path(directory, state.last_zxid + 1)), state


def _load_snapshot(
    directory: Path, tick_time_ms: int, now_ms: MonotonicMs
) -> tuple[RegistryState, int]:
    """The state of the newest valid snapshot, and the zxid of the newest snapshot of all."""
    snapshots = _numbered(directory, "snapshot")
    newest_zxid = snapshots[-1][0] if snapshots else 0
    for _, path in reversed(snapshots):
        try:
            return decode_snapshot(path.read_bytes(), tick_time_ms, now_ms), newest_zxid
        except (MalformedRecord, KeyError) as error:
            _logger.warning("%s is damaged (%s): trying the one before it", path, error)
    return RegistryState(tick_time_ms), newest_zxid


def _replay(directory: Path, state: RegistryState, now_ms: MonotonicMs) -> Path | None:
    """Apply the journal's transactions after the state, and cut off a torn tail; returns the newest
    journal file.
    """
    journals = _numbered(directory, "journal")
    for index, (_, path) in enumerate(journals):
        is_newest = index == len(journals) - 1
        if not is_newest and journals[index + 1][0] <= state.last_zxid + 1:
            continue
        try:
            for payload in scan_entries(path.read_bytes()):
                transaction = decode_transaction(payload)
                if transaction.zxid <= state.last_zxid:
                    continue
                if transaction.zxid != state.last_zxid + 1:
                    raise StorageFailed(
                        f"{path}: transaction {transaction.zxid:#x} follows {state.last_zxid:#x}, "
                        "those between are missing: restore the directory from a copy"
                    )
                state.apply(transaction, now_ms)
        except TornEntry as torn:
            if not is_newest:
                raise StorageFailed(f"{path} is damaged: {torn}") from torn
            _logger.warning(
                "%s: cut off a torn tail (%s), recovered up to zxid %#x",
                path,
                torn,
                state.last_zxid,
            )
            os.truncate(path, torn.position)
        except MalformedRecord as error:
            raise StorageFailed(f"{path} holds no transactions of ours: {error}") from error
    return journals[-1][1] if journals else None


def _open_journal(path: Path) -> int:
    """Open a journal file for appending; a new one, or one with a torn header, gets its header."""
    journal = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(journal).st_size < len(FILE_HEADER):
            os.ftruncate(journal, 0)
            _write_whole(journal, FILE_HEADER)
    except OSError:
        os.close(journal)
        raise
    return journal


def _write_whole(descriptor: int, content: bytes) -> None:
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def _journal_path(directory: Path, zxid: int) -> Path:
    return directory / f"journal.{zxid:016x}"


def _newest_snapshot_zxid(directory: Path) -> int:
    snapshots = _numbered(directory, "snapshot")
    return snapshots[-1][0] if snapshots else 0


def _numbered(directory: Path, kind: str) -> list[tuple[int, Path]]:
    """Files `kind.<16 hex digits>` with their numbers, lowest first."""
    return sorted(
        (int(path.name[-16:], 16), path) for path in directory.glob(f"{kind}.{'[0-9a-f]' * 16}")
    )
