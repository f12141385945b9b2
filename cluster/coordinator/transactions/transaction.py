"""One transactional id: what is stored of it, and the transition that is being stored. Pure.

Kafka: `TransactionMetadata` and `TxnTransitMetadata`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from cluster.coordinator.transactions.states import TransactionState
from cluster.model.clocks import WallMs
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

EPOCH_MAX: Final = 0x7FFF
LAST_EPOCH: Final = EPOCH_MAX - 1
"""The last epoch that a producer gets: the one after it may be needed to fence that producer."""
NOT_STARTED: Final = WallMs(-1)
EPOCH_BUMPED_AT_END: Final = 2
"""The transaction version from which the end of each transaction bumps the epoch (KIP-890)."""


_NOTHING: Final[frozenset[TopicPartition]] = frozenset()
"""Shared by all ids at rest: an empty set of its own takes 216 bytes."""


class StoredTransaction(NamedTuple):
    """The content of a record of `__transaction_state`, and what only memory has."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: WallMs = NOT_STARTED
    start_ms: WallMs = NOT_STARTED
    previous_producer_id: int = NO_PRODUCER_ID
    """The one that this transition has replaced: the client may not know yet."""
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    """The transaction version of the client's last request."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before, if a producer that continues has bumped it. Not in records: Kafka's
    coordinator also forgets it when the leader changes."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no further epoch for a producer."""
        return self.producer_epoch >= LAST_EPOCH


class Transaction:
    """A transactional id in memory.

    Invariant: `pending` is set exactly while its record is being appended.
    Invariant: `stored` follows from the last record; it may be complete before a record says so.
    """

    __slots__ = ("pending", "stored", "transactional_id", "unmarked")

    def __init__(self, transactional_id: str, stored: StoredTransaction) -> None:
        self.transactional_id = transactional_id
        self.stored = stored
        self.pending: StoredTransaction | None = None
        self.unmarked: set[TopicPartition] | frozenset[TopicPartition] = _NOTHING
        """Partitions that lack the marker while a transaction is being completed."""

    def mark(self, partitions: Iterable[TopicPartition]) -> None:
        """These have the marker."""
        if isinstance(self.unmarked, set):
            self.unmarked.difference_update(partitions)
        if not self.unmarked:
            self.unmarked = _NOTHING

    @property
    def is_in_transition(self) -> bool:
        """Whether requests wait: a record is being appended, or markers are being written.

        Even the producer may be another one afterwards (Kafka: `pendingTransitionInProgress`).
        """
        return self.pending is not None or self.stored.state.is_preparing
