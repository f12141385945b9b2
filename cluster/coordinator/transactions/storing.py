"""Stores the transitions of transactional ids, and applies them once they are stored. Pure.

Kafka: `TransactionStateManager.appendTransactionToLog`.
"""

from collections.abc import Callable

from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.coordinator.shards.outbox import AfterAppend
from cluster.coordinator.transactions.history import Asker, Why
from cluster.coordinator.transactions.parts import ShardParts
from cluster.coordinator.transactions.records import transaction_key, transaction_value
from cluster.coordinator.transactions.requests import CountRetried, EndMarkers, ProducerIdentity
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import (
    EPOCH_BUMPED_AT_END,
    StoredTransaction,
    Transaction,
)
from cluster.coordinator.transactions.unwritten_ends import UnwrittenEnds
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_ID

OnStored = Callable[[ErrorCode, Moment], None]


class Storing:
    """Changes what is stored of transactional ids; nothing else does."""

    def __init__(self, parts: ShardParts) -> None:
        self._parts = parts
        self._unwritten = UnwrittenEnds(parts.alarms, self._write_end)

    def store(
        self, transaction: Transaction, new: StoredTransaction, answer: OnStored, why: Why
    ) -> None:
        """Append a transition. `answer` is called with the outcome, as a client gets it."""
        new = _noting_replaced(transaction.stored, new)
        transaction.pending = new
        self._append(transaction, new, _Stored(self, transaction, new, answer, why))

    def _append(self, transaction: Transaction, new: StoredTransaction, after: AfterAppend) -> None:
        record = CoordinatorRecord(
            transaction_key(transaction.transactional_id), transaction_value(new)
        )
        self._parts.outbox.append([record], after)

    def remove(self, transaction: Transaction, now: Moment) -> None:
        """Append a tombstone: the transactional id has expired."""
        old = transaction.stored
        new = transaction.pending = old._replace(state=TransactionState.DEAD)
        record = CoordinatorRecord(transaction_key(transaction.transactional_id), None)
        why = Why(Asker.COORDINATOR, now)
        self._parts.outbox.append([record], _Stored(self, transaction, new, _ignore, why))

    def settle(
        self,
        transaction: Transaction,
        new: StoredTransaction,
        why: Why,
        now: Moment,
        *,
        is_stored: bool,
    ) -> None:
        """The outcome of an append is known. Requests that wait for it are tried again."""
        transaction.pending = None
        histories, old = self._parts.histories, transaction.stored
        if is_stored:
            self._unwritten.drop(transaction)
            histories.on_stored(transaction.transactional_id, old, new, why, now)
            self.apply(transaction, new, now)
        else:
            histories.on_not_stored(transaction.transactional_id, old, why, now)
        self._parts.waits.resume(transaction.transactional_id, now)

    def apply(self, transaction: Transaction, new: StoredTransaction, now: Moment) -> None:
        """The new state is stored: begin what follows from it."""
        parts, transactional_id = self._parts, transaction.transactional_id
        transaction.stored = new
        state = new.state
        if state is TransactionState.ONGOING:
            parts.ongoing[transactional_id] = None
            return
        parts.ongoing.pop(transactional_id, None)
        if state.is_preparing:
            self.send_markers(transaction, now)
        elif state is TransactionState.DEAD:
            del parts.transactions[transactional_id]

    def send_markers(self, transaction: Transaction, now: Moment) -> None:
        """The outcome is stored: have the markers written."""
        stored = transaction.stored
        if not stored.partitions:
            self.complete(transaction, now)
            return
        transaction.unmarked = set(stored.partitions)
        self._parts.outbox.send(
            EndMarkers(
                transaction.transactional_id,
                ProducerIdentity(stored.producer_id, stored.producer_epoch),
                self._parts.coordinator_epoch,
                stored.state is TransactionState.PREPARE_COMMIT,
                stored.partitions,
            )
        )

    def complete(self, transaction: Transaction, now: Moment) -> None:
        """Every partition has the marker. Requests that wait for it are tried again."""
        old = transaction.stored
        is_commit = old.state is TransactionState.PREPARE_COMMIT
        new = old._replace(
            state=TransactionState.COMPLETE_COMMIT
            if is_commit
            else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now.wall_ms,
        )
        if old.client_version >= EPOCH_BUMPED_AT_END and old.next_producer_id >= 0:
            new = new._replace(
                producer_id=old.next_producer_id,
                producer_epoch=0,
                next_producer_id=NO_PRODUCER_ID,
            )
        transaction.stored = new = _noting_replaced(old, new)
        self._parts.counts.add(is_commit=is_commit)
        self._unwritten.add(transaction, now)
        transactional_id, why = transaction.transactional_id, Why(Asker.COORDINATOR, now)
        self._parts.histories.on_stored(transactional_id, old, new, why, now)
        self._parts.waits.resume(transactional_id, now)

    def count_retried(self, _query: CountRetried, _now: Moment) -> int:
        """Transactions whose last record could not be written, and waits for another try."""
        return self._unwritten.failed_count

    def _write_end(self, transaction: Transaction, _now: Moment) -> None:
        transaction.pending = transaction.stored
        self._append(transaction, transaction.stored, _WrittenEnd(self, transaction))

    def on_end_written(self, transaction: Transaction, now: Moment, *, is_stored: bool) -> None:
        """The outcome of the last record is known. Requests that wait for it are tried again."""
        transaction.pending = None
        if not is_stored:
            self._unwritten.add_failed(transaction, now)
        self._parts.waits.resume(transaction.transactional_id, now)


def _noting_replaced(old: StoredTransaction, new: StoredTransaction) -> StoredTransaction:
    """The new state with the producer id that it replaces."""
    replaced = NO_PRODUCER_ID if new.producer_id == old.producer_id else old.producer_id
    if new.previous_producer_id == replaced:
        return new
    return new._replace(previous_producer_id=replaced)


class _WrittenEnd:
    """The append of a last record."""

    __slots__ = ("_storing", "_transaction")

    def __init__(self, storing: Storing, transaction: Transaction) -> None:
        self._storing = storing
        self._transaction = transaction

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        self._storing.on_end_written(self._transaction, now, is_stored=is_stored)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        """Nobody waits for the outcome."""


class _Stored:
    """The append of a transition."""

    __slots__ = ("_new", "_on_stored", "_storing", "_transaction", "_why")

    def __init__(
        self,
        storing: Storing,
        transaction: Transaction,
        new: StoredTransaction,
        on_stored: OnStored,
        why: Why,
    ) -> None:
        self._storing = storing
        self._transaction = transaction
        self._new = new
        self._on_stored = on_stored
        self._why = why

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        self._storing.settle(self._transaction, self._new, self._why, now, is_stored=is_stored)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        self._on_stored(coordinator_error(error), now)


def _ignore(_error: ErrorCode, _now: Moment) -> None:
    """Nobody waits for the outcome."""
