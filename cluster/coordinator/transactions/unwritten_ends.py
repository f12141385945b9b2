"""Transactions whose last record is not written yet: it follows from the one before it. Pure.

When every partition has the marker, a transaction is complete. The record that says so only spares
the next leader the markers: without it that one writes them again, which changes nothing, and
completes the transaction. A producer that begins its next transaction within `DELAY_MS` has its
next record replace this one. So a busy producer needs two records for each transaction instead of
three, and does not wait for the third. Kafka writes it at once.
"""

from collections.abc import Callable
from typing import Final

from cluster.coordinator.shards.alarms import Alarms
from cluster.coordinator.transactions.transaction import Transaction
from cluster.model.clocks import Moment, MonotonicMs

DELAY_MS: Final = 100
RETRY_MS: Final = 500
WRITTEN_PER_TICK: Final = 200


class UnwrittenEnds:
    """The transactional ids of one shard whose last transaction lacks its last record."""

    def __init__(self, alarms: Alarms, write: Callable[[Transaction, Moment], None]) -> None:
        self._write = write
        self._due_ms: dict[Transaction, MonotonicMs] = {}
        """In the order in which they were added."""
        self._failed: set[Transaction] = set()
        """Those of them whose record was tried before."""
        self._alarm = alarms.alarm(self._on_due)

    def add(self, transaction: Transaction, now: Moment, delay_ms: int = DELAY_MS) -> None:
        """Write the record after a delay."""
        if not self._due_ms:
            self._alarm.set_after(now, delay_ms)
        self._due_ms[transaction] = MonotonicMs(now.monotonic_ms + delay_ms)

    def add_failed(self, transaction: Transaction, now: Moment) -> None:
        """The record could not be written: try again after a while."""
        self._failed.add(transaction)
        self.add(transaction, now, RETRY_MS)

    @property
    def failed_count(self) -> int:
        """So many records wait for another try."""
        return len(self._failed)

    def drop(self, transaction: Transaction) -> None:
        """A later record of the transactional id is stored."""
        self._due_ms.pop(transaction, None)
        self._failed.discard(transaction)

    def _on_due(self, now: Moment) -> None:
        written = 0
        for transaction, due_ms in list(self._due_ms.items()):
            if due_ms > now.monotonic_ms or written == WRITTEN_PER_TICK:
                break
            del self._due_ms[transaction]
            if transaction.pending is None:
                self._failed.discard(transaction)
                self._write(transaction, now)
                written += 1
            else:  # a later record may fail
                self.add(transaction, now)
        for due_ms in self._due_ms.values():
            self._alarm.set(max(due_ms, MonotonicMs(now.monotonic_ms + 1)))
            break
