"""One segment: its bytes, its two indexes, and where in it an offset is.

Files: `<20-digit base offset>` with `.log`, `.index`, `.timeindex`. The indexes of the active
segment are in memory and are written when it closes; recovery rebuilds them from the batches.
"""

import copy
import logging
import os
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from cluster.log import offset_index, time_index, transaction_index
from cluster.log.batch_walk import SHORTEST, WALK, next_offset_at, walk
from cluster.log.damage import Damage, DamagedBatch, DamageLog
from cluster.log.mmap_segment import MmapSegment
from cluster.log.offset_index import ActiveOffsetIndex, ClosedOffsetIndex, OffsetIndex
from cluster.log.open_segments import OPEN_SEGMENTS, Releasable
from cluster.log.options import LogOptions
from cluster.log.time_index import TimeIndex
from cluster.log.unchecked import NO_BATCH, UncheckedBytes
from cluster.model.clocks import WallMs
from cluster.model.errors import Refused, StorageFailed
from cluster.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_V2,
    MAX_INT32,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)

_log = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = transaction_index.SUFFIX
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""Of every file that a segment may have; the batches first."""
_RECENT_BATCHES: Final = 64


def segment_path(directory: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    """A file of the segment that begins at this offset."""
    return directory / f"{base_offset:020d}{suffix}"


def modified_ms(segment: "Segment") -> int:
    """When a segment's file was last changed, in milliseconds since 1970. Raises StorageFailed."""
    path = segment.file.path
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror}") from error


def create_segment_file(directory: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> None:
    """Make an empty file of a segment, unless it exists. Raises StorageFailed.

    It is not kept open: a log that is not written costs no descriptor.
    """
    path = segment_path(directory, base_offset, suffix)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    except OSError as error:
        raise StorageFailed(f"cannot create {path}: {error.strerror}") from error


class Segment:
    """Batches from `base_offset` on; the last segment of a log is active, the others are closed.

    Invariant: index entries name batches of this file; the maximum timestamp is that of a batch.
    """

    __slots__ = (
        "__weakref__",
        "_active_index",
        "_active_time_index",
        "_bytes_since_index",
        "_first_timestamp_ms",
        "_has_own_index",
        "_index",
        "_is_index_full",
        "_jitter_ms",
        "_newest_recent",
        "_older_recent",
        "base_offset",
        "created_ms",
        "damage",
        "directory",
        "file",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "options",
        "unchecked",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        options: LogOptions,
        created_ms: int,
        *,
        is_new: bool = False,
    ) -> None:
        """A segment over its files, if they exist; with `is_new` that is not checked."""
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.file = MmapSegment(
            segment_path(directory, base_offset),
            options.preallocate_step_bytes,
            whole_bytes=options.segment_bytes if options.preallocate else 0,
            is_new=is_new,
            room=options.room,
        )
        self.unchecked: UncheckedBytes | None = None
        """What is to be compared with its checksums before it is served; None for an active segment
        that was begun in this life."""
        self.damage = DamageLog()
        """Of the log, once it has this segment."""
        self.take_options(options)
        self._index: OffsetIndex = ActiveOffsetIndex(options.segment_index_bytes)
        self._active_index: ActiveOffsetIndex | None = None
        self._active_time_index: TimeIndex | None = None
        self.start_indexing()

    def take_options(self, options: LogOptions) -> None:
        """Of the topic, from now on."""
        self.options = options
        self.file.room = options.room
        self._jitter_ms = options.jitter_ms(f"{self.directory.name}/{self.base_offset}")

    def start_indexing(self) -> None:
        """Begin with empty indexes in memory: a new segment, or one to be rebuilt."""
        self._index = self._active_index = ActiveOffsetIndex(self.options.segment_index_bytes)
        self._active_time_index = TimeIndex(self.options.segment_index_bytes)
        self._has_own_index = True  # made here from the batches, not taken from disk
        self._bytes_since_index = 0
        self._first_timestamp_ms: int | None = None
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._newest_recent: dict[int, int] = {}
        self._older_recent: dict[int, int] = {}
        self._note_index_room()

    @property
    def is_active(self) -> bool:
        """Whether batches may be added."""
        return self._active_index is not None

    @property
    def paths(self) -> list[Path]:
        """Every file that a segment may have; some may be absent."""
        return [self._path(suffix) for suffix in SEGMENT_SUFFIXES]

    def can_hold(self, last_offset: int) -> bool:
        """False when an offset is too far from the base for the index's int32."""
        return last_offset - self.base_offset <= MAX_INT32

    def must_roll(self, size: int, last_offset: int, timestamp_ms: int, wall_ms: WallMs) -> bool:
        """True when a batch of this size, last offset and timestamp starts a new segment."""
        if last_offset - self.base_offset > MAX_INT32:
            return True
        held = self.file.size_bytes
        if not held:
            return False
        options = self.options
        first_ms = self._first_timestamp_ms
        if first_ms is None:
            first_ms = self.first_timestamp_ms
        # Its age by the records' timestamps; by the broker's clock when they have none.
        has_times = first_ms >= 0 and timestamp_ms >= 0
        age_ms = timestamp_ms - first_ms if has_times else wall_ms - self.created_ms
        return (
            held + size > options.segment_bytes
            or age_ms > options.segment_ms - self._jitter_ms
            or self._is_index_full
        )

    @property
    def first_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch; -1 without one. Raises StorageFailed."""
        if not self.file.size_bytes:
            return NO_TIMESTAMP
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = read_header(self.file.mapping()).max_timestamp
        return self._first_timestamp_ms

    def _note_index_room(self) -> None:
        """To be called whenever index entries were added or removed."""
        index, times = self._active_index, self._active_time_index
        self._is_index_full = (
            index is None
            or len(index) >= index.max_entries
            or times is None
            or len(times) >= times.max_entries
        )

    # Writing

    def note_batch(
        self, base_offset: int, last_offset: int, max_timestamp_ms: int, position: int, size: int
    ) -> None:
        """Index a batch that now ends the file; active segments only."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self._bytes_since_index > self.options.index_interval_bytes:
            self._add_index_entry(last_offset, position)
        self._bytes_since_index += size
        recent = self._newest_recent
        if len(recent) >= _RECENT_BATCHES:
            self._older_recent = recent
            recent = self._newest_recent = {}
        recent[base_offset] = position

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        index, times = self._active_index, self._active_time_index
        if index is None or times is None:
            return
        index.append(last_offset - self.base_offset, position)
        times.append_if_newer(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)
        self._bytes_since_index = 0
        self._note_index_room()

    def close_for_writing(self) -> None:
        """Cut the file to its size and write the indexes. Raises StorageFailed."""
        self.file.seal()
        self.write_indexes()
        self._index = ClosedOffsetIndex(self._path(INDEX_SUFFIX))
        self._active_index = self._active_time_index = None
        self._has_own_index = False  # from now on it is what the file says
        self._note_index_room()
        self._newest_recent, self._older_recent = {}, {}
        self._count_openings()

    def _count_openings(self) -> None:
        """From now on, as a closed segment, this one is open among a limited number."""
        ourselves: weakref.ref[Releasable] = weakref.ref(self, OPEN_SEGMENTS.forget)
        hash(ourselves)  # a reference keeps its hash, but cannot compute it after our end
        self.file.on_open = partial(OPEN_SEGMENTS.on_opened, ourselves)
        if self.file.is_open:
            OPEN_SEGMENTS.on_opened(ourselves)

    def release(self) -> None:
        """Have nothing open until the next read; slices handed out stay readable."""
        self.file = self.file.unopened()
        if self._active_index is None:
            self._index = ClosedOffsetIndex(self._path(INDEX_SUFFIX))

    def write_indexes(self) -> None:
        """Write both index files of an active segment. Raises StorageFailed."""
        index, times = self._active_index, self._active_time_index
        if index is None or times is None:
            return
        if self.max_timestamp_ms != NO_TIMESTAMP:
            times.append_if_newer(
                self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset
            )
        try:
            index.write(self._path(INDEX_SUFFIX))
            times.write(self._path(TIME_INDEX_SUFFIX))
        except OSError as error:
            raise StorageFailed(f"cannot write the index of {self.file.path}: {error}") from error

    @property
    def has_sound_indexes(self) -> bool:
        """True when both index files are there and hold whole entries.

        The time index of a closed segment has an entry unless its records have no timestamps.
        """
        return offset_index.is_sound(
            self._path(INDEX_SUFFIX), offset_index.ENTRY_BYTES
        ) and offset_index.is_sound(self._path(TIME_INDEX_SUFFIX), time_index.ENTRY_BYTES)

    def trust_indexes(self, *, active: bool) -> None:
        """Use the index files as they are: into memory when active, from the file otherwise.

        Raises StorageFailed.
        """
        index_bytes = self.options.segment_index_bytes
        self._has_own_index = False
        self._bytes_since_index = 0
        path, time_path = self._path(INDEX_SUFFIX), self._path(TIME_INDEX_SUFFIX)
        try:
            if active:
                loaded = ActiveOffsetIndex.load(path, index_bytes)
                self._active_time_index = TimeIndex.load(time_path, index_bytes)
                self._index = self._active_index = loaded
                last = self._active_time_index.last
            else:
                self._index = ClosedOffsetIndex(path)
                self._active_index = self._active_time_index = None
                last = time_index.last_entry(time_path)
                self._count_openings()
        except OSError as error:
            raise StorageFailed(f"cannot read {error.filename}: {error.strerror}") from error
        self._note_index_room()
        if last is not None:
            self.max_timestamp_ms = last[0]
            self.max_timestamp_offset = self.base_offset + last[1]

    def _path(self, suffix: str) -> Path:
        return segment_path(self.directory, self.base_offset, suffix)

    # Reading

    def locate(self, offset: int) -> int:
        """Position of the batch that holds an offset, or of the first one after it.

        The file's size when every batch here is before the offset. Raises DamagedBatch where one is
        in the way.
        """
        position = self._newest_recent.get(offset)
        if position is None:
            position = self._older_recent.get(offset)
        if position is not None:
            return position
        size = self.file.size_bytes
        if not size:
            return 0
        position = self._index.position_of(max(0, offset - self.base_offset))
        if position:
            position = self._checked_entry(position, offset)
        position, is_sound = walk(self.file.mapping(), position, size, offset)
        if not is_sound:
            raise self.note_damage(position, NO_BATCH)
        return position

    def end_before(self, upper_offset: int) -> int:
        """Position up to which every batch is below an offset; ends at a damaged batch, too."""
        try:
            return self.locate(upper_offset)
        except DamagedBatch as damaged:
            return damaged.position

    def boundary_before(self, start: int, limit: int) -> int:
        """Where the last batch ends that lies whole in [start, limit); `start` when none does.

        Ends at a damaged batch, too.
        """
        size = self.file.size_bytes
        if limit >= size:
            return size
        position = self._index.position_before(limit)
        if position > start:
            position = self._checked_entry(position, self.base_offset + MAX_INT32)
        position = max(start, position)
        mapping = self.file.mapping()
        while position + HEADER_BYTES <= limit:
            _, length, magic, _ = WALK.unpack_from(mapping, position)
            after = position + length + LENGTH_OVERHEAD_BYTES
            if magic != MAGIC_V2 or length < SHORTEST or after > limit:
                break
            position = after
        return position

    def _checked_entry(self, position: int, offset: int) -> int:
        """A position that an index gave: where there is no batch that begins at or before this
        offset, an index from disk is damaged, or that of another segment, and 0 is returned.
        """
        if self._has_own_index:
            return position
        if position + HEADER_BYTES <= self.file.size_bytes:
            mapping = self.file.mapping()
            base_offset, length, magic, _ = WALK.unpack_from(mapping, position)
            if (
                magic == MAGIC_V2
                and length >= SHORTEST
                and self.base_offset <= base_offset <= offset
            ):
                return position
        rebuild_indexes(self)
        return 0

    def position_of_entry(self, offset: int) -> int:
        """Position of the batch from which a walk to an offset begins."""
        return self._index.position_of(max(0, offset - self.base_offset))

    def note_damage(self, position: int, defect: str) -> DamagedBatch:
        """Have it told what is wrong with the batch at a position; returns what is to be raised."""
        start = self._index.position_before(position - 1) if position else 0
        offset = next_offset_at(self.file.mapping(), start, position, self.base_offset)
        self.damage.note(self.file.path, Damage(self.base_offset, position, offset, defect))
        return DamagedBatch(self.file.path, position)

    def look_at_file(self) -> None:
        """Before a read. Raises DamagedBatch for a closed segment whose file was cut."""
        if self.unchecked is None or self._active_index is not None:
            return
        missing = self.unchecked.look_at_file(self.file)
        if missing:
            end = self.file.size_bytes - missing
            defect = f"the file ends there, {missing} bytes are missing"
            self.damage.note(
                self.file.path, Damage(self.base_offset, end, self.base_offset, defect)
            )
            raise DamagedBatch(self.file.path, end)

    def batch_end(self, position: int) -> int:
        """Where the batch at a position ends. Raises DamagedBatch."""
        size = self.file.size_bytes
        if position + HEADER_BYTES <= size:
            _, length, magic, _ = WALK.unpack_from(self.file.mapping(), position)
            end: int = position + length + LENGTH_OVERHEAD_BYTES
            if magic == MAGIC_V2 and length >= SHORTEST and end <= size:
                return end
        raise self.note_damage(position, NO_BATCH)

    def base_offset_at(self, position: int) -> int:
        """Base offset of the batch at a position."""
        base_offset: int = WALK.unpack_from(self.file.mapping(), position)[0]
        return base_offset

    def last_offset(self) -> int | None:
        """Offset of the last record; None when the segment is empty."""
        last = None
        for _, header in self.headers_from(self._index.position_before(self.file.size_bytes)):
            last = header.last_offset
        return last

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a position to the end.

        Raises Refused(corrupt_message) where there is none.
        """
        size = self.file.size_bytes
        while position < size:
            header = read_header(self.file.mapping(), position)
            if header.batch_length < SHORTEST:
                raise self.note_damage(position, NO_BATCH)
            yield position, header
            position += header.size_bytes

    def position_before_timestamp(self, timestamp_ms: int) -> int:
        """Position from which to look for the first batch that is not older than this.

        Raises StorageFailed.
        """
        times = self._active_time_index
        if times is None:
            path = self._path(TIME_INDEX_SUFFIX)
            try:
                times = TimeIndex.load(path, self.options.segment_index_bytes)
            except OSError as error:
                raise StorageFailed(f"cannot read {path}: {error.strerror}") from error
        relative_offset = times.offset_before(timestamp_ms)
        position = self._index.position_of(relative_offset)
        if position:
            position = self._checked_entry(position, self.base_offset + relative_offset)
        return position

    # Cutting

    def truncate(self, position: int, end_offset: int) -> None:
        """Make this the active segment, ending at a batch boundary. Raises StorageFailed."""
        if self._active_index is None:
            self.trust_indexes(active=True)
        index, times = self._active_index, self._active_time_index
        if index is None or times is None:
            return
        if self.unchecked is not None:
            self.unchecked.forget_file()
        self.file.on_open = None  # it is written again, so it stays open
        OPEN_SEGMENTS.forget(weakref.ref(self))
        self.file.truncate(position)
        if self.unchecked is not None:
            self.unchecked.truncate(position)
        index.truncate(position)
        times.truncate(end_offset - self.base_offset)
        self._note_index_room()
        self._newest_recent, self._older_recent = {}, {}
        self.max_timestamp_ms, self.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        # Batches after the last entry that is left may have larger timestamps.
        last = times.last
        start = 0
        if last is not None:
            self.max_timestamp_ms = last[0]
            self.max_timestamp_offset = self.base_offset + last[1]
            start = self.locate(self.max_timestamp_offset)
        for _, header in self.headers_from(start):
            if header.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    def relocated(self, directory: Path) -> "Segment":
        """This segment over a whole copy of its files; this one is not to be used any more."""
        moved = copy.copy(self)
        moved.place_in(directory)
        return moved

    def place_in(self, directory: Path) -> None:
        """Go on with the files of another directory, which hold the same. Raises OSError."""
        self.directory = directory
        options = self.options
        self.file = MmapSegment(
            self._path(LOG_SUFFIX), options.preallocate_step_bytes, room=options.room
        )
        if self._active_index is None:
            self._index = ClosedOffsetIndex(self._path(INDEX_SUFFIX))
            self._count_openings()

    def remove_files(self) -> None:
        """Unlink the files; slices handed out stay readable. Raises StorageFailed."""
        try:
            for path in self.paths:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot delete {error.filename}: {error.strerror}") from error


def rebuild_indexes(segment: Segment) -> None:
    """From the batches, up to the first that is none. Raises StorageFailed."""
    _log.warning("the index of %s is damaged; rebuilding it", segment.file.path)
    is_active = segment.is_active
    segment.start_indexing()
    next_offset = segment.base_offset
    try:
        for place, header in segment.headers_from(0):
            if (
                header.magic != MAGIC_V2
                or header.base_offset < next_offset
                or not segment.can_hold(header.last_offset)
            ):
                break
            next_offset = header.last_offset + 1
            segment.note_batch(
                header.base_offset,
                header.last_offset,
                header.max_timestamp,
                place,
                header.size_bytes,
            )
    except Refused:
        _log.warning("%s is damaged from offset %d on", segment.file.path, next_offset)
    if not is_active:
        segment.close_for_writing()
