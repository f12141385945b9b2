"""Takes the events of transactional ids and does what the table of states says. Pure.

Kafka: `TransactionCoordinator`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from cluster.coordinator.transactions.history import Asker, Why
from cluster.coordinator.transactions.parts import ShardParts
from cluster.coordinator.transactions.requests import (
    AbortIfLate,
    AddPartitions,
    EndTransaction,
    InitProducer,
    PartitionsMarked,
    ProducerIdentity,
    ProducerReply,
    VerifyPartitions,
    WantsProducerId,
)
from cluster.coordinator.transactions.states import TABLE, Action, Event, TransactionState
from cluster.coordinator.transactions.storing import OnStored, Storing
from cluster.coordinator.transactions.transaction import (
    EPOCH_BUMPED_AT_END,
    EPOCH_MAX,
    LAST_EPOCH,
    NOT_STARTED,
    StoredTransaction,
    Transaction,
)
from cluster.coordinator.transactions.waits import Waiting
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

Refuse = Callable[[ErrorCode], None]
Retry = Callable[[Waiting | None, Moment], None]

_NAMES: Final = {
    InitProducer: "InitProducerId",
    AddPartitions: "AddPartitionsToTxn",
    EndTransaction: "EndTxn",
}
_NEEDS_ID: Final = ProducerReply(ErrorCode.none, needs_producer_id=True)


class TransactionMachine:
    """Processes the requests about transactions."""

    def __init__(self, parts: ShardParts, storing: Storing) -> None:
        self._parts = parts
        self._storing = storing

    # ------------------------------------------------------------------ InitProducerId

    def init(self, request: InitProducer, token: object, now: Moment) -> None:
        """Give a producer its id and epoch; an open transaction is aborted first."""
        self._init(request, token, None, now)

    def _init(
        self, request: InitProducer, token: object, waiting: Waiting | None, now: Moment
    ) -> None:
        transactional_id, answer = request.transactional_id, self._parts.outbox.answer
        transaction = self._parts.transactions.get(transactional_id)
        refuse = partial(self._refuse_producer, token)
        if transaction is None:
            if request.fresh_producer_id == NO_PRODUCER_ID:
                answer(token, _NEEDS_ID)
                return
            transaction = self._parts.transactions[transactional_id] = Transaction(
                transactional_id,
                StoredTransaction(request.fresh_producer_id, NO_PRODUCER_EPOCH, request.timeout_ms),
            )
        retry: Retry = partial(self._init, request, token)
        if transaction.is_in_transition:
            self._wait(transaction, retry, refuse, waiting, now)
            return
        stored, expected = transaction.stored, request.expected
        if expected is not None and not _may_continue(stored, expected):
            self._note_fenced(request, expected, now)
            refuse(ErrorCode.producer_fenced)
            return
        action = TABLE[stored.state][Event.INIT]
        if action is Action.FENCE:
            waiting = waiting or self._waiting(retry, refuse, now)

            def on_fenced(error: ErrorCode, later: Moment) -> None:
                if error is not ErrorCode.none:
                    refuse(error)
                else:  # try again once the transaction is aborted
                    self._parts.waits.add(transactional_id, waiting, later)

            why = Why(Asker.NEW_PRODUCER, now, request.client)
            if not self._fence(transaction, request.fresh_producer_id, why, on_fenced):
                answer(token, _NEEDS_ID)
        else:
            self._bump(transaction, request, token, now)

    def _bump(
        self, transaction: Transaction, request: InitProducer, token: object, now: Moment
    ) -> None:
        stored, expected = transaction.stored, request.expected
        epoch = stored.producer_epoch
        expected_epoch = None if expected is None else expected.epoch
        new = StoredTransaction(
            stored.producer_id,
            epoch + 1,
            request.timeout_ms,
            last_update_ms=now.wall_ms,
            start_ms=NOT_STARTED,
            client_version=stored.client_version,
        )
        if stored.is_exhausted and expected_epoch in (None, epoch):
            if request.fresh_producer_id == NO_PRODUCER_ID:
                self._parts.outbox.answer(token, _NEEDS_ID)
                return
            new = new._replace(
                producer_id=request.fresh_producer_id,
                producer_epoch=0,
                last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else epoch,
            )
        elif expected is not None and epoch != NO_PRODUCER_EPOCH:
            if expected_epoch == epoch:
                new = new._replace(last_producer_epoch=epoch)
            elif expected_epoch == stored.last_producer_epoch:
                # The client repeats a request whose answer it has not got.
                new = new._replace(producer_epoch=epoch, last_producer_epoch=expected.epoch)
            else:
                self._note_fenced(request, expected, now)
                self._refuse_producer(token, ErrorCode.producer_fenced)
                return
        why = Why(Asker.CLIENT, now, request.client)
        self._storing.store(transaction, new, partial(self._answer_producer, token, new), why)

    def _fence(
        self, transaction: Transaction, fresh_producer_id: int, why: Why, on_fenced: OnStored
    ) -> bool:
        """Abort the open transaction in a higher epoch. False: that needs a new producer id.

        As an EndTxn of the producer would: it is told its new epoch if it continues afterwards.
        """
        new = _prepared(
            transaction.stored,
            TransactionState.PREPARE_ABORT,
            EPOCH_BUMPED_AT_END,
            fresh_producer_id,
            why.at,
        )
        if new is None:
            return False
        self._storing.store(transaction, new, on_fenced, why)
        return True

    # ------------------------------------------------------------------ partitions

    def add(self, request: AddPartitions, token: object, now: Moment) -> None:
        """Add partitions; answered when they are stored."""
        self._add(request, token, None, now)

    def _add(
        self, request: AddPartitions, token: object, waiting: Waiting | None, now: Moment
    ) -> None:
        refuse = partial(self._parts.outbox.answer, token)
        transaction = self._parts.transactions.get(request.transactional_id)
        if transaction is None:
            refuse(ErrorCode.invalid_producer_id_mapping)
            return
        retry: Retry = partial(self._add, request, token)
        if transaction.is_in_transition:
            self._wait(transaction, retry, refuse, waiting, now)
            return
        stored = transaction.stored
        if request.producer.producer_id != stored.producer_id:
            refuse(ErrorCode.invalid_producer_id_mapping)
            return
        epoch = request.producer.epoch
        if epoch != stored.producer_epoch or not 0 <= epoch <= LAST_EPOCH:
            self._note_fenced(request, request.producer, now)
            refuse(ErrorCode.producer_fenced)  # no producer is ever given another epoch
            return
        action = TABLE[stored.state][Event.ADD]
        if action is Action.ADD and request.partitions <= stored.partitions:
            refuse(ErrorCode.none)
        else:
            is_open = action is Action.ADD
            new = stored._replace(
                state=TransactionState.ONGOING,
                partitions=request.partitions | (stored.partitions if is_open else frozenset()),
                start_ms=stored.start_ms if is_open else now.wall_ms,
                last_update_ms=now.wall_ms,
                client_version=request.client_version,
            )
            why = Why(Asker.CLIENT, now, request.client, request.group)
            self._storing.store(transaction, new, lambda error, _now: refuse(error), why)

    def verify(self, query: VerifyPartitions, _now: Moment) -> Mapping[TopicPartition, ErrorCode]:
        """An error for each partition."""
        error = self._mismatch(query)
        if error is not ErrorCode.none:
            return dict.fromkeys(query.partitions, error)
        partitions = self._parts.transactions[query.transactional_id].stored.partitions
        absent = ErrorCode.transaction_abortable
        return {each: ErrorCode.none if each in partitions else absent for each in query.partitions}

    def _mismatch(self, query: VerifyPartitions) -> ErrorCode:
        transaction = self._parts.transactions.get(query.transactional_id)
        if transaction is None:
            return ErrorCode.invalid_producer_id_mapping
        stored = transaction.stored
        if query.producer.producer_id != stored.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        if query.producer.epoch != stored.producer_epoch:
            return ErrorCode.producer_fenced
        if stored.state.is_preparing:
            return ErrorCode.concurrent_transactions
        return ErrorCode.none

    # ------------------------------------------------------------------ the end

    def end(self, request: EndTransaction, token: object, now: Moment) -> None:
        """Commit or abort; answered when that is stored."""
        self._end(request, token, None, now)

    def _end(
        self, request: EndTransaction, token: object, waiting: Waiting | None, now: Moment
    ) -> None:
        refuse = partial(self._refuse_producer, token)
        transaction = self._parts.transactions.get(request.transactional_id)
        if transaction is None:
            refuse(ErrorCode.invalid_producer_id_mapping)
            return
        stored = transaction.stored
        event = _end_event(stored, request)
        # From version 2 on, the transition may change the producer. Earlier ones cannot repeat a
        # request that was refused, so Kafka tells them at once that they are fenced.
        is_fenced = isinstance(event, ErrorCode) and request.client_version < EPOCH_BUMPED_AT_END
        if transaction.is_in_transition and not is_fenced:
            self._wait(transaction, partial(self._end, request, token), refuse, waiting, now)
            return
        if isinstance(event, ErrorCode):
            if event is ErrorCode.producer_fenced:
                self._note_fenced(request, request.producer, now)
            refuse(event)
            return
        action = TABLE[stored.state][event]
        if action is Action.CONFIRM:
            self._answer_producer(token, stored, ErrorCode.none, now)
        elif action is Action.REFUSE:
            refuse(ErrorCode.invalid_txn_state)
        elif action is Action.FENCED:
            self._note_fenced(request, request.producer, now)
            refuse(ErrorCode.producer_fenced)
        else:
            self._prepare(transaction, request, token, now, is_empty=action is Action.ABORT_EMPTY)

    def _prepare(
        self,
        transaction: Transaction,
        request: EndTransaction,
        token: object,
        now: Moment,
        *,
        is_empty: bool,
    ) -> None:
        is_commit = request.is_commit
        new = _prepared(
            transaction.stored,
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            request.client_version,
            request.fresh_producer_id,
            now,
        )
        if new is None:
            self._parts.outbox.answer(token, _NEEDS_ID)
            return
        if is_empty:
            new = new._replace(start_ms=now.wall_ms)
        told = new
        if new.next_producer_id != NO_PRODUCER_ID:
            told = new._replace(producer_id=new.next_producer_id, producer_epoch=0)
        why = Why(Asker.CLIENT, now, request.client)
        self._storing.store(transaction, new, partial(self._answer_producer, token, told), why)

    def marked(self, event: PartitionsMarked, token: object, now: Moment) -> None:
        """Partitions have the marker; the transaction is complete with the last one."""
        self._parts.outbox.answer(token, None)
        transaction = self._parts.transactions.get(event.transactional_id)
        if transaction is None or transaction.pending is not None:
            return
        stored = transaction.stored
        identity = ProducerIdentity(stored.producer_id, stored.producer_epoch)
        if identity != event.producer or not transaction.unmarked:
            return
        transaction.mark(event.partitions)
        self._parts.histories.on_marked(event.transactional_id, stored, event.partitions, now)
        if not transaction.unmarked and TABLE[stored.state][Event.MARKED] is Action.COMPLETE:
            self._storing.complete(transaction, now)

    # ------------------------------------------------------------------ time

    def on_timeout(self, transactional_id: str, now: Moment) -> None:
        """Abort a transaction that is open for longer than its timeout."""
        self._abort_if_late(transactional_id, NO_PRODUCER_ID, now)

    def with_producer_id(self, request: AbortIfLate, token: object, now: Moment) -> None:
        """Take the producer id that a message of `on_timeout` has asked for."""
        self._parts.outbox.answer(token, None)
        self._abort_if_late(request.transactional_id, request.fresh_producer_id, now)

    def _abort_if_late(self, transactional_id: str, fresh_producer_id: int, now: Moment) -> None:
        transaction = self._parts.transactions.get(transactional_id)
        if transaction is None or transaction.pending is not None:
            return
        stored = transaction.stored
        if TABLE[stored.state][Event.TIMEOUT] is not Action.FENCE:
            return
        if stored.start_ms + stored.timeout_ms < now.wall_ms and not self._fence(
            transaction, fresh_producer_id, Why(Asker.TIMEOUT, now), _ignore
        ):
            self._parts.outbox.send(WantsProducerId(transactional_id))

    def on_expiry(self, transactional_id: str, now: Moment) -> None:
        """Remove a transactional id that was not used for long."""
        transaction = self._parts.transactions.get(transactional_id)
        if transaction is None or transaction.pending is not None:
            return
        stored = transaction.stored
        if TABLE[stored.state][Event.EXPIRY] is not Action.REMOVE:
            return
        if stored.last_update_ms + self._parts.options().id_expiration_ms <= now.wall_ms:
            self._storing.remove(transaction, now)

    # ------------------------------------------------------------------ helpers

    def _note_fenced(
        self,
        request: InitProducer | AddPartitions | EndTransaction,
        producer: ProducerIdentity,
        now: Moment,
    ) -> None:
        self._parts.histories.on_refused(
            request.transactional_id, _NAMES[type(request)], producer, request.client, now
        )

    def _wait(
        self,
        transaction: Transaction,
        retry: Retry,
        refuse: Refuse,
        waiting: Waiting | None,
        now: Moment,
    ) -> None:
        """Try again when the transition is complete; `waiting` has waited before."""
        waiting = waiting or self._waiting(retry, refuse, now)
        self._parts.waits.add(transaction.transactional_id, waiting, now)

    def _waiting(self, retry: Retry, refuse: Refuse, now: Moment) -> Waiting:
        deadline_ms = MonotonicMs(now.monotonic_ms + self._parts.options().wait_max_ms)
        return Waiting(retry, refuse, deadline_ms)

    def _answer_producer(
        self, token: object, told: StoredTransaction, error: ErrorCode, _now: Moment
    ) -> None:
        if error is not ErrorCode.none:
            self._refuse_producer(token, error)
            return
        producer = ProducerIdentity(told.producer_id, told.producer_epoch)
        self._parts.outbox.answer(token, ProducerReply(ErrorCode.none, producer))

    def _refuse_producer(self, token: object, error: ErrorCode) -> None:
        self._parts.outbox.answer(token, ProducerReply(error))


def _prepared(
    stored: StoredTransaction,
    state: TransactionState,
    client_version: int,
    fresh_producer_id: int,
    now: Moment,
) -> StoredTransaction | None:
    """The open transaction with its outcome; None if that needs a new producer id."""
    if client_version < EPOCH_BUMPED_AT_END:
        return stored._replace(
            state=state, last_update_ms=now.wall_ms, client_version=client_version
        )
    next_producer_id = stored.next_producer_id
    if stored.is_exhausted:
        next_producer_id = fresh_producer_id
        if next_producer_id == NO_PRODUCER_ID:
            return None
    return stored._replace(
        state=state,
        last_update_ms=now.wall_ms,
        client_version=client_version,
        next_producer_id=next_producer_id,
        producer_epoch=min(stored.producer_epoch + 1, EPOCH_MAX),
        last_producer_epoch=stored.producer_epoch,
    )


def _may_continue(stored: StoredTransaction, expected: ProducerIdentity) -> bool:
    """Whether a producer that continues is the present one: its epoch is checked later. Or it may
    repeat the request that brought the present producer id, or the id was just created."""
    return (
        stored.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == stored.producer_id
        or (expected.producer_id == stored.previous_producer_id and expected.epoch >= LAST_EPOCH)
    )


def _end_event(stored: StoredTransaction, request: EndTransaction) -> Event | ErrorCode:
    """The event that an EndTxn is, or the error if it is not the present producer's."""
    producer, is_commit = request.producer, request.is_commit
    if producer.epoch < 0 <= producer.producer_id:
        return ErrorCode.producer_fenced  # an id whose first epoch could not be stored
    is_same_id = producer.producer_id == stored.producer_id
    if request.client_version < EPOCH_BUMPED_AT_END:
        if not is_same_id:
            return ErrorCode.invalid_producer_id_mapping
        if producer.epoch != stored.producer_epoch:
            return ErrorCode.producer_fenced
        return Event.COMMIT_V1 if is_commit else Event.ABORT_V1
    is_after_overflow = (
        producer.producer_id == stored.previous_producer_id
        and producer.epoch == LAST_EPOCH
        and stored.producer_epoch == 0
        and stored.state.is_idle
    )
    if not is_same_id and not is_after_overflow:
        return ErrorCode.invalid_producer_id_mapping
    # If its end did not bump the epoch, this is another producer, which was replaced.
    is_again = (
        producer.epoch == stored.producer_epoch - 1 and stored.client_version >= EPOCH_BUMPED_AT_END
    )
    if is_after_overflow or is_again:
        return Event.COMMIT_AGAIN if is_commit else Event.ABORT_AGAIN
    if producer.epoch != stored.producer_epoch:
        return ErrorCode.producer_fenced
    return Event.COMMIT if is_commit else Event.ABORT


def _ignore(_error: ErrorCode, _now: Moment) -> None:
    """Nobody waits for the outcome."""
