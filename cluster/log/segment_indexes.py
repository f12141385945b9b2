"""The offset index and the time index of one segment.

The indexes of an active segment are in memory and are written when it closes; recovery rebuilds
them from the batches. The indexes of a closed segment are read from their files.
"""

from pathlib import Path

from cluster.log import offset_index, time_index
from cluster.log.offset_index import ActiveOffsetIndex, ClosedOffsetIndex, OffsetIndex
from cluster.log.segment_paths import INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from cluster.log.time_index import TimeIndex
from cluster.model.errors import StorageFailed


class SegmentIndexes:
    """The two indexes of a segment. Owned by the log's thread.

    Invariant: entries point to batches of the segment's file.
    """

    __slots__ = (
        "_active",
        "_base_offset",
        "_directory",
        "_index_bytes",
        "_times",
        "are_own",
        "is_full",
        "offsets",
    )

    def __init__(self, directory: Path, base_offset: int, index_bytes: int) -> None:
        """Empty indexes in memory, for a new segment or a rebuild."""
        self._directory = directory
        self._base_offset = base_offset
        self._index_bytes = index_bytes
        self._active: ActiveOffsetIndex | None = ActiveOffsetIndex(index_bytes)
        self._times: TimeIndex | None = TimeIndex(index_bytes)
        self.offsets: OffsetIndex = self._active
        self.are_own = True
        """Made here from the batches, not read from the files."""
        self._note_space()

    @property
    def are_sound(self) -> bool:
        """Whether both files exist and hold whole entries.

        The time index of a closed segment has an entry unless its records have no timestamps.
        """
        return offset_index.is_sound(
            self._path(INDEX_SUFFIX), offset_index.ENTRY_BYTES
        ) and offset_index.is_sound(self._path(TIME_INDEX_SUFFIX), time_index.ENTRY_BYTES)

    def load(self, index_bytes: int, *, active: bool) -> tuple[int, int] | None:
        """Use the existing files: loaded into memory if active, otherwise mapped on first use.

        Returns the last entry of the time index. Raises StorageFailed.
        """
        self._index_bytes = index_bytes
        self.are_own = False
        path, time_path = self._path(INDEX_SUFFIX), self._path(TIME_INDEX_SUFFIX)
        try:
            if active:
                self.offsets = self._active = ActiveOffsetIndex.load(path, index_bytes)
                self._times = TimeIndex.load(time_path, index_bytes)
                last = self._times.last
            else:
                self.close()
                last = time_index.last_entry(time_path)
        except OSError as error:
            raise StorageFailed(f"cannot read {error.filename}: {error.strerror}") from error
        self._note_space()
        return last

    def close(self) -> None:
        """Switch to reading the files; nothing is open before the first read."""
        self.offsets = ClosedOffsetIndex(self._path(INDEX_SUFFIX))
        self._active = self._times = None
        self.are_own = False
        self._note_space()

    def release(self) -> None:
        """Close the open index file of a closed segment."""
        if self._active is None:
            self.offsets = ClosedOffsetIndex(self._path(INDEX_SUFFIX))

    def moved_to(self, directory: Path) -> "SegmentIndexes":
        """The same indexes over the files of another directory."""
        moved = SegmentIndexes(directory, self._base_offset, self._index_bytes)
        moved.are_own, moved.is_full = self.are_own, self.is_full
        moved._active, moved._times, moved.offsets = self._active, self._times, self.offsets
        moved.release()
        return moved

    def add(
        self, last_offset: int, position: int, max_timestamp_ms: int, max_timestamp_offset: int
    ) -> None:
        """Add an entry for the last batch, and one for the largest timestamp; arguments are
        absolute."""
        index, times = self._active, self._times
        if index is None or times is None:
            return
        index.append(last_offset - self._base_offset, position)
        times.append_if_newer(max_timestamp_ms, max_timestamp_offset - self._base_offset)
        self._note_space()

    def truncate(self, position: int, end_offset: int) -> tuple[int, int] | None:
        """Drop the entries from a position and an offset on.

        Returns the last remaining entry of the time index.
        """
        index, times = self._active, self._times
        if index is None or times is None:
            return None
        index.truncate(position)
        times.truncate(end_offset - self._base_offset)
        self._note_space()
        return times.last

    def write(self, max_timestamp_ms: int, max_timestamp_offset: int) -> None:
        """Write both files of an active segment with this largest timestamp (-1: none).

        Raises StorageFailed.
        """
        index, times = self._active, self._times
        if index is None or times is None:
            return
        if max_timestamp_ms >= 0:
            times.append_if_newer(max_timestamp_ms, max_timestamp_offset - self._base_offset)
        path = self._path(INDEX_SUFFIX)
        try:
            index.write(path)
            times.write(self._path(TIME_INDEX_SUFFIX))
        except OSError as error:
            raise StorageFailed(f"cannot write {path}: {error.strerror}") from error

    def offset_before(self, timestamp_ms: int) -> int:
        """The offset below which every record is older than `timestamp_ms`. Raises
        StorageFailed."""
        times = self._times
        if times is None:
            path = self._path(TIME_INDEX_SUFFIX)
            try:
                times = TimeIndex.load(path, self._index_bytes)
            except OSError as error:
                raise StorageFailed(f"cannot read {path}: {error.strerror}") from error
        return self._base_offset + times.offset_before(timestamp_ms)

    def _note_space(self) -> None:
        index, times = self._active, self._times
        self.is_full = (
            index is None
            or len(index) >= index.max_entries
            or times is None
            or len(times) >= times.max_entries
        )

    def _path(self, suffix: str) -> Path:
        return segment_path(self._directory, self._base_offset, suffix)
