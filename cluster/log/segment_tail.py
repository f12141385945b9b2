"""The end of an active segment, where batches are appended: what each append asks and notes.

It is apart from `segment` because mypyc compiles it (docs/decisions/012).
"""

from typing import Final

from cluster.log.mmap_segment import Located, MmapSegment
from cluster.log.segment_indexes import SegmentIndexes
from cluster.records.batch import MAX_INT32, NO_TIMESTAMP, read_header

_RECENT_BATCHES: Final = 64
_READ_ENDS: Final = 8
"""The number of ends that are kept, as followers differ in what they were told last."""
_UNKNOWN: Final = -2
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


class SegmentTail:
    """What a segment knows of its batches while they are appended. Owned by the log's thread.

    Invariant: the maximum timestamp is a batch's; remembered positions are those of this file's
    batches, or of its end.
    """

    __slots__ = (
        "_age_max_ms",
        "_base_offset",
        "_bytes_since_index",
        "_created_ms",
        "_first_timestamp_ms",
        "_index_interval_bytes",
        "_newest",
        "_older",
        "_read_ends",
        "_segment_bytes",
        "batches_noted",
        "file",
        "indexes",
        "max_timestamp_ms",
        "max_timestamp_offset",
    )

    def __init__(
        self, file: MmapSegment, indexes: SegmentIndexes, base_offset: int, created_ms: int
    ) -> None:
        """Call `take_limits` before the first append."""
        self.file = file
        self._base_offset = base_offset
        self._created_ms = created_ms
        self._segment_bytes = self._age_max_ms = self._index_interval_bytes = 0
        self.batches_noted = 0
        """How many batches `note_batch` was told of, a multiple of 64."""
        self.start_indexing(indexes)

    def take_limits(self, segment_bytes: int, age_max_ms: int, index_interval_bytes: int) -> None:
        """Use these limits from the next append on."""
        self._segment_bytes = segment_bytes
        self._age_max_ms = age_max_ms
        self._index_interval_bytes = index_interval_bytes

    def start_indexing(self, indexes: SegmentIndexes) -> None:
        """Begin with these indexes, which are empty, and without a batch."""
        self.indexes = indexes
        self._bytes_since_index = 0
        self._first_timestamp_ms = _UNKNOWN
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self._base_offset
        self.forget_positions()

    def on_loaded(self, last: tuple[int, int] | None) -> None:
        """The indexes were read from their files; `last` is the last entry of the time index."""
        self._bytes_since_index = 0
        if last is not None:
            self.max_timestamp_ms = last[0]
            self.max_timestamp_offset = self._base_offset + last[1]

    def forget_positions(self) -> None:
        """The file was cut, or is no longer appended to."""
        self._newest: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._read_ends: dict[int, int] = {}

    def moved_to(self, file: MmapSegment, indexes: SegmentIndexes) -> "SegmentTail":
        """The same for a copy of the segment in another directory."""
        moved = SegmentTail(file, indexes, self._base_offset, self._created_ms)
        moved.take_limits(self._segment_bytes, self._age_max_ms, self._index_interval_bytes)
        moved._bytes_since_index = self._bytes_since_index
        moved._first_timestamp_ms = self._first_timestamp_ms
        moved.max_timestamp_ms = self.max_timestamp_ms
        moved.max_timestamp_offset = self.max_timestamp_offset
        return moved

    def must_roll(self, size: int, last_offset: int, timestamp_ms: int, wall_ms: int) -> bool:
        """Whether a batch of this size, last offset and timestamp requires a new segment."""
        if last_offset - self._base_offset > MAX_INT32:
            return True
        held = self.file.size_bytes
        if not held:
            return False
        if held + size > self._segment_bytes or self.indexes.is_full:
            return True
        first_ms = self._first_timestamp_ms
        if first_ms == _UNKNOWN:
            first_ms = self.first_timestamp_ms()
        # The age counts by the records' timestamps, or by the broker's clock if they have none.
        has_times = first_ms >= 0 and timestamp_ms >= 0
        age_ms = timestamp_ms - first_ms if has_times else wall_ms - self._created_ms
        return age_ms > self._age_max_ms

    def first_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch; -1 if there is none. Raises StorageFailed."""
        if not self.file.size_bytes:
            return NO_TIMESTAMP
        if self._first_timestamp_ms == _UNKNOWN:
            self._first_timestamp_ms = read_header(self.file.mapping()).max_timestamp
        return self._first_timestamp_ms

    def note_batch(
        self, base_offset: int, last_offset: int, max_timestamp_ms: int, position: int, size: int
    ) -> None:
        """Index the batch at the end of the file; only for active segments."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self._bytes_since_index > self._index_interval_bytes:
            self.indexes.add(
                last_offset, position, self.max_timestamp_ms, self.max_timestamp_offset
            )
            self._bytes_since_index = 0
        self._bytes_since_index += size
        recent = self._newest
        if len(recent) >= _RECENT_BATCHES:
            self.batches_noted += _RECENT_BATCHES
            self._older = recent
            recent = self._newest = {}
        recent[base_offset] = position

    def position_of(self, base_offset: int) -> int:
        """The position of the batch with this base offset, if it is remembered; else -1."""
        position = self._newest.get(base_offset)
        if position is None:
            position = self._older.get(base_offset, -1)
        return position

    def locate_rest(self, offset: int, log_end_offset: int, max_bytes: int) -> Located | None:
        """Everything from an offset to the log end; None if the offset's position is not remembered
        or there is more than `max_bytes`.

        Remembers the log end, because a follower asks for it next.
        """
        ends = self._read_ends
        position = ends.get(offset, -1)
        if position < 0:
            position = self.position_of(offset)
            if position < 0:
                return None
        file = self.file
        end = file.size_bytes
        if end - position > max_bytes:
            return None
        if log_end_offset not in ends:
            self.note_read_to_end(log_end_offset)
        return _new(Located, (file.identity(), position, end - position))

    def note_read_to_end(self, log_end_offset: int) -> None:
        """A follower was given everything, so it asks for this offset next."""
        ends = self._read_ends
        if len(ends) >= _READ_ENDS:
            del ends[next(iter(ends))]
        ends[log_end_offset] = self.file.size_bytes
