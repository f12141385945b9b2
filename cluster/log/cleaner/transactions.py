"""Tracks transactions while a cleaning reads a log from its start. Pure.

Records of aborted transactions are dropped; a marker is dropped only after every record of its
transaction (Kafka: `CleanedTransactionMetadata`).
"""

import heapq
from collections.abc import Iterable
from struct import Struct
from typing import Final

from cluster.log.transaction_index import AbortedTransaction
from cluster.records.batch import BatchHeader
from cluster.records.reader import records_of_batch

_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class OpenTransactions:
    """The open transactions at each batch, which decide what may be dropped."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` may include transactions that ended before the first batch or begin later."""
        self._aborted = [(entry.first_offset, entry) for entry in aborted]
        heapq.heapify(self._aborted)
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_records: set[int] = set()
        self._open_committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions whose records and marker were met, for the new index; their records
        are gone now, and their markers go at a later cleaning."""

    def on_batch(self, header: BatchHeader) -> bool:
        """Process a data batch; returns whether its transaction was aborted, so it may be
        dropped."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._open_aborted:
            self._aborted_with_records.add(header.producer_id)
            return True
        self._open_committed.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        """Process a batch of markers; returns whether no record of its transaction remains.

        Raises Refused(corrupt_message).
        """
        self._begin_up_to(header.last_offset)
        key = next((record.key for record in records_of_batch(header, batch)), None)
        if key is None:
            return True  # an earlier cleaning emptied it
        if len(key) < _CONTROL_KEY.size:
            return False
        producer_id = header.producer_id
        kind: int = _CONTROL_KEY.unpack_from(key)[1]
        if kind == _ABORT:
            transaction = self._open_aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._aborted_with_records:
                return True
            self._aborted_with_records.discard(producer_id)
            self.kept.append(transaction)
            return False
        if kind == _COMMIT:
            had_records = producer_id in self._open_committed
            self._open_committed.discard(producer_id)
            return not had_records
        return False

    def _begin_up_to(self, offset: int) -> None:
        aborted = self._aborted
        while aborted and aborted[0][0] <= offset:
            transaction = heapq.heappop(aborted)[1]
            self._open_aborted.setdefault(transaction.producer_id, transaction)
