"""The bytes of one `.log` file, read through a mapping, without knowledge of batches.

Small appends go through the mapping too, larger ones through `pwritev`, which has no page faults.
If the file system gains from it, zeros are written ahead of the copies, because faults on existing
pages are cheap. docs/decisions/004 tells which method is fastest on which file system.

Space is allocated before it is mapped: a write through a mapping into a hole of a full disk would
kill the process (SIGBUS), while a refused allocation is an error that can be answered. For the same
reason the file never shrinks below a mapped and used byte while this process may read it.
"""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cluster.log.directory_room import DirectoryRoom
from cluster.log.file_systems import gains_from_zeros
from cluster.log.files import LogFiles, files_of
from cluster.model.errors import StorageFailed, ensure

_PAGE: Final = mmap.PAGESIZE
_FIRST_STEP_BYTES: Final = 256 * 1024
_ZEROS: Final = bytes(1 << 20)
_ZEROED_BYTES: Final = 256 * 1024
"""How far zeros are written ahead of the end, which takes some 50 us."""
_WRITE_FROM_BYTES: Final = 8 * 1024
"""From here on a system call is cheaper than the page faults of a copy into the mapping."""
_WRITE_ZEROED_FROM_BYTES: Final = 128 * 1024
"""The same where zeros are written ahead."""
MAX_POSITION: Final = 2**31 - 1
"""Positions are int32 in Kafka's index."""


class FileIdentity(NamedTuple):
    """What another process needs to open a segment file and to know that it is this one.

    The inode tells a file from its successor of the same name.
    """

    path: str
    inode: int


class Located(NamedTuple):
    """Whole batches in a segment file, for a reader in another process."""

    file: FileIdentity
    """The same object for each range of one open file."""
    position: int
    size_bytes: int


def allocate_blocks(files: LogFiles, descriptor: int, position: int, size_bytes: int) -> None:
    """Allocate zero-filled blocks for a range at the end of a file. Raises OSError."""
    if files.allocate is not None:
        try:
            files.allocate(descriptor, position, size_bytes)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
        else:
            return
    end = position + size_bytes
    while position < end:
        position += files.pwrite(descriptor, memoryview(_ZEROS)[: end - position], position)


class MmapSegment:
    """One segment file. It lives as long as its log or a slice of it.

    Invariants: bytes [0, size_bytes) are batches; all later bytes of the file are zero. The
    descriptor closes with the last reference, so a slice of a deleted segment stays readable.
    """

    __slots__ = (
        "__weakref__",
        "_capacity",
        "_descriptor",
        "_files",
        "_identity",
        "_mapping",
        "_on_open",
        "_step_bytes",
        "_whole_bytes",
        "_writable",
        "_write_from",
        "_zeroes_ahead",
        "path",
        "room",
        "size_bytes",
    )

    def __init__(
        self,
        path: Path,
        step_bytes: int,
        *,
        whole_bytes: int = 0,
        is_new: bool = False,
        room: DirectoryRoom | None = None,
    ) -> None:
        """The file is opened or created on first use; its existing content counts as used.

        The file grows by steps; if `whole_bytes` is given and fits on the disk, the first append
        allocates that size. `room` is asked before each allocation. With `is_new` the file is
        assumed to be absent.
        """
        self.room = room
        self.path = path
        self._files = files_of(path)
        self._step_bytes = step_bytes
        self._whole_bytes = whole_bytes
        self._descriptor = -1
        self._identity: FileIdentity | None = None
        self._mapping: mmap.mmap | None = None
        self._writable = 0  # end of the range of the mapping that can be copied into
        self._write_from = 0 if self._files.sees_each_access else _WRITE_FROM_BYTES
        self._zeroes_ahead: bool | None = None  # unknown until the file is open
        self._on_open: Callable[[], None] | None = None
        self._capacity = 0 if is_new else self._size_on_disk()
        self.size_bytes = self._capacity

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def fileno(self) -> int:
        """The descriptor of the file, for sendfile, preadv and fdatasync."""
        if self._descriptor < 0:
            try:
                flags = os.O_RDWR | os.O_CLOEXEC | (0 if self._capacity else os.O_CREAT)
                self._descriptor = self._files.open(self.path, flags, 0o644)
            except OSError as error:
                raise StorageFailed(f"cannot open {self.path}: {error.strerror}") from error
            if self._on_open is not None:
                self._on_open()
        return self._descriptor

    def identity(self) -> FileIdentity:
        """The file's name and inode. Raises StorageFailed if it cannot be opened."""
        known = self._identity
        if known is None:
            # The inode stays the file's own while the descriptor is open.
            known = FileIdentity(str(self.path), os.fstat(self.fileno()).st_ino)
            self._identity = known
        return known

    @property
    def is_open(self) -> bool:
        """Whether it has a descriptor."""
        return self._descriptor >= 0

    def follow_openings(self, on_open: Callable[[], None] | None) -> None:
        """Have a call made whenever the file is opened or mapped; None: no longer."""
        self._on_open = on_open

    def unopened(self) -> "MmapSegment":
        """The same file without a descriptor or mapping; this object stays valid for its
        holders."""
        other = MmapSegment(self.path, self._step_bytes, is_new=True, room=self.room)
        other._capacity, other.size_bytes = self._capacity, self.size_bytes
        other._on_open = self._on_open
        return other

    def mapping(self) -> mmap.mmap:
        """A mapping of at least [0, size_bytes), which must not be empty."""
        mapping = self._mapping
        return self._map(self.size_bytes, mmap.ACCESS_READ) if mapping is None else mapping

    def view(self, position: int, size_bytes: int) -> memoryview:
        """Read-only bytes of the file, without a copy; stays valid when the segment is deleted."""
        if not size_bytes:
            return memoryview(b"")
        mapping = self._mapping
        if mapping is None:
            mapping = self._map(self.size_bytes, mmap.ACCESS_READ)
        return memoryview(mapping)[position : position + size_bytes].toreadonly()

    def append(self, data: memoryview | bytearray, head: bytes = b"") -> int:
        """Copy bytes to the end, with `head` in place of the first ones.

        Returns the position of the bytes. Raises StorageFailed.
        """
        start = self.size_bytes
        end = start + len(data)
        mapping = self._mapping
        if mapping is None or end > self._writable:
            mapping = self._mapping_for_append(end)
        if end - start >= self._write_from:
            self._write(start, data, head)
        else:
            mapping[start:end] = data
            if head:
                mapping[start : start + len(head)] = head
        self.size_bytes = end
        return start

    def erase(self, position: int, end: int) -> None:
        """Overwrite a range with zeros, so that recovery does not read it as batches.

        The file is not shortened: views of the range may still be waiting to be sent.
        """
        if position >= end:
            return
        mapping = self._mapping_for_append(end)
        for start in range(position, end, len(_ZEROS)):
            stop = min(end, start + len(_ZEROS))
            mapping[start:stop] = _ZEROS[: stop - start]

    def truncate(self, position: int) -> None:
        """Make `position` the end and erase the bytes after it."""
        self.erase(position, self.size_bytes)
        self.size_bytes = position

    def seal(self) -> None:
        """Truncate the file to its real size, which later reads map. Raises StorageFailed."""
        if self._capacity != self.size_bytes:
            try:
                self._files.truncate(self.fileno(), self.size_bytes)
            except OSError as error:
                raise StorageFailed(f"cannot truncate {self.path}: {error.strerror}") from error
            self._capacity = self.size_bytes
        self._mapping = None
        self._writable = 0

    def _size_on_disk(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _mapping_for_append(self, end: int) -> mmap.mmap:
        mapping = self._mapping
        if mapping is None or end > self._writable:
            if mapping is None or end > self._capacity or not self._writable:
                mapping = self._grow(end)
            self._writable = self._prepare(end)
        return mapping

    def _prepare(self, end: int) -> int:
        """Write zeros ahead of a copy up to `end` if that is faster.

        Returns the position up to which bytes can be copied before the next call. Raises
        StorageFailed.
        """
        start = -(-max(self.size_bytes, _FIRST_STEP_BYTES) // _PAGE) * _PAGE
        if end <= start:  # not for the first bytes, because most partitions stay small
            return min(start, self._capacity)
        try:
            if not self._gains_from_zeros():
                return self._capacity
            if end - self.size_bytes >= self._write_from:
                return end
            until = min(self._capacity, max(end, start + _ZEROED_BYTES))
            while start < until:
                start += self._files.pwrite(
                    self.fileno(), memoryview(_ZEROS)[: until - start], start
                )
        except OSError as error:
            raise StorageFailed(f"cannot write {self.path}: {error.strerror}") from error
        return until

    def _gains_from_zeros(self) -> bool:
        gains = self._zeroes_ahead
        if gains is None:
            gains = self._zeroes_ahead = gains_from_zeros(self.fileno())
            if gains and not self._files.sees_each_access:
                self._write_from = _WRITE_ZEROED_FROM_BYTES
        return gains

    def _write(self, start: int, data: memoryview | bytearray, head: bytes) -> None:
        """Write into allocated and mapped space."""
        rest = memoryview(data)[len(head) :]
        descriptor = self.fileno()
        try:
            done = self._files.pwritev(descriptor, (head, rest), start)
            end = start + len(data)
            while start + done < end:  # a signal or a lack of space can shorten a write
                written = max(0, done - len(head))
                part = (head[done:], rest[written:])
                done += self._files.pwritev(descriptor, part, start + done)
        except OSError as error:
            self.erase(start, start + len(data))
            raise StorageFailed(f"cannot write {self.path}: {error.strerror}") from error

    def _grow(self, end: int) -> mmap.mmap:
        ensure(end <= MAX_POSITION, f"{self.path.name} would pass 2 GiB")
        if end > self._capacity or not self._capacity:
            # Doubling from a small first step, because most partitions stay small.
            step = min(max(self._capacity, _FIRST_STEP_BYTES), self._step_bytes)
            wanted = max(end, self._capacity + step, self._whole_bytes)
            wanted = -(-wanted // _PAGE) * _PAGE
            self._allocate(min(wanted, MAX_POSITION), end)
        return self._map(self._capacity, mmap.ACCESS_WRITE)

    def _allocate(self, wanted: int, needed: int) -> None:
        descriptor = self.fileno()
        room = self.room
        for capacity in (wanted, needed):
            is_ahead = capacity > needed
            step_bytes = capacity - self._capacity
            if room is not None and not room.admits(step_bytes, descriptor, is_ahead=is_ahead):
                if is_ahead:
                    continue
                room.note_refused(None)
                raise room.failure()
            try:
                allocate_blocks(self._files, descriptor, self._capacity, capacity - self._capacity)
            except OSError as error:
                self._files.truncate(descriptor, self._capacity)
                if error.errno == errno.ENOSPC and is_ahead:
                    continue  # a whole step does not fit, but the batch may
                if room is not None:
                    room.note_refused(error)
                raise StorageFailed(
                    f"cannot allocate {capacity - self._capacity} bytes for {self.path}: "
                    f"{error.strerror}"
                ) from error
            self._capacity = capacity
            return

    def _map(self, size_bytes: int, access: int) -> mmap.mmap:
        if self._on_open is not None:
            self._on_open()
        # A new mapping each time: views of the old one keep it alive.
        try:
            mapping = self._files.map(self.fileno(), size_bytes, access=access)
        except (OSError, ValueError) as error:
            raise StorageFailed(f"cannot map {self.path}: {error}") from error
        if not self._files.sees_each_access:
            self._mapping = mapping
        return mapping
