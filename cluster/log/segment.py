"""One segment: its bytes, its indexes, and the lookup of offsets."""

import logging
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from cluster.log.batch_walk import SHORTEST, WALK, next_offset_at, walk
from cluster.log.damage import Damage, DamagedBatch, DamageLog
from cluster.log.mmap_segment import MmapSegment
from cluster.log.open_segments import OPEN_SEGMENTS, Releasable
from cluster.log.options import LogOptions
from cluster.log.segment_indexes import SegmentIndexes
from cluster.log.segment_paths import segment_path
from cluster.log.segment_tail import SegmentTail
from cluster.log.unchecked import NO_BATCH, UncheckedBytes
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
from cluster.records.producer_walk import ProducerBatch
from cluster.records.walk import producer_batches

WALKED_BATCHES: Final = 16_384
"""At a time: of each producer among them, the last ones matter."""
_log = logging.getLogger(__name__)


def modified_ms(segment: "Segment") -> int:
    """The modification time of a segment's file, in milliseconds since 1970. Raises
    StorageFailed."""
    path = segment.file.path
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise StorageFailed(f"cannot read {path}: {error.strerror}") from error


class Segment:
    """Batches from `base_offset` on; the last segment of a log is active, the others are closed.

    Invariant: index entries point to batches of this file.
    """

    __slots__ = (
        "__weakref__",
        "base_offset",
        "created_ms",
        "damage",
        "directory",
        "file",
        "indexes",
        "is_active",
        "options",
        "tail",
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
        """A segment over its existing files; `is_new` means that there are none."""
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
        """The bytes whose checksums must be compared before they are served; None for an active
        segment that this process has begun."""
        self.damage = DamageLog()
        """That of the log, once the segment belongs to one."""
        self.indexes = SegmentIndexes(directory, base_offset, options.segment_index_bytes)
        self.tail = SegmentTail(self.file, self.indexes, base_offset, created_ms)
        """What appends ask and note; of use for an active segment."""
        self.is_active = True
        """Whether batches may be added."""
        self.take_options(options)

    def take_options(self, options: LogOptions) -> None:
        """Use these options from now on."""
        self.options = options
        self.file.room = options.room
        jitter_ms = options.jitter_ms(f"{self.directory.name}/{self.base_offset}")
        self.tail.take_limits(
            options.segment_bytes, options.segment_ms - jitter_ms, options.index_interval_bytes
        )

    def start_indexing(self) -> None:
        """Start with empty indexes in memory, for a new segment or a rebuild."""
        self.indexes = SegmentIndexes(
            self.directory, self.base_offset, self.options.segment_index_bytes
        )
        self.tail.start_indexing(self.indexes)
        self.is_active = True

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of its batches; -1 if none has one."""
        return self.tail.max_timestamp_ms

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the batch with the largest timestamp."""
        return self.tail.max_timestamp_offset

    @property
    def first_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch; -1 if there is none. Raises StorageFailed."""
        return self.tail.first_timestamp_ms()

    # Writing

    def close_for_writing(self) -> None:
        """Truncate the file to its size and write the indexes. Raises StorageFailed."""
        self.file.seal()
        self.write_indexes()
        self.indexes.close()
        self.is_active = False
        self.tail.forget_positions()
        self._count_openings()

    def _count_openings(self) -> None:
        """Count this segment among the open closed segments, whose number is limited."""
        ourselves: weakref.ref[Releasable] = weakref.ref(self, OPEN_SEGMENTS.forget)
        # A reference keeps its hash but cannot compute it after the object is freed.
        hash(ourselves)
        self.file.follow_openings(partial(OPEN_SEGMENTS.on_opened, ourselves))
        if self.file.is_open:
            OPEN_SEGMENTS.on_opened(ourselves)

    def release(self) -> None:
        """Close the files until the next read; existing slices stay readable."""
        self.file = self.tail.file = self.file.unopened()
        self.indexes.release()

    def write_indexes(self) -> None:
        """Write both index files of an active segment. Raises StorageFailed."""
        self.indexes.write(self.max_timestamp_ms, self.max_timestamp_offset)

    def trust_indexes(self, *, active: bool) -> None:
        """Use the index files unchanged. Raises StorageFailed."""
        last = self.indexes.load(self.options.segment_index_bytes, active=active)
        self.is_active = active
        self.tail.on_loaded(last)
        if not active:
            self._count_openings()

    # Reading

    def locate(self, offset: int) -> int:
        """Position of the batch that holds an offset, or of the first one after it.

        Returns the file's size if every batch is before the offset. Raises DamagedBatch if the walk
        to the offset meets a damaged batch.
        """
        position = self.tail.position_of(offset)
        if position >= 0:
            return position
        size = self.file.size_bytes
        if not size:
            return 0
        position = self.indexes.offsets.position_of(max(0, offset - self.base_offset))
        if position:
            position = self.checked_entry(position, offset)
        position, is_sound = walk(self.file.mapping(), position, size, offset)
        if not is_sound:
            raise self.note_damage(position, NO_BATCH)
        return position

    def boundary_before(self, start: int, limit: int) -> int:
        """Where the last whole batch in [start, limit) ends, or a damaged batch begins.

        Returns `start` if there is no whole batch.
        """
        size = self.file.size_bytes
        if limit >= size:
            return size
        position = self.indexes.offsets.position_before(limit)
        if position > start:
            position = self.checked_entry(position, self.base_offset + MAX_INT32)
        position = max(start, position)
        mapping = self.file.mapping()
        while position + HEADER_BYTES <= limit:
            _, length, magic, _ = WALK.unpack_from(mapping, position)
            after = position + length + LENGTH_OVERHEAD_BYTES
            if magic != MAGIC_V2 or length < SHORTEST or after > limit:
                break
            position = after
        return position

    def checked_entry(self, position: int, offset: int) -> int:
        """Verify a position that an index returned for an offset.

        If no batch at or before the offset begins there, the index file is damaged or belongs to
        another segment. The indexes are then rebuilt and 0 is returned.
        """
        if self.indexes.are_own:
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

    def note_damage(self, position: int, defect: str) -> DamagedBatch:
        """Report a defect of the batch at a position; returns the error to raise."""
        start = self.indexes.offsets.position_before(position - 1) if position else 0
        offset = next_offset_at(self.file.mapping(), start, position, self.base_offset)
        self.damage.note(self.file.path, Damage(self.base_offset, position, offset, defect))
        return DamagedBatch(self.file.path, position)

    def batch_end(self, position: int) -> int:
        """The end position of the batch at a position. Raises DamagedBatch."""
        size = self.file.size_bytes
        if position + HEADER_BYTES <= size:
            _, length, magic, _ = WALK.unpack_from(self.file.mapping(), position)
            end: int = position + length + LENGTH_OVERHEAD_BYTES
            if magic == MAGIC_V2 and length >= SHORTEST and end <= size:
                return end
        raise self.note_damage(position, NO_BATCH)

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a position to the end.

        Raises Refused(corrupt_message) if there is no batch at a position.
        """
        size = self.file.size_bytes
        while position < size:
            header = read_header(self.file.mapping(), position)
            if header.batch_length < SHORTEST:
                raise self.note_damage(position, NO_BATCH)
            yield position, header
            position += header.size_bytes

    def producer_batches_from(
        self, position: int, end: int | None = None
    ) -> Iterator[tuple[list[ProducerBatch], int]]:
        """The batches with a producer id from a position to `end`, by default that of the file,
        some at a time, and where the next one begins.

        See `producer_walk.producer_batches` about those that are left out. Raises DamagedBatch
        after those before it if there is no batch at a position.
        """
        end = self.file.size_bytes if end is None else end
        while position < end:
            batches, position, is_sound = producer_batches(
                self.file.mapping(), position, end, WALKED_BATCHES
            )
            yield batches, position
            if not is_sound:
                raise self.note_damage(position, NO_BATCH)

    # Cutting

    def truncate(self, position: int, end_offset: int) -> None:
        """Make this the active segment, ending at a batch boundary. Raises StorageFailed."""
        if not self.is_active:
            self.trust_indexes(active=True)
        if self.unchecked is not None:
            self.unchecked.forget_file()
        self.file.follow_openings(None)  # it becomes active, so it stays open
        OPEN_SEGMENTS.forget(weakref.ref(self))
        self.file.truncate(position)
        if self.unchecked is not None:
            self.unchecked.truncate(position)
        last = self.indexes.truncate(position, end_offset)
        tail = self.tail
        tail.forget_positions()
        tail.max_timestamp_ms, tail.max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        if last is not None:
            tail.max_timestamp_ms = last[0]
            tail.max_timestamp_offset = self.base_offset + last[1]
        # Both indexes get their entries at the same time, the time index only for a larger
        # timestamp. Batches after the last entry of the offset index may have larger ones.
        start = self.indexes.offsets.position_before(position)
        if start:
            start = self.checked_entry(start, end_offset)
        for _, header in self.headers_from(start):
            if header.max_timestamp > tail.max_timestamp_ms:
                tail.max_timestamp_ms = header.max_timestamp
                tail.max_timestamp_offset = header.last_offset

    def place_in(self, directory: Path) -> None:
        """Switch to the files of another directory with the same content. Raises OSError."""
        self.directory = directory
        options = self.options
        self.file = MmapSegment(
            segment_path(directory, self.base_offset),
            options.preallocate_step_bytes,
            room=options.room,
        )
        self.indexes = self.indexes.moved_to(directory)
        self.tail = self.tail.moved_to(self.file, self.indexes)
        if not self.is_active:
            self._count_openings()


def rebuild_indexes(segment: Segment) -> None:
    """Rebuild the indexes from the batches before the first damaged one. Raises StorageFailed."""
    _log.warning("the index of %s is damaged; rebuilding it", segment.file.path)
    is_active = segment.is_active
    segment.start_indexing()
    next_offset = segment.base_offset
    try:
        for place, header in segment.headers_from(0):
            if (
                header.magic != MAGIC_V2
                or header.base_offset < next_offset
                or header.last_offset - segment.base_offset > MAX_INT32
            ):
                break
            next_offset = header.last_offset + 1
            segment.tail.note_batch(
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
