"""Encodes and decodes records of `__consumer_offsets` like Kafka 3.9. Pure.

Kafka: `OffsetCommitKey`, `OffsetCommitValue`, `GroupMetadataKey`, `GroupMetadataValue`. Keys and
values begin with their version (2 bytes). Numbers are big-endian; a text has a length of two bytes,
bytes have one of four (-1: null). Values of version 4 and later use the compact encoding:

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
from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord

OFFSET_KEY: Final = 1
GROUP_KEY: Final = 2
OFFSET_VALUE: Final = 3
OFFSET_VALUE_WITH_EXPIRY: Final = 1
GROUP_VALUE: Final = 3
NEWEST_VALUE: Final = 4
"""This version is read but not written; it is the first flexible one."""

_TWO: Final = struct.Struct(">h")
_FOUR: Final = struct.Struct(">i")
_EIGHT: Final = struct.Struct(">q")
_START_3: Final = struct.Struct(">hqih")
_OFFSET_3: Final = struct.Struct(">qih")


class OffsetKey(NamedTuple):
    """The group and partition of a committed offset."""

    group_id: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    """The position from which a group continues in one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    """The expiry that an old client set; -1: `offsets.retention.minutes` decides."""


class StoredMember(NamedTuple):
    """A member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group's protocol."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation as it is stored once its assignment is known; an empty one has no members."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int = NO_TIMESTAMP
    """When the group entered its state; -1 in versions without the field."""
    members: tuple[StoredMember, ...] = ()


# ---------------------------------------------------------------------- keys


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    return _start_of_keys(group_id, topic) + _FOUR.pack(partition)


@lru_cache(maxsize=64)  # a commit has many partitions of few topics; a name may take 32 KiB
def _start_of_keys(group_id: str, topic: str) -> bytes:
    return _TWO.pack(OFFSET_KEY) + _text(group_id) + _text(topic)


def group_key(group_id: str) -> bytes:
    """The key of a group's generation."""
    return _TWO.pack(GROUP_KEY) + _text(group_id)


def read_key(key: bytes) -> OffsetKey | str:
    """The key of an offset, or a group id. Raises UnknownRecord, CorruptRecord."""
    try:
        form = key[0] << 8 | key[1]
        size = key[2] << 8 | key[3]
        end = 4 + size
        group_id = key[4:end].decode()
        if form <= OFFSET_KEY:
            size = key[end] << 8 | key[end + 1]
            start = end + 2
            end = start + size
            # a slice beyond the end is shorter, while unpacking the number raises
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
    """Version 3; version 1, which has no leader epoch, for an offset with an expiry of its own."""
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
    """Decode any version. Raises UnknownRecord, CorruptRecord."""
    try:
        if (
            value[:2] == b"\x00\x03"
        ):  # a fast path for the usual version: a broker may load a million of them
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
    """Version 3."""
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
    """Decode any version. Raises UnknownRecord, CorruptRecord."""
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
    """Decodes one value from front to back."""

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
        if not 0 <= count <= len(self._value):  # each member takes more than a byte
            raise CorruptRecord(f"group of {len(self._value)} bytes with {count} members")
        return tuple(self._member() for _ in range(count))

    def end(self) -> None:
        """Skip the tagged fields at the end of a structure in the compact encoding."""
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
