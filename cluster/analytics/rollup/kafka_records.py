"""Reads offset ranges of a topic with confluent-kafka.

Spark's driver reads the ends of partitions, its workers the records. No consumer group is joined
and no offset committed, because each range is assigned to one task.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata

from cluster.analytics.rollup.offset_ranges import OffsetRange, TopicRanges
from cluster.runtime.interrupts import deferred_interrupt

BLOCK_RECORDS: Final = 25_000
"""Values parsed at once: enough to make the parser's start-up cost negligible."""
BLOCK_BYTES: Final = 32 << 20
"""A block with this many bytes of values is parsed even if it has fewer values."""
STALL_S: Final = 30.0
"""Reading fails after this long without progress; an election of a leader is much shorter."""

_ANSWER_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.2
_AT_ONCE: Final = 500
"""So few messages that none of them survives until a garbage collection, which would take a fifth
of the time."""
_AT_FIRST: Final = 16
"""Used until their size is known."""
_TAKEN_BYTES: Final = 4 << 20
"""Messages are taken in numbers that amount to this size, if they are as large as the last ones."""
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic in a cluster without ids."""
_TRANSIENT: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # for the group that is named and never joined
    }
)


class Block(NamedTuple):
    """Successive records."""

    values: list[bytes | None]
    keys: list[bytes | None]
    timestamps_ms: list[int]
    """Kafka's timestamps; -1 without one."""
    offsets: list[int]


class ReadFailed(Exception):
    """A range cannot be read; the message says which and why."""


class RecordsLost(Exception):
    """The topic's retention removed the start of a range before it was read."""


def topic_ranges(connection: Mapping[str, str], topic: str) -> tuple[OffsetRange, ...]:
    """The current range of offsets of each partition. Empty if the topic does not exist.

    Raises KafkaException.
    """
    with open_consumer(connection) as consumer:
        found = consumer.list_topics(topic, timeout=_ANSWER_TIMEOUT_S)
        return _ranges(consumer, found, topic)


def topic_state(connection: Mapping[str, str], topic: str) -> TopicRanges:
    """The current content of a topic, and its place. Raises KafkaException."""
    with open_consumer(connection) as consumer:
        found = consumer.list_topics(timeout=_ANSWER_TIMEOUT_S)
        ranges = _ranges(consumer, found, topic)
    return TopicRanges(
        topic,
        topic_id(connection, topic) if ranges else None,
        ranges,
        cluster_id=found.cluster_id,
        hosts=tuple(sorted({broker.host for broker in found.brokers.values()})),
    )


def _ranges(consumer: Consumer, found: ClusterMetadata, topic: str) -> tuple[OffsetRange, ...]:
    there = found.topics.get(topic)
    if there is None or there.error is not None:
        return ()
    return tuple(
        OffsetRange(partition, *_watermarks(consumer, topic, partition))
        for partition in sorted(there.partitions)
    )


def topic_id(connection: Mapping[str, str], topic: str) -> str | None:
    """The id that distinguishes a topic from a deleted one of the same name; None if unknown."""
    admin = AdminClient({"log_level": 0, **connection})
    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_TIMEOUT_S)
    try:
        found = str(asked[topic].result(_ANSWER_TIMEOUT_S).topic_id)
    except (KafkaException, TimeoutError):
        return None  # offsets show most of it
    return None if found == _NO_ID else found


def read_range(
    connection: Mapping[str, str], topic: str, wanted: OffsetRange, *, fail_on_data_loss: bool
) -> Iterator[Block | int]:
    """The records of a range in blocks; an integer in between is a number of lost records.

    Raises RecordsLost for these with `fail_on_data_loss`, ReadFailed after STALL_S without
    progress, and KafkaException.
    """
    with open_consumer(connection) as consumer:
        position = wanted.start
        while position < wanted.end:
            try:
                consumer.assign([TopicPartition(topic, wanted.partition, position)])
                for block, reached in _blocks(consumer, wanted, position):
                    position = reached
                    if block.values:
                        yield block
            except RecordsLost:
                if fail_on_data_loss:
                    raise
                first, _ = _watermarks(consumer, topic, wanted.partition)
                resumed = min(first, wanted.end)
                if resumed <= position:
                    raise ReadFailed(
                        f"partition {wanted.partition} has no offset {position}: was the topic"
                        " deleted and recreated?"
                    ) from None
                yield resumed - position
                position = resumed


def _blocks(consumer: Consumer, wanted: OffsetRange, position: int) -> Iterator[tuple[Block, int]]:
    """Records from a position to the range's end in blocks, and after each the next position.

    The last block may be empty: a range may end with, or consist of, offsets without a record.
    """
    filling = _Filling(wanted, position)
    deadline = time.monotonic() + STALL_S
    while filling.position < wanted.end:
        before = filling.position
        # Takes only what has arrived, so that the client's queue bounds the messages.
        messages = consumer.consume(filling.room(), 0) or consumer.consume(1, _POLL_S)
        filling.take_all(messages)
        if filling.position > before:
            deadline = time.monotonic() + STALL_S
        elif time.monotonic() > deadline:
            raise ReadFailed(
                f"partition {wanted.partition} returned no records for {STALL_S:g} s"
                f" at offset {filling.position} of {wanted.end}"
            )
        if filling.is_full() or filling.position >= wanted.end:
            yield filling.block, filling.position
            filling.begin_another()


class _Filling:
    """A block that is being filled from messages of one range."""

    def __init__(self, wanted: OffsetRange, position: int) -> None:
        self.position = position
        """The next offset."""
        self.block = Block([], [], [], [])
        self._wanted = wanted
        self._bytes = 0
        self._at_once = _AT_FIRST

    def room(self) -> int:
        """The number of messages to ask for."""
        return min(self._at_once, BLOCK_RECORDS - len(self.block.values))

    def is_full(self) -> bool:
        return self._bytes >= BLOCK_BYTES or len(self.block.values) >= BLOCK_RECORDS

    def begin_another(self) -> None:
        self.block = Block([], [], [], [])
        self._bytes = 0

    def take_all(self, messages: Sequence[Message]) -> None:
        """Add the records of messages; errors among them are handled by `_after_error`."""
        had = self._bytes
        if not self._take_gapless(messages):
            for message in messages:
                self._take(message)
        if messages:
            size = max(1, (self._bytes - had) // len(messages))
            self._at_once = max(1, min(_AT_ONCE, 2 * self._at_once, _TAKEN_BYTES // size))

    def _take_gapless(self, messages: Sequence[Message]) -> bool:
        """Add messages together if all are records without a gap within the range, as most are."""
        if not messages or any(message.error() is not None for message in messages):
            return False
        first, last = messages[0].offset() or 0, messages[-1].offset() or 0
        is_gapless = last - first + 1 == len(messages)
        if not is_gapless or first < self.position or last >= self._wanted.end:
            return False
        values = [message.value() for message in messages]
        self.block.values.extend(values)
        self.block.keys.extend([message.key() for message in messages])
        self.block.timestamps_ms.extend([message.timestamp()[1] for message in messages])
        self.block.offsets.extend(range(first, last + 1))
        self._bytes += sum([len(value) for value in values if value])
        self.position = last + 1
        return True

    def _take(self, message: Message) -> None:
        error = message.error()
        offset = message.offset() or 0  # None for an event without an offset
        if error is not None:
            self.position = _after_error(error, offset, self.position, self._wanted)
            return
        if self.position <= offset < self._wanted.end:
            value = message.value()
            self.block.values.append(value)
            self.block.keys.append(message.key())
            self.block.timestamps_ms.append(message.timestamp()[1])
            self.block.offsets.append(offset)
            self._bytes += len(value or b"")
        self.position = max(self.position, min(offset + 1, self._wanted.end))


def _after_error(error: KafkaError, offset: int, position: int, wanted: OffsetRange) -> int:
    """The position after an event. Raises RecordsLost, and KafkaException for lasting errors."""
    if error.code() == KafkaError._PARTITION_EOF:
        # Markers or compaction may leave the end without a record.
        return wanted.end if offset >= wanted.end else position
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise RecordsLost(f"partition {wanted.partition} no longer has offset {position}")
    if error.code() not in _TRANSIENT:
        raise KafkaException(error)
    return position


def _watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    where = TopicPartition(topic, partition, OFFSET_BEGINNING)
    first, end = consumer.get_watermark_offsets(where, timeout=_ANSWER_TIMEOUT_S)
    return first, end


@contextmanager
def open_consumer(connection: Mapping[str, str]) -> Iterator[Consumer]:
    with deferred_interrupt():
        consumer = Consumer(
            {
                "group.id": "milena-rollup",  # required by the library, never joined
                "client.id": "milena-rollup",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,  # the default of 500 delays the end of every range
                "fetch.queue.backoff.ms": 5,
                "queued.max.messages.kbytes": 16_384,  # for each task; two blocks ahead are enough
                "log_level": 0,
                **connection,
            }
        )
    try:
        yield consumer
    finally:
        consumer.close()
