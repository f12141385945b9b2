"""Determines which records of a log are committed, for consumers with `read_committed`.

The first open transaction limits the last stable offset. So does one that has ended while its
marker is above the high watermark: a new leader may lack the marker. Aborted transactions are
reported to consumers, which skip their records. Kafka: `ProducerStateManager`.
"""

import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from heapq import heapify, heappop, heappush

from cluster.log.aborted_transactions import AbortedTransactions
from cluster.log.producer_state import EndedTransaction, ProducerState
from cluster.log.segment import Segment
from cluster.log.segment_list import SegmentList
from cluster.log.transaction_index import AbortedTransaction
from cluster.model.errors import StorageFailed
from cluster.model.ids import Offset

_log = logging.getLogger(__name__)


class LogTransactions:
    """The transactions of one log. Owned by the log's thread."""

    def __init__(self, files: SegmentList, undecided: Iterable[tuple[int, int]] = ()) -> None:
        """`undecided`: see `RecoveredLog`."""
        self.first_open: int | None = None
        """Where the oldest transaction begins that has not ended."""
        self.are_none = False
        """Known to be so: nothing is open, nothing was aborted."""
        self.undecided = list(undecided)
        """First offset and that of the marker, of transactions that have ended: a heap. The first
        one's marker may be above the high watermark."""
        heapify(self.undecided)
        self._unindexed: deque[EndedTransaction] = deque()
        """Aborted transactions, from the first one on that could not be added to the index."""
        self._aborted = AbortedTransactions(files)

    def on_replayed(self, producers: ProducerState) -> None:
        """Record the transactions that began or ended according to the producer state.

        Raises StorageFailed if the index cannot be written. This is tried again later; until then
        the records of these transactions are not read.
        """
        self.first_open = producers.first_undecided_offset
        self.are_none = False
        ended = producers.ended
        while ended:
            transaction = ended.popleft()
            heappush(self.undecided, (transaction.first_offset, transaction.last_offset))
            if transaction.is_abort:
                self._unindexed.append(transaction)
        self._index()

    def _index(self) -> None:
        unindexed = self._unindexed
        while unindexed:
            producer_id, first, last, stable, _ = unindexed[0]
            self._aborted.add(AbortedTransaction(producer_id, first, last, stable))
            unindexed.popleft()

    @property
    def is_index_damaged(self) -> bool:
        """Whether it is unknown which transactions were aborted."""
        return self._aborted.is_damaged

    def first_uncommitted(self, high_watermark: Offset) -> tuple[int, int] | None:
        """First offset and that of the marker, of the first transaction that has ended and whose
        marker is not below the high watermark."""
        return min((each for each in self.undecided if each[1] >= high_watermark), default=None)

    def tell_of_open(self, name: object) -> None:
        """Log one line if `read_committed` consumers do not get all records of a log."""
        if self.first_open is not None:
            _log.info(
                "%s: a transaction that begins at offset %d has not ended yet",
                name,
                self.first_open,
            )

    def cut(self, end: Offset) -> None:
        """Forget what ended at or beyond the new log end. Raises StorageFailed."""
        self.undecided = [each for each in self.undecided if each[1] < end]
        heapify(self.undecided)
        self._unindexed = deque(each for each in self._unindexed if each.last_offset < end)
        self._aborted.cut(end)

    def clear(self) -> None:
        """Forget everything: the log is emptied."""
        self.first_open = None
        self.undecided.clear()
        self._unindexed.clear()

    def moved_to(self, files: SegmentList) -> "LogTransactions":
        """The same transactions of a log whose files were copied, with the index."""
        moved = LogTransactions(files, self.undecided)
        moved.first_open = self.first_open
        moved._unindexed = self._unindexed
        return moved

    def settle(self, high_watermark: Offset) -> None:
        """Forget transactions that are decided: their markers are below the high watermark.

        This bounds the memory if nobody asks for the last stable offset.
        """
        undecided = self.undecided
        while undecided and undecided[0][1] < high_watermark:
            heappop(undecided)

    def stable_offset(self, high_watermark: Offset, log_start_offset: Offset) -> Offset:
        """The last stable offset: every transaction below it is committed or aborted.

        The high watermark must not be lower than it was at an earlier call, but for a truncation.
        """
        if self.are_none:
            return high_watermark
        if self._unindexed:
            with suppress(StorageFailed):
                self._index()
        if self._aborted.is_damaged:
            return min(high_watermark, log_start_offset)
        self.settle(high_watermark)
        undecided = self.undecided
        stable = int(high_watermark)
        if self.first_open is not None and self.first_open < stable:
            stable = self.first_open
        if undecided and undecided[0][0] < stable:
            stable = undecided[0][0]
        for transaction in self._unindexed:
            stable = min(stable, transaction.first_offset)
        if self.first_open is None and not undecided and not self._unindexed:
            self.are_none = self._aborted.is_empty
        # Records before the log start were deleted, whatever becomes of their transaction.
        return Offset(min(high_watermark, max(stable, log_start_offset)))

    def rebuild(self, segment: Segment) -> None:
        """Write the index of a segment anew, in which a check has found a defect."""
        self._aborted.rebuild(segment)

    def aborted_in(self, first_offset: int, end_offset: int) -> list[tuple[int, int]] | None:
        """Producer id and first offset of each aborted transaction with records in a range.

        None if that is unknown; then the last stable offset has moved back to the log start.
        """
        return self._aborted.overlapping(first_offset, end_offset)
