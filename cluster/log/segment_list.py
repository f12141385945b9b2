"""The segments of one log and their producer snapshots: roll, truncate, drop."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from weakref import WeakSet

from cluster.log.batch_walk import base_offset_at
from cluster.log.damage import Damage, DamageLog
from cluster.log.deleted_files import DeletedFiles
from cluster.log.log_reads import segment_slot
from cluster.log.options import LogOptions
from cluster.log.producer_snapshots import (
    remove_snapshot,
    snapshot_offsets,
    write_snapshot,
)
from cluster.log.producer_state import ProducerEntry
from cluster.log.recovery import new_segment
from cluster.log.segment import Segment
from cluster.log.segment_paths import remove_segment_files
from cluster.log.segment_swap import begin_swap, end_swap
from cluster.log.unchecked import UncheckedBytes
from cluster.model.clocks import WallMs
from cluster.model.errors import ensure
from cluster.model.ids import Offset


class SegmentList:
    """Segments in order of their base offset; the last one is active.

    Each change makes a new tuple, so a holder of the old one keeps a consistent list. The files of
    a removed segment stay readable for readers that opened them.
    """

    def __init__(
        self,
        directory: Path,
        segments: tuple[Segment, ...],
        deleted_files: DeletedFiles,
        on_damage: Callable[[Damage], None] | None = None,
    ) -> None:
        self.directory = directory
        self.damage = DamageLog(on_damage)
        self._fresh: WeakSet[Segment] = WeakSet()
        """Closed lately: what was appended to them counts as checked. Weak: a segment that
        is deleted lets go of its file."""
        self._aging: WeakSet[Segment] = WeakSet()
        """Those of them that were closed before `age` was last called."""
        self._deleted_files = deleted_files
        self.changes = 0
        """How often segments were cut, deleted or replaced: indexes read before are out of date."""
        for segment in segments:
            segment.damage = self.damage
        self._set(segments)

    def _set(self, segments: tuple[Segment, ...]) -> None:
        self.segments = segments
        self.active = segments[-1]
        self._closed_bytes = sum(segment.file.size_bytes for segment in segments[:-1])

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self._closed_bytes + self.active.file.size_bytes

    def roll(
        self, base_offset: Offset, producers: Mapping[int, ProducerEntry], wall_ms: WallMs
    ) -> Segment:
        """Close the active segment and start a new one at an offset. Raises StorageFailed."""
        closed = self.active
        closed.close_for_writing()
        write_snapshot(self.directory, base_offset, producers)
        segment = self._new_segment(base_offset, closed.options, wall_ms)
        was_checked = closed.unchecked is None
        closed.unchecked = UncheckedBytes(closed.file.size_bytes, base_offset)
        if was_checked:
            closed.unchecked.trust(closed.file, closed.base_offset)
            self._fresh.add(closed)
        self._set((*self.segments, segment))
        return segment

    def _new_segment(self, base_offset: Offset, options: LogOptions, wall_ms: WallMs) -> Segment:
        segment = new_segment(self.directory, base_offset, options, wall_ms)
        segment.damage = self.damage
        return segment

    def truncate(self, offset: Offset, options: LogOptions) -> Offset:
        """Make the batch before an offset the last one; returns the new end. Raises StorageFailed.

        The offset must not be below the first segment's base. A batch that contains it is removed
        entirely.
        """
        self.changes += 1
        slot = segment_slot(self.segments, offset)
        kept, gone = self.segments[: slot + 1], self.segments[slot + 1 :]
        for segment in reversed(gone):  # the last one first, so that a crash leaves no gap
            remove_segment_files(self.directory, segment.base_offset)
            self.damage.forget(segment.base_offset)
        last = kept[-1]
        position = last.locate(offset)
        end = offset
        if position < last.file.size_bytes:
            end = Offset(min(offset, base_offset_at(last.file.mapping(), position)))
        last.take_options(options)
        last.truncate(position, end)
        self.damage.forget(last.base_offset, position)
        self._set(kept)
        return end

    def restart(self, offset: Offset, wall_ms: WallMs) -> None:
        """Delete all segments and continue at an offset. Raises StorageFailed."""
        self.changes += 1
        options = self.active.options
        self._deleted_files.settle(self.directory)  # an old segment may have had the new one's name
        for segment in reversed(self.segments):
            remove_segment_files(self.directory, segment.base_offset)
            self.damage.forget(segment.base_offset)
        for snapshot in snapshot_offsets(self.directory):
            remove_snapshot(self.directory, snapshot)
        self._set((self._new_segment(offset, options, wall_ms),))

    def remove_first(self, count: int) -> None:
        """Delete the oldest segments, never the active one.

        Their files are renamed and unlinked later (see `DeletedFiles`).
        """
        self.changes += 1
        gone, self.segments = self.segments[:count], self.segments[count:]
        self._closed_bytes -= sum(segment.file.size_bytes for segment in gone)
        for segment in gone:
            self.damage.forget(segment.base_offset)
        self._deleted_files.delete(self.directory, gone, self.active.options.removal_delay_ms)

    def replace(self, gone: Sequence[Segment]) -> None:
        """Replace closed segments with the cleaned files that have the first one's base offset.

        The files are named `.cleaned` (see `segment_swap`). Raises StorageFailed.
        """
        self.changes += 1
        first = gone[0]
        slot = self.segments.index(first)
        ensure(self.segments[slot : slot + len(gone)] == tuple(gone), "segments of another list")
        for segment in gone:
            segment.file.fileno()  # keeps the file open for its readers after the rename
        begin_swap(self.directory, first.base_offset)
        self._deleted_files.delete_now(
            self.directory,
            gone,
            self.active.options.removal_delay_ms,
            kept_snapshots=(first.base_offset,),
        )
        end_swap(self.directory, first.base_offset)
        cleaned = Segment(self.directory, first.base_offset, first.options, first.created_ms)
        cleaned.trust_indexes(active=False)
        cleaned.damage = self.damage
        limit = self.segments[slot + len(gone)].base_offset
        cleaned.unchecked = UncheckedBytes(cleaned.file.size_bytes, limit)
        for segment in gone:
            self.damage.forget(segment.base_offset)
        self._set((*self.segments[:slot], cleaned, *self.segments[slot + len(gone) :]))

    def suspect(self, offset: Offset) -> None:
        """Check the records from an offset on again when they are read, because damage was
        reported."""
        segment = self.segments[segment_slot(self.segments, offset)]
        if segment.unchecked is None:
            segment.unchecked = UncheckedBytes(segment.file.size_bytes)
        else:
            segment.unchecked.forget()

    def age(self) -> None:
        """Check segments again that were closed before the last call.

        Their pages may have left the page cache, so the next read may come from the disk.
        """
        for segment in self._aging:
            if segment.unchecked is not None:
                segment.unchecked.forget()
        self._aging, self._fresh = self._fresh, WeakSet()

    def on_repaired(self, segment: Segment, start: int = 0) -> None:
        """Check a segment again after its bytes were restored from a position on. Raises
        OSError."""
        self.damage.forget(segment.base_offset, start)
        if segment.is_active:
            if segment.unchecked is not None:
                segment.unchecked.forget()
            return
        limit = self.segments[segment_slot(self.segments, segment.base_offset) + 1].base_offset
        segment.place_in(self.directory)  # the file may have grown
        segment.unchecked = UncheckedBytes(segment.file.size_bytes, limit)
        self._closed_bytes = sum(one.file.size_bytes for one in self.segments[:-1])

    def since(self, recovery_point: Offset) -> tuple[Segment, ...]:
        """The segments with records at or after an offset."""
        return self.segments[segment_slot(self.segments, recovery_point) :]
