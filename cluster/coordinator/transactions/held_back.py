"""What holds the last stable offsets of partitions back, as their leaders send it to `transactions
explain`. Pure.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.coordinator.transactions.requests import ClientName, ProducerIdentity
from cluster.model.error_codes import ErrorCode
from cluster.protocol.peer.field_types import (
    BOOLEAN,
    EPOCH,
    ERROR_CODE,
    INT32,
    LONG,
    NUMBER,
    OFFSET,
    OFFSET_OR_NONE,
    integer,
    listed,
    optional,
    record,
    text,
)
from cluster.protocol.peer.packed_body import PackedBody

OPEN_MAX: Final = 20
"""The open transactions of a partition that are shown, the oldest ones."""
_TEXT: Final = text(40_000)
_MANY: Final = 1_000_000
_TIME: Final = integer(-(2**62), 2**62)


class Writer(NamedTuple):
    """The client that began a transaction in a partition."""

    transactional_id: str
    client: ClientName


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker in the partition."""

    producer: ProducerIdentity
    coordinator_epoch: int
    first_offset: int
    first_timestamp_ms: int
    """Of the newest record of its first batch; -1 if the batch cannot be read."""
    last_timestamp_ms: int
    """Of its producer's last record."""
    writer: Writer | None
    """Unknown if another broker led the partition when it began."""
    is_writer_hidden: bool = False
    """Whether the asking user may not describe the transactional id that it wrote with."""


@dataclass(frozen=True, slots=True)
class UncommittedMarker:
    """A transaction that has ended, and whose marker not all in-sync replicas have."""

    first_offset: int
    marker_offset: int


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition whose last stable offset is lower than its high watermark."""

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    waiting_records: int
    """Offsets between the last stable offset and the high watermark."""
    waiting_bytes: int
    """-1 if a damaged batch hides it."""
    open: tuple[OpenTransaction, ...]
    """The oldest first."""
    open_left_off: int
    uncommitted: UncommittedMarker | None
    is_index_damaged: bool
    """The index of aborted transactions cannot be read, so nothing is served."""


class UnknownPartition(NamedTuple):
    """A partition of which the broker tells nothing."""

    topic: str
    partition: int
    code: ErrorCode


class PartitionQuestion(NamedTuple):
    """Partitions that the broker leads; `partition` is -1 for all of the topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ExplainPartitionsAnswer:
    """The answer of one broker."""

    broker: int
    now_wall_ms: int
    examined: int
    """So many partitions were examined."""
    open_transactions: int
    """In these partitions together, also those that hold nothing back yet."""
    held: tuple[HeldPartition, ...]
    unknown: tuple[UnknownPartition, ...]


_CLIENT: Final = record(ClientName, client_id=_TEXT, host=_TEXT)
_PRODUCER: Final = record(ProducerIdentity, producer_id=LONG, epoch=EPOCH)
_OPEN: Final = record(
    OpenTransaction,
    producer=_PRODUCER,
    coordinator_epoch=EPOCH,
    first_offset=OFFSET,
    first_timestamp_ms=_TIME,
    last_timestamp_ms=_TIME,
    writer=optional(record(Writer, transactional_id=_TEXT, client=_CLIENT)),
    is_writer_hidden=BOOLEAN,
)
_HELD: Final = record(
    HeldPartition,
    topic=_TEXT,
    partition=INT32,
    last_stable_offset=OFFSET,
    high_watermark=OFFSET,
    log_end_offset=OFFSET,
    waiting_records=LONG,
    waiting_bytes=OFFSET_OR_NONE,
    open=listed(_OPEN, _MANY),
    open_left_off=NUMBER,
    uncommitted=optional(record(UncommittedMarker, first_offset=OFFSET, marker_offset=OFFSET)),
    is_index_damaged=BOOLEAN,
)
_ANSWER: Final = record(
    ExplainPartitionsAnswer,
    broker=INT32,
    now_wall_ms=_TIME,
    examined=NUMBER,
    open_transactions=NUMBER,
    held=listed(_HELD, _MANY),
    unknown=listed(record(UnknownPartition, topic=_TEXT, partition=INT32, code=ERROR_CODE), _MANY),
)

QUESTION: Final = PackedBody[tuple[PartitionQuestion, ...]](
    listed(record(PartitionQuestion, topic=_TEXT, partition=OFFSET_OR_NONE), _MANY)
)
"""The body of a request; nothing asks for all partitions that the broker leads."""
ANSWER: Final = PackedBody[ExplainPartitionsAnswer](_ANSWER)
"""The body of an answer."""
