"""A transactional id and its last transactions, as the coordinator sends them to `transactions
explain`. Pure.
"""

from dataclasses import dataclass
from typing import Final

from cluster.coordinator.shards.requests import Query
from cluster.coordinator.transactions.history import (
    Asker,
    PastTransaction,
    ProducerStart,
    Refusal,
    StepKind,
)
from cluster.coordinator.transactions.requests import ClientName, ProducerIdentity
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import TopicPartition
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    EPOCH,
    ERROR_CODE,
    INT32,
    LONG,
    NUMBER,
    integer,
    listed,
    optional,
    record,
    text,
)
from cluster.protocol.peer.packed_body import PackedBody, named

PARTITIONS_MAX: Final = 1_000
"""The partitions of a larger transaction are shown in part."""
STEP_PARTITIONS_MAX: Final = 50
_TEXT: Final = text(40_000)
_MANY: Final = 1_000_000
_TIME: Final = integer(-(2**62), 2**62)
_PRODUCER_ID: Final = integer(-1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One event of a transaction."""

    kind: StepKind
    after_ms: int
    """Since the transaction began, when it was asked for."""
    took_ms: int
    """Until its record was stored; 0 if it has none."""
    asker: Asker
    client: ClientName | None
    group: str | None
    partitions: tuple[TopicPartition, ...]
    partitions_left_off: int


@dataclass(frozen=True, slots=True)
class ExplainedTransaction:
    """One transaction, as `PastTransaction`."""

    producer: ProducerIdentity
    timeout_ms: int
    began_wall_ms: int
    is_partial: bool
    steps: tuple[ExplainedStep, ...]
    steps_left_off: int
    is_complete: bool


def explained(transaction: PastTransaction) -> ExplainedTransaction:
    """The form in which a transaction is sent."""
    steps = []
    for kind, why, stored_ms, partitions in transaction.steps:
        kept = tuple(sorted(partitions)[:STEP_PARTITIONS_MAX])
        at_ms = why.at.monotonic_ms
        steps.append(
            ExplainedStep(
                kind,
                max(0, at_ms - transaction.began_ms),
                stored_ms - at_ms,
                why.asker,
                why.client,
                why.group,
                kept,
                len(partitions) - len(kept),
            )
        )
    return ExplainedTransaction(
        transaction.producer,
        transaction.timeout_ms,
        transaction.began_wall_ms,
        transaction.is_partial,
        tuple(steps),
        transaction.steps_left_off,
        transaction.is_complete,
    )


@dataclass(frozen=True, slots=True)
class TransactionExplanation:
    """The current state of a transactional id, and what is remembered of it."""

    state: TransactionState
    producer: ProducerIdentity
    client: ClientName | None
    """The client of the present producer, as far as it is known."""
    timeout_ms: int
    timeout_check_interval_ms: int
    """A timeout takes effect up to so much later."""
    start_wall_ms: int
    """When the open or last transaction began; -1 if none has begun since its producer did."""
    last_update_wall_ms: int
    partitions: tuple[TopicPartition, ...]
    partitions_left_off: int
    unmarked: tuple[TopicPartition, ...]
    """Partitions of a transaction that has ended, which are not known to have the marker."""
    unmarked_left_off: int
    storing: TransactionState | None
    """The state that is being stored."""
    storing_since_wall_ms: int
    """-1 if none is."""
    transactions: tuple[ExplainedTransaction, ...]
    """Oldest first; one that is not complete last."""
    transactions_left_off: int
    starts: tuple[ProducerStart, ...]
    refusals: tuple[Refusal, ...]
    remembers_since_wall_ms: int
    """Everything that has happened since then is known, unless it was left off."""


@dataclass(frozen=True, slots=True)
class ExplainTransaction(Query[TransactionExplanation | None]):
    """What is known of one transactional id; None if it is unknown here."""

    transactional_id: str
    loaded_wall_ms: int
    """Since when the shard can know something."""


@dataclass(frozen=True, slots=True)
class ExplainTransactionAnswer:
    """The answer of one broker about one transactional id."""

    code: ErrorCode
    """TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS: `transaction` is
    None."""
    broker: int
    now_wall_ms: int
    transaction: TransactionExplanation | None


_PARTITIONS: Final = listed(record(TopicPartition, topic=_TEXT, partition=INT32), _MANY)
_PRODUCER: Final = record(ProducerIdentity, producer_id=_PRODUCER_ID, epoch=EPOCH)
_CLIENT: Final = optional(record(ClientName, client_id=_TEXT, host=_TEXT))
_STATE: Final = named(TransactionState, "the name of a state")
_STEP: Final = record(
    ExplainedStep,
    kind=named(StepKind, "the name of a step"),
    after_ms=LONG,
    took_ms=LONG,
    asker=named(Asker, "the name of one who asks"),
    client=_CLIENT,
    group=optional(_TEXT),
    partitions=_PARTITIONS,
    partitions_left_off=NUMBER,
)
_TRANSACTION: Final = record(
    ExplainedTransaction,
    producer=_PRODUCER,
    timeout_ms=NUMBER,
    began_wall_ms=_TIME,
    is_partial=BOOLEAN,
    steps=listed(_STEP, _MANY),
    steps_left_off=NUMBER,
    is_complete=BOOLEAN,
)
_START: Final = record(
    ProducerStart,
    wall_ms=_TIME,
    producer=_PRODUCER,
    client=_CLIENT,
    fenced=_PRODUCER,
    fenced_client=_CLIENT,
)
_REFUSAL: Final = record(
    Refusal,
    request=_TEXT,
    producer=_PRODUCER,
    client=_CLIENT,
    first_wall_ms=_TIME,
    last_wall_ms=_TIME,
    count=NUMBER,
)
_EXPLANATION: Final = record(
    TransactionExplanation,
    state=_STATE,
    producer=_PRODUCER,
    client=_CLIENT,
    timeout_ms=NUMBER,
    timeout_check_interval_ms=NUMBER,
    start_wall_ms=_TIME,
    last_update_wall_ms=_TIME,
    partitions=_PARTITIONS,
    partitions_left_off=NUMBER,
    unmarked=_PARTITIONS,
    unmarked_left_off=NUMBER,
    storing=optional(_STATE),
    storing_since_wall_ms=_TIME,
    transactions=listed(_TRANSACTION, _MANY),
    transactions_left_off=NUMBER,
    starts=listed(_START, _MANY),
    refusals=listed(_REFUSAL, _MANY),
    remembers_since_wall_ms=_TIME,
)
_ANSWER: Final = record(
    ExplainTransactionAnswer,
    code=ERROR_CODE,
    broker=INT32,
    now_wall_ms=_TIME,
    transaction=optional(_EXPLANATION),
)

QUESTION: Final = PackedBody[str](_TEXT)
"""The body of a request: the transactional id."""
ANSWER: Final = PackedBody[ExplainTransactionAnswer](_ANSWER)
"""The body of an answer."""
