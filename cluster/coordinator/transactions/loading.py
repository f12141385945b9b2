"""Replays the records of the partition as transactional ids. Pure.

Kafka: `TransactionStateManager.loadTransactionMetadata`. No record may stop the loading: one that
cannot be decoded is counted and ignored.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import Final

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

_IDS_PER_STEP: Final = 500
MARKED_PER_STEP: Final = 20


class Loading:
    """Lifecycle: `replay` for every record, oldest first; `finishing_steps`; `resuming_steps`."""

    def __init__(self, parts: ShardParts, storing: Storing) -> None:
        self._parts = parts
        self._storing = storing
        self._report = LoadReport()
        self._transaction_count = 0
        self._tombstone_count = 0
        self._to_mark: deque[Transaction] = deque()
        """Those whose markers are to be sent, the oldest first."""

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

    def finishing_steps(self) -> Iterator[None]:
        """All records were replayed: find the transactions that are open or ending, in the order in
        which they began."""
        found = []
        for some in _pieces(list(self._parts.transactions.values())):
            begun = [each for each in some if not each.stored.state.is_idle]
            if begun:
                found.append(sorted(begun, key=_start_ms))
            yield
        for number, transaction in enumerate(merge(*found, key=_start_ms), start=1):
            stored = transaction.stored
            if stored.state is TransactionState.ONGOING:
                self._parts.ongoing[transaction.transactional_id] = None
            else:
                transaction.unmarked = set(stored.partitions)
                self._to_mark.append(transaction)
            if number % _IDS_PER_STEP == 0:
                yield

    def resuming_steps(self, now: Callable[[], Moment]) -> Iterator[None]:
        """Go on with transactions whose outcome is stored."""
        known = self._parts.transactions
        while self._to_mark:
            for _ in range(min(MARKED_PER_STEP, len(self._to_mark))):
                transaction = self._to_mark.popleft()
                if known is self._parts.transactions:  # it is another one after `unload`
                    self._storing.send_markers(transaction, now())
            yield


def _pieces(transactions: Sequence[Transaction]) -> Iterator[Sequence[Transaction]]:
    for begin in range(0, len(transactions), _IDS_PER_STEP):
        yield transactions[begin : begin + _IDS_PER_STEP]


def _start_ms(transaction: Transaction) -> int:
    return transaction.stored.start_ms
