"""Records of `__consumer_offsets` as bytes: what Kafka 3.9 writes, and all that it reads. Pure.

Kafka: `OffsetCommitKey`, `OffsetCommitValue`, `GroupMetadataKey`, `GroupMetadataValue`. Key and
value begin with the number of their form, two bytes; big-endian numbers, texts with a length of two
bytes and bytes with one of four (-1: null), from form 4 of a value on in the compact encoding:

    key 0, 1    group, topic, partition (4)                     a committed offset
    key 2       group                                           a group's members
    value of 1  offset (8), leader epoch (4; from 3), metadata, commit time (8), expiry (8; only 1)
    value of 2  protocol type, generation (4), protocol, leader, time of the state (8; from 2),
                members
    a member    id, instance id (from 3), client id, client host, rebalance timeout (4; from 1),
                session timeout (4), subscription, assignment
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from cluster.coordinator.groups.requests import NO_TIMESTAMP

OFFSET_KEY: Final = 1
GROUP_KEY: Final = 2
OFFSET_KEYS: Final = frozenset({0, 1})
OFFSET_VALUE: Final = 3
OFFSET_VALUE_WITH_EXPIRY: Final = 1
GROUP_VALUE: Final = 3
NEWEST_VALUE: Final = 4
"""Readable; its first flexible form."""

_TWO: Final = struct.Struct(">h")
_FOUR: Final = struct.Struct(">i")
_EIGHT: Final = struct.Struct(">q")
_START_3: Final = struct.Struct(">hqih")
_OFFSET_3: Final = struct.Struct(">qih")
_STATE: Final = struct.Struct(">hqi")


class CorruptRecord(ValueError):
    """Bytes that are not what they say they are; the text is one line, without foreign text."""


class UnknownRecord(CorruptRecord):
    """A kind or a form of record that is not known here, as newer brokers may write."""


class OffsetKey(NamedTuple):
    """Whose offset of what."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """Where a group goes on reading one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    """When a client of old said that it expires; -1: as `offsets.retention.minutes` has it."""


class StoredMember(NamedTuple):
    """A member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """Its metadata for the group's protocol."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation as it is stored, once its assignment is known; without members: an empty one."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int = NO_TIMESTAMP
    """Since when the group is in its state; -1 in forms that do not have it."""
    members: tuple[StoredMember, ...] = ()


# ---------------------------------------------------------------------- keys


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    return _start_of_keys(group_id, topic) + _FOUR.pack(partition)


@lru_cache(maxsize=64)  # a commit has many partitions of few topics; names may be of 32 KiB
def _start_of_keys(group_id: str, topic: str) -> bytes:
    return _TWO.pack(OFFSET_KEY) + _text(group_id) + _text(topic)


def group_key(group_id: str) -> bytes:
    """The key of a group's members."""
    return _TWO.pack(GROUP_KEY) + _text(group_id)


def read_key(key: bytes) -> OffsetKey | str:
    """Whose record it is: of an offset, or a group's id. Raises UnknownRecord, CorruptRecord."""
    try:
        form = key[0] << 8 | key[1]
        size = key[2] << 8 | key[3]
        end = 4 + size
        group_id = key[4:end].decode()
        if form <= OFFSET_KEY:
            size = key[end] << 8 | key[end + 1]
            start = end + 2
            end = start + size
            # slices are cut silently, the number at the end is not
            return OffsetKey(group_id, key[start:end].decode(), _FOUR.unpack_from(key, end)[0])
    except (IndexError, UnicodeDecodeError, struct.error):
        if len(key) < 2:
            raise CorruptRecord(f"key of {len(key)} bytes") from None
        if form <= GROUP_KEY:
            raise CorruptRecord(f"key of form {form} and {len(key)} bytes") from None
        raise UnknownRecord(f"key of form {form}") from None
    if form != GROUP_KEY:
        raise UnknownRecord(f"key of form {form}")
    if end > len(key):
        raise CorruptRecord(f"key of form {form} and {len(key)} bytes")
    return group_id


# ---------------------------------------------------------------------- values


def offset_value(committed: CommittedOffset) -> bytes:
    """Form 3; form 1, which loses the leader epoch, for one with an expiry of its own."""
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return b"".join(
            (
                _TWO.pack(OFFSET_VALUE_WITH_EXPIRY),
                _EIGHT.pack(committed.offset),
                _text(committed.metadata),
                _EIGHT.pack(committed.commit_timestamp_ms),
                _EIGHT.pack(committed.expire_timestamp_ms),
            )
        )
    metadata = committed.metadata.encode()
    start = _START_3.pack(OFFSET_VALUE, committed.offset, committed.leader_epoch, len(metadata))
    return start + metadata + _EIGHT.pack(committed.commit_timestamp_ms)


def read_offset_value(value: bytes) -> CommittedOffset:
    """Any form. Raises UnknownRecord, CorruptRecord."""
    try:
        if value[:2] == b"\x00\x03":  # what is written for ten years: a million of them are loaded
            offset, leader_epoch, size = _OFFSET_3.unpack_from(value, 2)
            if size < 0:
                raise CorruptRecord("metadata is null")
            end = 16 + size
            return CommittedOffset(
                offset, leader_epoch, value[16:end].decode(), _EIGHT.unpack_from(value, end)[0]
            )
        reader = _Reader(value, "offset")
        offset = reader.eight()
        leader_epoch = reader.four() if reader.form >= 3 else -1
        metadata = reader.text()
        commit_ms = reader.eight()
        expire_ms = reader.eight() if reader.form == OFFSET_VALUE_WITH_EXPIRY else NO_TIMESTAMP
        reader.end()
        return CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms)
    except (IndexError, UnicodeDecodeError, struct.error):
        raise CorruptRecord(f"offset of {len(value)} bytes") from None


def group_value(group: StoredGroup) -> bytes:
    """Form 3."""
    parts = [
        _TWO.pack(GROUP_VALUE),
        _text(group.protocol_type),
        _FOUR.pack(group.generation_id),
        _nullable(group.protocol_name),
        _nullable(group.leader),
        _EIGHT.pack(group.state_timestamp_ms),
        _FOUR.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _text(member.member_id),
            _nullable(member.group_instance_id),
            _text(member.client_id),
            _text(member.client_host),
            _FOUR.pack(member.rebalance_timeout_ms),
            _FOUR.pack(member.session_timeout_ms),
            _FOUR.pack(len(member.subscription)),
            member.subscription,
            _FOUR.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def read_group_value(value: bytes) -> StoredGroup:
    """Any form. Raises UnknownRecord, CorruptRecord."""
    try:
        reader = _Reader(value, "group")
        group = StoredGroup(
            protocol_type=reader.text(),
            generation_id=reader.four(),
            protocol_name=reader.nullable(),
            leader=reader.nullable(),
            state_timestamp_ms=reader.eight() if reader.form >= 2 else NO_TIMESTAMP,
            members=reader.members(),
        )
        reader.end()
    except (IndexError, UnicodeDecodeError, struct.error):
        raise CorruptRecord(f"group of {len(value)} bytes") from None
    return group


def _text(text: str) -> bytes:
    raw = text.encode()
    return _TWO.pack(len(raw)) + raw


def _nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _text(text)


class _Reader:
    """Takes one value apart, front to back."""

    def __init__(self, value: bytes, kind: str) -> None:
        self.form: int = _TWO.unpack_from(value)[0]
        if not 0 <= self.form <= NEWEST_VALUE:
            raise UnknownRecord(f"{kind} of form {self.form}")
        self._value = value
        self._position = 2
        self._is_compact = self.form >= NEWEST_VALUE

    def four(self) -> int:
        number: int = _FOUR.unpack_from(self._value, self._position)[0]
        self._position += 4
        return number

    def eight(self) -> int:
        number: int = _EIGHT.unpack_from(self._value, self._position)[0]
        self._position += 8
        return number

    def text(self) -> str:
        raw = self._sized(self._two)
        if raw is None:
            raise CorruptRecord("a text is null")
        return raw.decode()

    def nullable(self) -> str | None:
        raw = self._sized(self._two)
        return None if raw is None else raw.decode()

    def members(self) -> tuple[StoredMember, ...]:
        count = self._varint() - 1 if self._is_compact else self.four()
        if not 0 <= count <= len(self._value):  # each takes more than a byte
            raise CorruptRecord(f"group of {len(self._value)} bytes with {count} members")
        return tuple(self._member() for _ in range(count))

    def end(self) -> None:
        """A structure ends: with fields that mean nothing to us, in the compact encoding."""
        if not self._is_compact:
            return
        for _ in range(self._varint()):
            self._varint()
            self._position += self._varint()
            if self._position > len(self._value):
                raise IndexError

    def _member(self) -> StoredMember:
        member_id = self.text()
        group_instance_id = self.nullable() if self.form >= 3 else None
        client_id = self.text()
        client_host = self.text()
        first_timeout_ms = self.four()
        session_timeout_ms = self.four() if self.form >= 1 else first_timeout_ms
        subscription = self._bytes()
        assignment = self._bytes()
        self.end()
        return StoredMember(
            member_id,
            group_instance_id,
            client_id,
            client_host,
            first_timeout_ms,
            session_timeout_ms,
            subscription,
            assignment,
        )

    def _bytes(self) -> bytes:
        raw = self._sized(self.four)
        if raw is None:
            raise CorruptRecord("bytes are null")
        return raw

    def _sized(self, read_size: Callable[[], int]) -> bytes | None:
        size = self._varint() - 1 if self._is_compact else read_size()
        if size < 0:
            return None
        start = self._position
        self._position = start + size
        if self._position > len(self._value):
            raise IndexError
        return self._value[start : self._position]

    def _two(self) -> int:
        number: int = _TWO.unpack_from(self._value, self._position)[0]
        self._position += 2
        return number

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._value[self._position]
            self._position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 28:
                raise CorruptRecord("varint is longer than five bytes")
