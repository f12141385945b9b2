"""Whether the file system of a log directory has room for more records.

Records leave a reserve free for what a full broker still has to write: checkpoints, deletions, and
the registry's journal if it is on the same disk. Leaders refuse records once only the reserve is
left. Followers may use half of it, so that they can still copy records that their leaders have
accepted, even if all replicas share one disk.
"""

import errno
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from cluster.log.files import files_of
from cluster.model.errors import StorageFailed
from cluster.model.sizes import size_text

_SHARE_OF_DISK: Final = 10
"""The reserve takes no more than this fraction of a file system."""
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_PROBE_NAME: Final = ".room-probe"
_PROBE_BYTES: Final = 1 << 20
_LOOKS_BEFORE_PROBE: Final = 10
_AGAIN_LEAST_BYTES: Final = 1 << 20


class DiskSpace(NamedTuple):
    """Sizes of a file system in bytes; `free_bytes` excludes the blocks reserved for root."""

    free_bytes: int
    total_bytes: int


def disk_space(path: Path, descriptor: int | None = None) -> DiskSpace:
    """The space of the file system that holds a path, queried through `descriptor` if given.

    Raises OSError.
    """
    disk = files_of(path).space(path if descriptor is None else descriptor)
    return DiskSpace(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def reserve_of(wanted_bytes: int, total_bytes: int) -> int:
    """The reserve for a file system of this size."""
    return min(wanted_bytes, total_bytes // _SHARE_OF_DISK)


class DirectoryRoom:
    """The free space of one log directory. Owned by the broker's thread.

    Invariant: a used-up directory is also full. It leaves either state only when a quarter of the
    reserve, and at least 1 MiB, is free beyond the threshold, so that the state does not flap.
    """

    def __init__(self, path: Path, reserve_bytes: int = 0) -> None:
        self.path = path
        self.is_full = False
        """Leaders refuse records, and another in-sync replica should lead."""
        self.is_used_up = False
        """Followers refuse records too."""
        self._on_changed: Callable[[], None] | None = None
        self._wanted_bytes = reserve_bytes
        self._space = DiskSpace(0, 0)
        self._refusal: str | None = None
        """The system's error when it refused space although some is free, as with a disk quota."""
        self._looks_since_refusal = 0

    def watch(self, reserve_bytes: int, on_changed: Callable[[], None]) -> None:
        """Keep a reserve free from now on, and call `on_changed` when `is_full` or `is_used_up`
        changes.

        The call may happen in the middle of an append.
        """
        self._wanted_bytes = reserve_bytes
        self._on_changed = on_changed

    @property
    def space(self) -> DiskSpace:
        """The free and total space at the last measurement."""
        return self._space

    @cached_property
    def device(self) -> int | None:
        """The device number of the file system; None if unknown."""
        try:
            return self.path.stat().st_dev
        except OSError:
            return None

    @property
    def reserve_bytes(self) -> int:
        """The number of bytes that records leave free."""
        return reserve_of(self._wanted_bytes, self._space.total_bytes)

    def look(self) -> None:
        """Measure the free space, which may change whether the directory is full."""
        try:
            self._space = disk_space(self.path)
        except OSError:
            return  # the next read or write of the directory reports the problem
        if self._refusal is not None and not self._is_taken_again():
            return
        free, reserve = self._space.free_bytes, self.reserve_bytes
        again = max(reserve // 4, _AGAIN_LEAST_BYTES)
        self._set(
            free < reserve + (again if self.is_full else 0),
            free < reserve // 2 + (again if self.is_used_up else 0),
        )

    def admits(self, size_bytes: int, descriptor: int, *, is_ahead: bool) -> bool:
        """Whether a log may take `size_bytes` more of the disk; updates the state if it is full.

        Preallocated space (`is_ahead`) must leave the whole reserve free.
        """
        try:
            self._space = disk_space(self.path, descriptor)
        except OSError:
            return True
        free = self._space.free_bytes - size_bytes
        reserve = self.reserve_bytes
        if free >= reserve:
            return True
        if free >= reserve // 2 and not is_ahead:
            # Leaders stop with this batch.
            self._set(True, self.is_used_up)
            return True
        return False

    def note_refused(self, error: OSError | None) -> None:
        """Record a refused allocation, with the system's error or None if the reserve was the
        reason."""
        if error is not None and error.errno in NO_ROOM:
            if self._space.free_bytes >= max(self.reserve_bytes, _PROBE_BYTES):
                self._refusal = error.strerror
            self._looks_since_refusal = 0
            self._set(True, True)
        elif error is None:
            self._set(True, True)

    @property
    def text(self) -> str:
        """A sentence that names the directory and its free space."""
        space = self._space
        text = (
            f"log directory {self.path} is full: {size_text(space.free_bytes)} of"
            f" {size_text(space.total_bytes)} are free, {size_text(self.reserve_bytes)} of that is"
            " the reserve"
        )
        return text if self._refusal is None else f"{text}; more is refused: {self._refusal}"

    def failure(self) -> StorageFailed:
        failure = StorageFailed(self.text)
        failure.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return failure

    def _set(self, is_full: bool, is_used_up: bool) -> None:
        before = self.is_full, self.is_used_up
        self.is_full, self.is_used_up = is_full or is_used_up, is_used_up
        if before != (self.is_full, self.is_used_up) and self._on_changed is not None:
            self._on_changed()

    def _is_taken_again(self) -> bool:
        """At every tenth check, test whether the system still refuses space."""
        self._looks_since_refusal += 1
        if self._looks_since_refusal < _LOOKS_BEFORE_PROBE:
            return False
        self._looks_since_refusal = 0
        files, probe = files_of(self.path), self.path / _PROBE_NAME
        try:
            descriptor = files.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                written = files.write(descriptor, bytes(_PROBE_BYTES))
            finally:
                os.close(descriptor)
                files.unlink_if_there(probe)
        except OSError:
            return False
        if written == _PROBE_BYTES:
            self._refusal = None
        return self._refusal is None


def common_space(rooms: Iterable[DirectoryRoom]) -> DiskSpace:
    """The total space of the file systems of several directories, each counted once.

    The sizes are those of the last measurement.
    """
    by_device = {room.device: room.space for room in rooms}
    free_bytes = sum(space.free_bytes for space in by_device.values())
    return DiskSpace(free_bytes, sum(space.total_bytes for space in by_device.values()))
