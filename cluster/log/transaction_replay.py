"""Finds the aborted transactions of a log in its batches. Pure.

Rebuilds, checks and repairs of `.txnindex` files use it. `ProducerState` does the same among other
things while a log is in use.
"""

from collections.abc import Iterable

from cluster.log.transaction_index import AbortedTransaction
from cluster.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from cluster.records.markers import EndMarker, read_marker


class TransactionReplay:
    """The open transactions after each batch. Lifecycle: pass the batches in the order of the log.

    Only a control batch's records are needed, so a caller may leave out the bytes of others.
    """

    def __init__(self, opened: Iterable[tuple[int, int]] = ()) -> None:
        """`opened`: producer id and first offset of each transaction that is open before."""
        self.opened = dict(sorted(opened, key=lambda each: each[1]))
        """The first offset of each open transaction by its producer, in the order of offsets."""

    def on_batch(self, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
        """Process a batch; returns the aborted transaction that it ends, if any.

        Raises Refused(corrupt_message) for a control batch that cannot be decoded.
        """
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        if header.attributes & CONTROL_BIT:
            marker = read_marker(header, batch)
            return self.on_marker(producer_id, header.last_offset, marker)
        if (
            header.attributes & TRANSACTIONAL_BIT
            and header.record_count
            and producer_id not in self.opened
        ):
            self.opened[producer_id] = header.base_offset
        return None

    def on_marker(
        self, producer_id: int, last_offset: int, marker: EndMarker | None
    ) -> AbortedTransaction | None:
        """Process a control batch; `marker` is None for one that compaction has emptied."""
        first_offset = self.opened.pop(producer_id, None)
        if first_offset is None or marker is None or marker.is_commit:
            return None
        stable = next(iter(self.opened.values()), last_offset + 1)
        return AbortedTransaction(producer_id, first_offset, last_offset, stable)
