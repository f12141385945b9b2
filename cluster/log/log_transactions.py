"""Determines which records of a log are committed, for consumers with `read_committed`.

The first open transaction limits the last stable offset. So does one that has ended while its
marker is above the high watermark: a new leader may lack the marker. Aborted transactions are
reported to consumers, which skip their records. Kafka: `ProducerStateManager`.
"""

import logging
from heapq import heapify, heappop, heappush

from cluster.log.aborted_transactions import AbortedTransactions
from cluster.log.producer_state import ProducerState
from cluster.log.segment_list import SegmentList
from cluster.log.transaction_index import AbortedTransaction, DamagedTransactionIndex
from cluster.model.ids import Offset

_log = logging.getLogger(__name__)


class LogTransactions:
    """The transactions of one log. Owned by the log's thread."""

    def __init__(self, files: SegmentList) -> None:
        self.first_open: int | None = None
        """Where the oldest transaction begins that has not ended."""
        self.are_none = False
        """Known to be so: nothing is open, nothing was aborted."""
        self._undecided: list[tuple[int, int]] = []
        """First offset and that of the marker, of transactions that have ended: a heap. The first
        one's marker may be above the high watermark."""
        self._aborted = AbortedTransactions(files)

    def on_replayed(self, producers: ProducerState) -> None:
        """Record the transactions that began or ended according to the producer state.

        Raises StorageFailed; the next call retries.
        """
        self.first_open = producers.first_undecided_offset
        self.are_none = False
        ended = producers.ended
        while ended:
            producer_id, first, last, stable, is_abort = ended[0]
            if is_abort:
                self._aborted.add(AbortedTransaction(producer_id, first, last, stable))
            heappush(self._undecided, (first, last))
            ended.popleft()

    @property
    def is_index_damaged(self) -> bool:
        """Whether it is unknown which transactions were aborted."""
        return self._aborted.is_damaged

    def first_uncommitted(self, high_watermark: Offset) -> tuple[int, int] | None:
        """First offset and that of the marker, of the first transaction that has ended and whose
        marker is not below the high watermark."""
        return min((each for each in self._undecided if each[1] >= high_watermark), default=None)

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
        self._undecided = [each for each in self._undecided if each[1] < end]
        heapify(self._undecided)
        self._aborted.cut(end)

    def stable_offset(self, high_watermark: Offset, log_start_offset: Offset) -> Offset:
        """The last stable offset: every transaction below it is committed or aborted."""
        if self.are_none:
            return high_watermark
        if self._aborted.is_damaged:
            return min(high_watermark, log_start_offset)
        undecided = self._undecided
        while undecided and undecided[0][1] < high_watermark:
            heappop(undecided)
        stable = int(high_watermark)
        if self.first_open is not None and self.first_open < stable:
            stable = self.first_open
        if undecided and undecided[0][0] < stable:
            stable = undecided[0][0]
        if self.first_open is None and not undecided:
            self.are_none = self._aborted.is_empty
        return Offset(stable)

    def aborted_in(self, first_offset: int, end_offset: int) -> list[tuple[int, int]] | None:
        """Producer id and first offset of each aborted transaction with records in a range.

        None if that is unknown; then the last stable offset has moved back to the log start.
        """
        try:
            return self._aborted.overlapping(first_offset, end_offset)
        except DamagedTransactionIndex:
            return None
