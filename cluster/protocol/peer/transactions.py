"""Requests between brokers about transactions, and their answers.

In Kafka these are AddPartitionsToTxn from version 4 on, and WriteTxnMarkers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode
from cluster.protocol.peer.control import PARTITIONS_OF_TOPICS, NumberedPartitions, Request
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    ERROR_CODE,
    INT16,
    INT16_MAX,
    INT64,
    LONG,
    NUMBER,
    integer,
    listed,
    record,
    text,
)
from cluster.protocol.peer.replication import PARTITIONS_MAX

_TRANSACTIONS_MAX: Final = 10_000
_ID: Final = text(0x7FFF)


class TransactionPartitions(NamedTuple):
    """Partitions that a producer is about to write to, or to commit offsets in.

    With `is_added` they become part of its transaction; otherwise they must be part of it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_added: bool
    topics: Sequence[NumberedPartitions]


@dataclass(frozen=True, slots=True)
class PartitionErrors:
    """An error code for each partition of each item of the request, in their order."""

    codes: Sequence[Sequence[ErrorCode]]


@dataclass(frozen=True, slots=True)
class CheckTransactions(Request[PartitionErrors]):
    """A leader asks a transaction coordinator (KIP-890)."""

    transactions: Sequence[TransactionPartitions]


class MarkersOfProducer(NamedTuple):
    """The end of a producer's transaction in some partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    topics: Sequence[NumberedPartitions]
    leader_epochs: Sequence[int]
    """The epoch of each partition's leader as the coordinator knows it, in the same order."""


@dataclass(frozen=True, slots=True)
class WriteMarkers(Request[PartitionErrors]):
    """A transaction coordinator asks a leader to end transactions.

    The leader refuses in any other epoch: a request may be held up until the transaction was ended
    by another leader, and the producer has begun its next one.
    """

    markers: Sequence[MarkersOfProducer]


CHECK_TRANSACTIONS: Final = record(
    CheckTransactions,
    transactions=listed(
        record(
            TransactionPartitions,
            transactional_id=_ID,
            producer_id=INT64,
            producer_epoch=INT16,
            is_added=BOOLEAN,
            topics=PARTITIONS_OF_TOPICS,
        ),
        _TRANSACTIONS_MAX,
    ),
)
WRITE_MARKERS: Final = record(
    WriteMarkers,
    markers=listed(
        record(
            MarkersOfProducer,
            producer_id=LONG,
            producer_epoch=integer(0, INT16_MAX),
            coordinator_epoch=NUMBER,
            is_commit=BOOLEAN,
            topics=PARTITIONS_OF_TOPICS,
            leader_epochs=listed(NUMBER, PARTITIONS_MAX),
        ),
        _TRANSACTIONS_MAX,
    ),
)
PARTITION_ERRORS: Final = record(
    PartitionErrors, codes=listed(listed(ERROR_CODE, PARTITIONS_MAX), _TRANSACTIONS_MAX)
)
