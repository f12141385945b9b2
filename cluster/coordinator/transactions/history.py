"""The last transactions of each transactional id, for `transactions explain`. Pure.

In memory only: a broker that begins to coordinate an id knows what happens from then on. All ids
together take a bounded number of bytes; the ids that were unused for longest are forgotten first.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from cluster.coordinator.transactions.requests import NOBODY, ClientName, ProducerIdentity
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import NOT_STARTED, StoredTransaction
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.ids import TopicPartition

TRANSACTIONS_KEPT: Final = 10
"""For one transactional id."""
STARTS_KEPT: Final = 10
REFUSALS_KEPT: Final = 10
STEPS_KEPT: Final = 100
"""For one transaction."""
BYTES_MAX: Final = 16 * 1024 * 1024
"""For all ids that a broker coordinates."""
_ID_BYTES: Final = 700
_TRANSACTION_BYTES: Final = 500
_STEP_BYTES: Final = 250
_PARTITION_BYTES: Final = 120


class Asker(Enum):
    """What a transition was stored for."""

    CLIENT = "its producer"
    NEW_PRODUCER = "another producer began with the transactional id"
    TIMEOUT = "the transaction timed out"
    COORDINATOR = "every partition has the marker"


class Why(NamedTuple):
    """Who asked for a transition, and when."""

    asker: Asker
    at: Moment
    client: ClientName | None = None
    """Unknown if a leader adds a partition for its producer."""
    group: str | None = None
    """The group whose offsets become part of the transaction."""


class StepKind(Enum):
    """What happens to a transaction."""

    ADDED = "partitions became part of it"
    COMMIT = "its commit was stored"
    ABORT = "its abort was stored"
    MARKED = "partitions have the marker"
    COMPLETE = "every partition has the marker"
    NOT_STORED = "a transition could not be stored"


_DECISIVE: Final = frozenset({StepKind.COMMIT, StepKind.ABORT, StepKind.COMPLETE})
"""Steps that are kept however many there are: each happens once."""
_KINDS: Final = {
    TransactionState.ONGOING: StepKind.ADDED,
    TransactionState.PREPARE_COMMIT: StepKind.COMMIT,
    TransactionState.PREPARE_ABORT: StepKind.ABORT,
    TransactionState.COMPLETE_COMMIT: StepKind.COMPLETE,
    TransactionState.COMPLETE_ABORT: StepKind.COMPLETE,
}
"""The steps that transitions to these states are."""


class Step(NamedTuple):
    """One event of a transaction."""

    kind: StepKind
    why: Why
    stored_ms: MonotonicMs
    """When its record was stored, or when it happened if it has none."""
    partitions: Collection[TopicPartition]


@dataclass(slots=True)
class PastTransaction:
    """One transaction, which changes until it is complete."""

    producer: ProducerIdentity
    """With the epoch in which it began."""
    timeout_ms: int
    began_ms: MonotonicMs
    began_wall_ms: WallMs
    is_partial: bool
    """It began before this broker coordinated it, so the first steps are missing."""
    steps: list[Step] = field(default_factory=list)
    steps_left_off: int = 0
    is_complete: bool = False
    cost_bytes: int = _TRANSACTION_BYTES


@dataclass(frozen=True, slots=True)
class ProducerStart:
    """A producer got its id and epoch (InitProducerId)."""

    wall_ms: WallMs
    producer: ProducerIdentity
    client: ClientName | None
    fenced: ProducerIdentity
    """The producer before, which cannot go on; NOBODY if there was none."""
    fenced_client: ClientName | None


@dataclass(slots=True)
class Refusal:
    """A fenced producer was refused, perhaps several times."""

    request: str
    """Kafka's name of the request."""
    producer: ProducerIdentity
    client: ClientName | None
    first_wall_ms: WallMs
    last_wall_ms: WallMs
    count: int = 1


@dataclass(slots=True)
class IdHistory:
    """What is remembered of one transactional id."""

    since_wall_ms: WallMs
    client: ClientName | None = None
    """The client of the present producer, as far as it is known."""
    transactions: list[PastTransaction] = field(default_factory=list)
    """The oldest first, as in the other lists. No deques: each takes 600 bytes at least."""
    transactions_left_off: int = 0
    starts: list[ProducerStart] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    cost_bytes: int = _ID_BYTES

    @property
    def open(self) -> PastTransaction | None:
        """The transaction that is not complete."""
        if self.transactions and not self.transactions[-1].is_complete:
            return self.transactions[-1]
        return None


class TransactionHistories:
    """Remembers all transactional ids that a broker coordinates; its shards share it."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._ids: OrderedDict[str, IdHistory] = OrderedDict()
        self._bytes = 0
        self.forgot_at: WallMs | None = None
        """When an id was last forgotten because of the limit."""

    @property
    def cost_bytes(self) -> int:
        """Roughly what they take."""
        return self._bytes

    def of(self, transactional_id: str) -> IdHistory | None:
        """What is remembered of an id."""
        return self._ids.get(transactional_id)

    def forget(self, transactional_id: str) -> None:
        """The id has expired."""
        self._take(transactional_id)

    def take_those_in(self, transactional_ids: Collection[str]) -> list[IdHistory | None]:
        """Another broker coordinates these ids from now on. Freeing what is returned takes longer
        than finding it: do it in steps."""
        return [self._take(each) for each in list(self._ids) if each in transactional_ids]

    def _take(self, transactional_id: str) -> IdHistory | None:
        gone = self._ids.pop(transactional_id, None)
        if gone is not None:
            self._bytes -= gone.cost_bytes
        return gone

    # -- what happens ------------------------------------------------------------------------------

    def on_stored(
        self,
        transactional_id: str,
        old: StoredTransaction,
        new: StoredTransaction,
        why: Why,
        now: Moment,
    ) -> None:
        """A transition is stored."""
        state = new.state
        if state is TransactionState.DEAD:
            self.forget(transactional_id)
            return
        history = self._used(transactional_id, now)
        if state is TransactionState.EMPTY:
            self._on_producer(history, old, new, why, now)
        else:
            if why.asker is Asker.CLIENT and why.client is not None:
                history.client = why.client
            self._on_step(history, old, new, why, now)
        self._trim(now)

    def on_not_stored(
        self, transactional_id: str, old: StoredTransaction, why: Why, now: Moment
    ) -> None:
        """A transition could not be stored."""
        history = self._used(transactional_id, now)
        if history.open is not None or not old.state.is_idle:
            transaction = history.open or self._begun(history, old, old, why, is_partial=True)
            step = Step(StepKind.NOT_STORED, why, now.monotonic_ms, ())
            self._add(history, transaction, step)
        self._trim(now)

    def on_marked(
        self,
        transactional_id: str,
        stored: StoredTransaction,
        partitions: Collection[TopicPartition],
        now: Moment,
    ) -> None:
        """Partitions have the marker."""
        history = self._used(transactional_id, now)
        why = Why(Asker.COORDINATOR, now)
        transaction = history.open or self._begun(history, stored, stored, why, is_partial=True)
        step = Step(StepKind.MARKED, why, now.monotonic_ms, partitions)
        self._add(history, transaction, step)
        self._trim(now)

    def on_refused(
        self,
        transactional_id: str,
        request: str,
        producer: ProducerIdentity,
        client: ClientName | None,
        now: Moment,
    ) -> None:
        """A fenced producer was refused."""
        history = self._used(transactional_id, now)
        refusals = history.refusals
        if refusals:
            last = refusals[-1]
            if (last.request, last.producer, last.client) == (request, producer, client):
                last.last_wall_ms = now.wall_ms
                last.count += 1
                return
        if len(refusals) < REFUSALS_KEPT:
            self._pay(history, _STEP_BYTES)
        else:
            del refusals[0]
        refusals.append(Refusal(request, producer, client, now.wall_ms, now.wall_ms))
        self._trim(now)

    # -- records of it -----------------------------------------------------------------------------

    def _on_producer(
        self,
        history: IdHistory,
        old: StoredTransaction,
        new: StoredTransaction,
        why: Why,
        now: Moment,
    ) -> None:
        before = ProducerIdentity(old.producer_id, old.producer_epoch)
        if before.epoch < 0:
            before = NOBODY
        if len(history.starts) < STARTS_KEPT:
            self._pay(history, _STEP_BYTES)
        else:
            del history.starts[0]
        producer = ProducerIdentity(new.producer_id, new.producer_epoch)
        history.starts.append(
            ProducerStart(now.wall_ms, producer, why.client, before, history.client)
        )
        history.client = why.client

    def _on_step(
        self,
        history: IdHistory,
        old: StoredTransaction,
        new: StoredTransaction,
        why: Why,
        now: Moment,
    ) -> None:
        kind = _KINDS[new.state]
        transactions = history.transactions
        if transactions and not transactions[-1].is_complete:
            transaction, was_open = transactions[-1], True
        else:
            was_open = not old.state.is_idle
            transaction = self._begun(history, old, new, why, is_partial=was_open)
        partitions: Collection[TopicPartition] = ()
        if kind is StepKind.ADDED:
            partitions = new.partitions - old.partitions if was_open else new.partitions
        elif kind is StepKind.COMPLETE:
            transaction.is_complete = True
        self._add(history, transaction, Step(kind, why, now.monotonic_ms, partitions))

    def _begun(
        self,
        history: IdHistory,
        old: StoredTransaction,
        new: StoredTransaction,
        why: Why,
        *,
        is_partial: bool,
    ) -> PastTransaction:
        began_ms, began_wall_ms = why.at
        if is_partial and new.start_ms != NOT_STARTED:
            began_ms = MonotonicMs(began_ms - max(0, began_wall_ms - new.start_ms))
            began_wall_ms = new.start_ms
        epoch = old.producer_epoch if is_partial else new.producer_epoch
        transaction = PastTransaction(
            ProducerIdentity(new.producer_id, epoch),
            new.timeout_ms,
            began_ms,
            began_wall_ms,
            is_partial,
        )
        if len(history.transactions) == TRANSACTIONS_KEPT:
            gone = history.transactions.pop(0)
            history.transactions_left_off += 1
            self._pay(history, -gone.cost_bytes)
        history.transactions.append(transaction)
        self._pay(history, _TRANSACTION_BYTES)
        return transaction

    def _add(self, history: IdHistory, transaction: PastTransaction, step: Step) -> None:
        if len(transaction.steps) >= STEPS_KEPT and step.kind not in _DECISIVE:
            transaction.steps_left_off += 1
            return
        transaction.steps.append(step)
        cost_bytes = _STEP_BYTES + _PARTITION_BYTES * len(step.partitions)
        transaction.cost_bytes += cost_bytes
        history.cost_bytes += cost_bytes
        self._bytes += cost_bytes

    # -- the limit ---------------------------------------------------------------------------------

    def _used(self, transactional_id: str, now: Moment) -> IdHistory:
        history = self._ids.get(transactional_id)
        if history is None:
            history = self._ids[transactional_id] = IdHistory(now.wall_ms)
            self._bytes += history.cost_bytes
        else:
            self._ids.move_to_end(transactional_id)
        return history

    def _pay(self, history: IdHistory, cost_bytes: int) -> None:
        history.cost_bytes += cost_bytes
        self._bytes += cost_bytes

    def _trim(self, now: Moment) -> None:
        while self._bytes > self._bytes_max and len(self._ids) > 1:
            _, gone = self._ids.popitem(last=False)
            self._bytes -= gone.cost_bytes
            self.forgot_at = now.wall_ms
