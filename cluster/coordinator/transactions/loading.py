"""Replays the records of the partition as transactional ids. Pure.

Kafka: `TransactionStateManager.loadTransactionMetadata`. No record may stop the loading: one that
cannot be decoded is counted and ignored.
"""

from collections import Counter

from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord
from cluster.coordinator.shards.load_report import LoadReport
from cluster.coordinator.transactions.parts import ShardParts
from cluster.coordinator.transactions.records import (
    read_transaction_key,
    read_transaction_value,
)
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.storing import Storing
from cluster.coordinator.transactions.transaction import Transaction
from cluster.model.clocks import Moment


class Loading:
    """Lifecycle: `replay` for every record, oldest first; then `finish`."""

    def __init__(self, parts: ShardParts, storing: Storing) -> None:
        self._parts = parts
        self._storing = storing
        self._report = LoadReport()
        self._transaction_count = 0
        self._tombstone_count = 0

    @property
    def report(self) -> LoadReport:
        """What the records replayed so far were."""
        self._report.loaded = +Counter(
            transactions=self._transaction_count, tombstones=self._tombstone_count
        )
        return self._report

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record."""
        try:
            if key is None:
                raise CorruptRecord("no key")
            transactional_id = read_transaction_key(key)
            if value is None:
                self._tombstone_count += 1
                self._parts.transactions.pop(transactional_id, None)
                return
            stored = read_transaction_value(value)
            if stored.state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
                raise CorruptRecord(f"a transaction in state {stored.state.label}")
            self._transaction_count += 1
            self._parts.transactions[transactional_id] = Transaction(transactional_id, stored)
        except UnknownRecord as unknown:
            self._report.note_unknown(str(unknown))
        except CorruptRecord as corrupt:
            self._report.note_corrupt(str(corrupt))

    def finish(self, now: Moment) -> None:
        """All records were replayed: go on with transactions whose outcome is stored."""
        transactions = self._parts.transactions.values()
        # `ongoing` is in the order in which they began.
        for transaction in sorted(transactions, key=lambda each: each.stored.start_ms):
            state = transaction.stored.state
            if state is TransactionState.ONGOING:
                self._parts.ongoing[transaction.transactional_id] = None
            elif state.is_preparing:
                self._storing.send_markers(transaction, now)
