"""Encodes and decodes records of `__transaction_state` like Kafka 4.1. Pure.

Kafka: `TransactionLogKey`, `TransactionLogValue`. A key holds its version 0 (2 bytes) and the
transactional id, whose length takes two bytes. A value begins with its version (2 bytes):

    producer id (8), producer epoch (2), timeout (4), state (1), partitions, last update (8),
    start (8)

Its partitions are topics with lists of numbers (4), or null without a transaction. Version 1 has
the compact encoding, and tagged fields: 0 previous producer id (8), 1 next producer id (8), 2
transaction version of the client (2).
"""

import struct
from collections import defaultdict
from functools import lru_cache
from typing import Final

from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord
from cluster.coordinator.transactions.states import TransactionState
from cluster.coordinator.transactions.transaction import (
    EPOCH_BUMPED_AT_END,
    NOT_STARTED,
    StoredTransaction,
)
from cluster.model.clocks import WallMs
from cluster.model.errors import PeerError
from cluster.model.ids import NO_PRODUCER_ID, TopicPartition
from cluster.protocol.reader import read_varint
from cluster.protocol.writer import NO_TAGS, NULL_COMPACT, varint

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1
_TWO: Final = struct.Struct(">h")
_FOUR: Final = struct.Struct(">i")
_EIGHT: Final = struct.Struct(">q")
_START: Final = struct.Struct(">hqhib")
_END: Final = struct.Struct(">qq")
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = 0, 1, 2
_USUAL_TAGS: Final = {
    0: NO_TAGS,
    EPOCH_BUMPED_AT_END: b"".join(
        [varint(1), varint(_CLIENT_VERSION), varint(_TWO.size), _TWO.pack(EPOCH_BUMPED_AT_END)]
    ),
}
"""Without producer ids, by the transaction version of the client."""
_LAST_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last time that answers can contain."""


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id, of at most 32,767 bytes."""
    raw = transactional_id.encode()
    return _TWO.pack(KEY_VERSION) + _TWO.pack(len(raw)) + raw


def read_transaction_key(key: bytes) -> str:
    """The transactional id of a key. Raises UnknownRecord, CorruptRecord."""
    if len(key) < 4:
        raise CorruptRecord(f"key of {len(key)} bytes")
    version, size = _TWO.unpack_from(key)[0], _TWO.unpack_from(key, 2)[0]
    if version != KEY_VERSION:
        raise UnknownRecord(f"key of form {version}")
    if size < 0 or 4 + size > len(key):
        raise CorruptRecord(f"key of form {version} and {len(key)} bytes")
    try:
        return key[4 : 4 + size].decode()
    except UnicodeDecodeError:
        raise CorruptRecord(f"key of form {version} and {len(key)} bytes") from None


def transaction_value(stored: StoredTransaction) -> bytes:
    """Version 1, which Kafka writes from `transaction.version` 1 on."""
    parts = [
        _START.pack(
            VALUE_VERSION,
            stored.producer_id,
            stored.producer_epoch,
            stored.timeout_ms,
            stored.state,
        )
    ]
    if stored.state is TransactionState.EMPTY:
        parts.append(NULL_COMPACT)
    else:
        parts.append(_topics(stored.partitions))
    parts += (_END.pack(stored.last_update_ms, stored.start_ms), _tags(stored))
    return b"".join(parts)


@lru_cache(maxsize=64)
def _topics(partitions: frozenset[TopicPartition]) -> bytes:
    """Kept for a while: PrepareCommit follows with the same partitions."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    parts = [varint(len(topics) + 1)]
    for topic, numbers in topics.items():
        raw = topic.encode()
        parts += (varint(len(raw) + 1), raw, varint(len(numbers) + 1))
        parts += map(_FOUR.pack, numbers)
        parts.append(NO_TAGS)
    return b"".join(parts)


def _tags(stored: StoredTransaction) -> bytes:
    if stored.previous_producer_id == stored.next_producer_id == NO_PRODUCER_ID:
        usual = _USUAL_TAGS.get(stored.client_version)
        if usual is not None:
            return usual
    tags = []
    if stored.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS_ID, _EIGHT.pack(stored.previous_producer_id)))
    if stored.next_producer_id != NO_PRODUCER_ID:
        tags.append((_NEXT_ID, _EIGHT.pack(stored.next_producer_id)))
    if stored.client_version:
        tags.append((_CLIENT_VERSION, _TWO.pack(stored.client_version)))
    return varint(len(tags)) + b"".join(
        varint(tag) + varint(len(content)) + content for tag, content in tags
    )


def read_transaction_value(value: bytes) -> StoredTransaction:
    """Decode version 0 or 1. Raises UnknownRecord, CorruptRecord."""
    try:
        return _checked(_Reader(value).transaction())
    except (IndexError, UnicodeDecodeError, ValueError, struct.error, PeerError) as problem:
        if isinstance(problem, CorruptRecord):
            raise
        raise CorruptRecord(f"transaction of {len(value)} bytes") from None


def _checked(stored: StoredTransaction) -> StoredTransaction:
    """Refuse numbers that no coordinator writes, and that markers or answers could not contain."""
    times = stored.last_update_ms, stored.start_ms
    if (
        stored.producer_id < 0
        or stored.producer_epoch < 0
        or not all(NOT_STARTED <= each <= _LAST_TIME_MS for each in times)
    ):
        raise CorruptRecord("transaction with impossible numbers")
    return stored


class _Reader:
    """Decodes one value from front to back."""

    def __init__(self, value: bytes) -> None:
        self._version: int = _TWO.unpack_from(value)[0]
        if not 0 <= self._version <= VALUE_VERSION:
            raise UnknownRecord(f"transaction of form {self._version}")
        self._value = value
        self._position = _START.size
        self._is_compact = self._version >= 1

    def transaction(self) -> StoredTransaction:
        _, producer_id, epoch, timeout_ms, state = _START.unpack_from(self._value)
        partitions = self._partitions()
        last_update_ms, start_ms = _END.unpack_from(self._value, self._position)
        self._position += _END.size
        tags = self._tags() if self._is_compact else {}
        client_version = tags.get(_CLIENT_VERSION)
        return StoredTransaction(
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            state=TransactionState(state),
            partitions=partitions,
            last_update_ms=WallMs(last_update_ms),
            start_ms=WallMs(start_ms),
            previous_producer_id=_id_in(tags.get(_PREVIOUS_ID)),
            next_producer_id=_id_in(tags.get(_NEXT_ID)),
            client_version=0 if client_version is None else _TWO.unpack(client_version)[0],
        )

    def _partitions(self) -> frozenset[TopicPartition]:
        found: list[TopicPartition] = []
        for _ in range(self._count()):
            topic = self._text()
            found += [TopicPartition(topic, self._four()) for _ in range(self._count())]
            if self._is_compact:
                self._tags()
        return frozenset(found)

    def _count(self) -> int:
        """The length of an array; 0 for null."""
        count = self._varint() - 1 if self._is_compact else self._four()
        if count > len(self._value):  # each element takes more than a byte
            raise CorruptRecord(f"transaction of {len(self._value)} bytes with {count} elements")
        return max(0, count)

    def _text(self) -> str:
        if self._is_compact:
            size = self._varint() - 1
        else:
            size = _TWO.unpack_from(self._value, self._position)[0]
            self._position += 2
        if size < 0:
            raise CorruptRecord("a topic is null")
        return self._take(size).decode()

    def _tags(self) -> dict[int, bytes]:
        found = {}
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            found[tag] = self._take(size)
        return found

    def _take(self, size: int) -> bytes:
        start = self._position
        self._position = start + size
        if self._position > len(self._value):
            raise IndexError
        return self._value[start : self._position]

    def _four(self) -> int:
        number: int = _FOUR.unpack_from(self._value, self._position)[0]
        self._position += 4
        return number

    def _varint(self) -> int:
        number, self._position = read_varint(self._value, self._position)
        return number


def _id_in(content: bytes | None) -> int:
    return NO_PRODUCER_ID if content is None else int(_EIGHT.unpack(content)[0])
