"""One segment: its bytes, its two indexes, and where in it an offset is.

Files: `<20-digit base offset>` with `.log`, `.index`, `.timeindex`. The indexes of the active
segment are in memory and are written when it closes; recovery rebuilds them from the batches.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cluster.brokers.log import offset_index, time_index
from cluster.brokers.log.mmap_segment import MmapSegment
from cluster.brokers.log.offset_index import ActiveOffsetIndex, ClosedOffsetIndex, OffsetIndex
from cluster.brokers.log.options import LogOptions
from cluster.brokers.log.time_index import TimeIndex
from cluster.model.clocks import WallMs
from cluster.model.errors import StorageFailed
from cluster.records.batch import (
    LENGTH_OVERHEAD_BYTES,
    MAX_INT32,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
_RECENT_BATCHES: Final = 64

# What a walk from batch to batch needs: base offset, batch length, last offset delta.
_WALK: Final = struct.Struct(">qi11xi")


def segment_path(directory: Path, base_offset: int, suffix: str = LOG_SUFFIX) -> Path:
    """A file of the segment that begins at this offset."""
    return directory / f"{base_offset:020d}{suffix}"


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
        "_active_index",
        "_active_time_index",
        "_bytes_since_index",
        "_first_timestamp_ms",
        "_index",
        "_is_index_full",
        "_newest_recent",
        "_older_recent",
        "base_offset",
        "created_ms",
        "directory",
        "file",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "options",
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
            segment_path(directory, base_offset), options.preallocate_step_bytes, is_new=is_new
        )
        self.options = options
        self._index: OffsetIndex = ActiveOffsetIndex(options.segment_index_bytes)
        self._active_index: ActiveOffsetIndex | None = None
        self._active_time_index: TimeIndex | None = None
        self.start_indexing()

    def start_indexing(self) -> None:
        """Begin with empty indexes in memory: a new segment, or one to be rebuilt."""
        self._index = self._active_index = ActiveOffsetIndex(self.options.segment_index_bytes)
        self._active_time_index = TimeIndex(self.options.segment_index_bytes)
        self._bytes_since_index = 0
        self._first_timestamp_ms: int | None = None
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._newest_recent: dict[int, int] = {}
        self._older_recent: dict[int, int] = {}
        self._note_index_room()

    @property
    def paths(self) -> list[Path]:
        """Every file that a segment may have; some may be absent."""
        suffixes = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        return [segment_path(self.directory, self.base_offset, suffix) for suffix in suffixes]

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
            or age_ms > options.segment_ms
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
        self._note_index_room()
        self._newest_recent, self._older_recent = {}, {}

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
        """True when both index files are there and hold whole entries."""
        return offset_index.is_sound(
            self._path(INDEX_SUFFIX), offset_index.ENTRY_BYTES
        ) and offset_index.is_sound(self._path(TIME_INDEX_SUFFIX), time_index.ENTRY_BYTES)

    def trust_indexes(self, *, active: bool) -> None:
        """Use the index files as they are: into memory when active, from the file otherwise.

        Raises StorageFailed.
        """
        index_bytes = self.options.segment_index_bytes
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

        The file's size when every batch here is before the offset.
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
        mapping = self.file.mapping()
        while position < size:
            base_offset, batch_length, last_offset_delta = _WALK.unpack_from(mapping, position)
            if base_offset + last_offset_delta >= offset:
                break
            position += batch_length + LENGTH_OVERHEAD_BYTES
        return position

    def boundary_before(self, start: int, limit: int) -> int:
        """Where the last batch ends that lies whole in [start, limit); `start` when none does."""
        size = self.file.size_bytes
        if limit >= size:
            return size
        position = max(start, self._index.position_before(limit))
        mapping = self.file.mapping()
        while position < limit:
            after = position + _WALK.unpack_from(mapping, position)[1] + LENGTH_OVERHEAD_BYTES
            if after > limit:
                break
            position = after
        return position

    def batch_end(self, position: int) -> int:
        """Where the batch at a position ends."""
        length: int = _WALK.unpack_from(self.file.mapping(), position)[1]
        return position + length + LENGTH_OVERHEAD_BYTES

    def base_offset_at(self, position: int) -> int:
        """Base offset of the batch at a position."""
        base_offset: int = _WALK.unpack_from(self.file.mapping(), position)[0]
        return base_offset

    def last_offset(self) -> int | None:
        """Offset of the last record; None when the segment is empty."""
        last = None
        for _, header in self.headers_from(self._index.position_before(self.file.size_bytes)):
            last = header.last_offset
        return last

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a position to the end."""
        size = self.file.size_bytes
        while position < size:
            header = read_header(self.file.mapping(), position)
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
        return self._index.position_of(times.offset_before(timestamp_ms))

    # Cutting

    def truncate(self, position: int, end_offset: int) -> None:
        """Make this the active segment, ending at a batch boundary. Raises StorageFailed."""
        if self._active_index is None:
            self.trust_indexes(active=True)
        index, times = self._active_index, self._active_time_index
        if index is None or times is None:
            return
        self.file.truncate(position)
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

    def remove_files(self) -> None:
        """Unlink the files; slices handed out stay readable. Raises StorageFailed."""
        try:
            for path in self.paths:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot delete {error.filename}: {error.strerror}") from error
