"""The aborted transactions of one log, from the `.txnindex` files of its segments.

A file that turns out to be damaged is rebuilt from the batches at once, as an offset index is.
Kafka: `LocalLog.collectAbortedTransactions`.
"""

import logging
from bisect import bisect_left, insort

from cluster.log.log_reads import segment_slot
from cluster.log.segment import Segment
from cluster.log.segment_aborts import SegmentAborts
from cluster.log.segment_list import SegmentList
from cluster.log.transaction_index import (
    ENTRY_BYTES,
    AbortedTransaction,
    DamagedTransactionIndex,
)
from cluster.log.transaction_rebuild import index_path, indexed_offsets, rebuild_index
from cluster.model.errors import Refused, StorageFailed
from cluster.model.ids import Offset

_log = logging.getLogger(__name__)


class AbortedTransactions:
    """Owned by the log's thread.

    Invariant: every transaction is in the file of the segment that holds its marker.
    """

    def __init__(self, files: SegmentList) -> None:
        self._files = files
        self._changes_seen = -1
        self._bases: list[int] = []
        """Base offsets of the segments whose files have entries, ascending."""
        self._found: dict[int, tuple[Segment, SegmentAborts]] = {}
        """By base offset; the segment is the one to which the file belonged when it was found."""
        self.damage: str | None = None
        """Why it is unknown which transactions were aborted: a file is damaged, and it cannot be
        rebuilt since batches are damaged as well."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was aborted, as far as that can be known."""
        self._refresh()
        return not self._bases and self.damage is None

    @property
    def is_damaged(self) -> bool:
        """Whether it is unknown which transactions were aborted."""
        self._refresh()
        return self.damage is not None

    def add(self, transaction: AbortedTransaction) -> None:
        """Add one, which ended after all others; one that is known already is ignored.

        Raises StorageFailed.
        """
        self._refresh()
        segments = self._files.segments
        slot = segment_slot(segments, transaction.last_offset)
        segment = segments[slot]
        base = segment.base_offset
        try:
            found = self._found.get(base)
            aborts = SegmentAborts(index_path(segment), 0) if found is None else found[1]
            aborts.add(transaction)
        except DamagedTransactionIndex as damage:
            self._rebuild(slot, damage)  # its marker is in the log already
            return
        if aborts.count == 1:
            self._note(segment, aborts)

    def overlapping(self, first_offset: int, end_offset: int) -> list[tuple[int, int]] | None:
        """Producer id and first offset of each aborted transaction with records in a range.

        None if that is unknown.
        """
        self._refresh()
        if not self._bases:
            return None if self.damage else []
        segments = self._files.segments
        first_base = segments[segment_slot(segments, first_offset)].base_offset
        found: list[tuple[int, int]] = []
        for base in self._bases[bisect_left(self._bases, first_base) :]:
            is_last = self._collect(base, first_offset, end_offset, found)
            if self.damage:
                return None
            if is_last:
                break
        return found

    def _collect(
        self, base: int, first_offset: int, end_offset: int, found: list[tuple[int, int]]
    ) -> bool:
        """`SegmentAborts.collect` of a segment, whose file is rebuilt if it is damaged."""
        before = len(found)
        try:
            return self._found[base][1].collect(first_offset, end_offset, found)
        except DamagedTransactionIndex as damage:
            self._rebuild(segment_slot(self._files.segments, base), damage)
        del found[before:]
        try:
            return not self.damage and self._found[base][1].collect(first_offset, end_offset, found)
        except DamagedTransactionIndex as damage:
            self._on_damage(str(damage))
            return True

    def cut(self, end: Offset) -> None:
        """Forget transactions that ended at or beyond the new log end. Raises StorageFailed."""
        self._refresh()
        segments = self._files.segments
        found = self._found.get(segments[-1].base_offset)
        if found is None:
            return
        try:
            found[1].cut(end)
        except DamagedTransactionIndex as damage:
            self._rebuild(len(segments) - 1, damage)
        else:
            self._note(*found)

    def rebuild(self, segment: Segment) -> None:
        """Write a segment's file anew; if that is not possible, `damage` tells why."""
        self._refresh()
        slot = segment_slot(self._files.segments, segment.base_offset)
        self._rebuild(slot, "it does not fit its batches")

    # -- files -------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Look for files again if segments were removed, cut or replaced."""
        if self._changes_seen == self._files.changes:
            return
        self._changes_seen = self._files.changes
        self.damage = None
        before, self._found, self._bases = self._found, {}, []
        try:
            offsets = indexed_offsets(self._files.directory)
        except OSError as problem:
            self._on_damage(str(problem))
            return
        segments = self._files.segments
        for base in offsets:
            slot = segment_slot(segments, base)
            if segments[slot].base_offset == base:
                self._look_at(slot, before.get(base))

    def _look_at(self, slot: int, before: tuple[Segment, SegmentAborts] | None) -> None:
        """Note the file of a segment, unless it is empty."""
        segment = self._files.segments[slot]
        try:
            size = index_path(segment).stat().st_size
        except OSError as problem:
            self._on_damage(str(problem))
            return
        count = size // ENTRY_BYTES
        if size % ENTRY_BYTES:
            self._rebuild(slot, f"{size} bytes are not whole entries")
        elif before is not None and before[0] is segment and before[1].count == count:
            self._note(segment, before[1])
        else:
            self._note(segment, SegmentAborts(index_path(segment), count))

    def _note(self, segment: Segment, aborts: SegmentAborts) -> None:
        base = segment.base_offset
        self._found[base] = segment, aborts
        if base in self._bases:
            self._bases.remove(base)
        if aborts.count:
            insort(self._bases, base)

    def _rebuild(self, slot: int, reason: object) -> None:
        """Rebuild a damaged file, or note that this is not possible."""
        segment = self._files.segments[slot]
        try:
            rebuild_index(self._files.segments, slot, reason)
            size = index_path(segment).stat().st_size
        except (Refused, StorageFailed, OSError) as problem:
            self._on_damage(str(problem))
        else:
            self._note(segment, SegmentAborts(index_path(segment), size // ENTRY_BYTES))

    def _on_damage(self, problem: str) -> None:
        if self.damage is None:
            self.damage = problem
            _log.error(
                "%s: consumers with isolation.level=read_committed get none of its records, since"
                " the aborted transactions are unknown: %s",
                self._files.directory,
                problem,
            )
