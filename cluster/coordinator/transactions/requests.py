"""Requests to the transaction coordinator and its replies, independent of protocol versions.

Kafka: the methods of `TransactionCoordinator`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster.coordinator.shards.requests import Query, Request
from cluster.coordinator.transactions.states import TransactionState
from cluster.model.clocks import WallMs
from cluster.model.error_codes import ErrorCode
from cluster.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition


class ProducerIdentity(NamedTuple):
    """A producer id with its epoch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NOBODY = ProducerIdentity()


class ClientName(NamedTuple):
    """The names by which a person recognizes a client. Untrusted text."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class ProducerReply:
    """The producer id and epoch to use from now on, or an error.

    With `needs_producer_id` nothing was done: the request needs a new producer id, and is to be
    repeated with one.
    """

    error: ErrorCode
    producer: ProducerIdentity = NOBODY
    needs_producer_id: bool = False


@dataclass(frozen=True, slots=True)
class InitProducer(Request[ProducerReply]):
    """A producer starts with a transactional id, which fences every earlier one; or it continues
    after an error as the `expected` one (KIP-360).

    Handlers check id and timeout.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    fresh_producer_id: int = NO_PRODUCER_ID
    """An unused id, if one was needed."""
    client: ClientName | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions(Request[ErrorCode]):
    """Partitions become part of a producer's transaction, which begins with the first ones."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    client_version: int
    """The transaction version of the client."""
    client: ClientName | None = None
    """Unknown if the leader of a partition asks for its producer."""
    group: str | None = None
    """The group whose offsets they are for."""


@dataclass(frozen=True, slots=True)
class EndTransaction(Request[ProducerReply]):
    """A producer commits or aborts; answered when the outcome is stored."""

    transactional_id: str
    producer: ProducerIdentity
    is_commit: bool
    client_version: int
    fresh_producer_id: int = NO_PRODUCER_ID
    client: ClientName | None = None


@dataclass(frozen=True, slots=True)
class PartitionsMarked(Request[None]):
    """Partitions have the marker of a transaction's end, or do not exist any more."""

    transactional_id: str
    producer: ProducerIdentity
    """Of the marker."""
    partitions: Collection[TopicPartition]


@dataclass(frozen=True, slots=True)
class AbortIfLate(Request[None]):
    """The answer to `WantsProducerId`."""

    transactional_id: str
    fresh_producer_id: int


@dataclass(frozen=True, slots=True)
class VerifyPartitions(Query[Mapping[TopicPartition, ErrorCode]]):
    """Whether partitions are part of a producer's open transaction (KIP-890)."""

    transactional_id: str
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]


class EndMarkers(NamedTuple):
    """Markers to be written to all of these partitions: a message to the brokers that lead them.

    `PartitionsMarked` reports which have theirs.
    """

    transactional_id: str
    producer: ProducerIdentity
    coordinator_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]


class WantsProducerId(NamedTuple):
    """A transaction is open for too long, and its abort needs a new producer id: a message to this
    broker."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """One transactional id as requests describe it."""

    transactional_id: str
    state: TransactionState
    producer: ProducerIdentity
    timeout_ms: int
    start_ms: WallMs
    last_update_ms: WallMs
    partitions: frozenset[TopicPartition]


class OpenCount(NamedTuple):
    """Open transactions."""

    number: int
    oldest_start_ms: WallMs | None
    """When the oldest began; None if there is none."""


@dataclass(frozen=True, slots=True)
class CountOpen(Query[OpenCount]):
    """The open transactions, for metrics."""


@dataclass(frozen=True, slots=True)
class CountRetried(Query[int]):
    """Transactions whose last record could not be written, for metrics."""


@dataclass(frozen=True, slots=True)
class DescribeTransaction(Query[DescribedTransaction | None]):
    """One transactional id; None if it is unknown here."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListTransactions(Query[Iterator[list[DescribedTransaction]]]):
    """The transactional ids that fulfil every condition given, in pieces.

    Each piece is found when it is asked for, so that events may come in between: an id is listed
    once at most, as it is then.
    """

    states: frozenset[TransactionState] = frozenset()
    """Empty: any state."""
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    """The last transaction began longer ago than this, whether it has ended or not, as in Kafka;
    -1: any."""
    matches: Callable[[str], bool] | None = None
    """Of the transactional id."""
