"""Records of groups of the newer consumer protocol, as Kafka 4.1 writes them. Pure.

A key holds its version (2 bytes), the group id and in some versions one more text; each text has a
length of two bytes. A value begins with version 0 (2 bytes) and has the compact encoding:

    3   group                ConsumerGroupMetadata: epoch (4), tag 0: hash of the topics (8)
    4   group                ConsumerGroupPartitionMetadata, of Kafka 4.0: only its tombstone
    5   group, member        ConsumerGroupMemberMetadata: instance id, rack, client id, client host,
                             topics, expression, rebalance timeout (4), assignor,
                             tag 0: classic metadata (1 byte: 1, or 0 for null)
    6   group                ConsumerGroupTargetAssignmentMetadata: epoch (4)
    7   group, member        ConsumerGroupTargetAssignmentMember: topic ids with partitions
    8   group, member        ConsumerGroupCurrentMemberAssignment: epoch (4), previous epoch (4),
                             state (1), assigned, revoking
    16  group, expression    ConsumerGroupRegularExpression: topics, version (8), time (8)
"""

import struct
import uuid
from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from cluster.coordinator.groups.requests import GroupProtocol
from cluster.coordinator.groups.shared.topics import Partitions
from cluster.coordinator.groups.state.consumer_values import (
    ClassicMetadata,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
)
from cluster.coordinator.shards.bad_records import CorruptRecord, UnknownRecord
from cluster.coordinator.shards.effects import CoordinatorRecord

T = TypeVar("T")

_TWO: Final = struct.Struct(">h")
_FOUR: Final = struct.Struct(">i")
_EIGHT: Final = struct.Struct(">q")
_EPOCHS: Final = struct.Struct(">iib")
_UUID_BYTES: Final = 16
_FORM_0: Final = b"\x00\x00"
_NO_TAGS: Final = b"\x00"
_NULL_CLASSIC: Final = b"\x01\x00\x01\x00"
"""One tagged field, number 0, of one byte, which says null: absent would mean an empty one."""


class ConsumerKey(IntEnum):
    """Versions of keys."""

    EPOCH = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    ASSIGNMENT_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    EXPRESSION = 16


WITHOUT_NAME: Final = frozenset(
    {ConsumerKey.EPOCH, ConsumerKey.PARTITION_METADATA, ConsumerKey.ASSIGNMENT_EPOCH}
)
CONSUMER_KEYS: Final = {_TWO.pack(each): each for each in ConsumerKey}
"""The first bytes of the keys."""


class ConsumerGroupKey(NamedTuple):
    """The group and kind of a record; `name` is a member id, an expression or empty."""

    kind: ConsumerKey
    group_id: str
    name: str


# ---------------------------------------------------------------------- keys


def consumer_key(kind: ConsumerKey, group_id: str, name: str = "") -> bytes:
    if kind in WITHOUT_NAME:
        return _TWO.pack(kind) + _text(group_id)
    return _TWO.pack(kind) + _text(group_id) + _text(name)


def tombstone(kind: ConsumerKey, group_id: str, name: str = "") -> CoordinatorRecord:
    """The record that deletes another."""
    return CoordinatorRecord(consumer_key(kind, group_id, name), None)


def read_consumer_key(key: bytes) -> ConsumerGroupKey:
    """Decode a key whose first bytes are in CONSUMER_KEYS. Raises CorruptRecord."""
    kind = CONSUMER_KEYS[key[: _TWO.size]]
    texts: list[str] = []
    end = _TWO.size
    try:
        for _ in range(1 if kind in WITHOUT_NAME else 2):
            start = end + _TWO.size
            end = start + int(_TWO.unpack_from(key, end)[0])
            if not start <= end <= len(key):
                raise IndexError
            texts.append(key[start:end].decode())
    except (IndexError, UnicodeDecodeError, struct.error):
        raise CorruptRecord(f"key of form {kind:d} and {len(key)} bytes") from None
    return ConsumerGroupKey(kind, texts[0], texts[1] if len(texts) > 1 else "")


# ---------------------------------------------------------------------- values


def epoch_value(group: GroupEpoch) -> bytes:
    """The value of EPOCH."""
    tags = b"\x01\x00\x08" + _EIGHT.pack(group.metadata_hash) if group.metadata_hash else _NO_TAGS
    return _FORM_0 + _FOUR.pack(group.epoch) + tags


def read_epoch_value(value: bytes) -> GroupEpoch:
    """Raises UnknownRecord, CorruptRecord."""

    def read(reader: _Reader) -> GroupEpoch:
        epoch = reader.four()
        raw = reader.tags().get(0)
        return GroupEpoch(epoch, 0 if raw is None else int(_EIGHT.unpack(raw)[0]))

    return _read(value, "group epoch", read)


def member_value(member: MemberMetadata) -> bytes:
    """The value of MEMBER."""
    parts = [
        _FORM_0,
        _nullable(member.instance_id),
        _nullable(member.rack_id),
        _compact(member.client_id),
        _compact(member.client_host),
        _names(member.subscribed_topic_names),
        _nullable(member.subscribed_topic_regex),
        _FOUR.pack(member.rebalance_timeout_ms),
        _nullable(member.server_assignor),
    ]
    classic = member.classic
    if classic is None:
        parts.append(_NULL_CLASSIC)
    elif classic == ClassicMetadata():
        parts.append(_NO_TAGS)
    else:
        body = b"".join(
            (
                b"\x01",
                _FOUR.pack(classic.session_timeout_ms),
                _varint(len(classic.protocols) + 1),
                *(
                    _compact(each.name) + _varint(len(each.metadata) + 1) + each.metadata + _NO_TAGS
                    for each in classic.protocols
                ),
                _NO_TAGS,
            )
        )
        parts.append(b"\x01\x00" + _varint(len(body)) + body)
    return b"".join(parts)


def read_member_value(value: bytes) -> MemberMetadata:
    """Raises UnknownRecord, CorruptRecord."""

    def read(reader: _Reader) -> MemberMetadata:
        return MemberMetadata(
            instance_id=reader.nullable(),
            rack_id=reader.nullable(),
            client_id=reader.text(),
            client_host=reader.text(),
            subscribed_topic_names=frozenset(reader.text() for _ in range(reader.count())),
            subscribed_topic_regex=reader.nullable(),
            rebalance_timeout_ms=reader.four(),
            server_assignor=reader.nullable(),
            classic=_read_classic(reader.tags().get(0)),
        )

    return _read(value, "member", read)


def _read_classic(raw: bytes | None) -> ClassicMetadata | None:
    if raw is None:
        return ClassicMetadata()
    reader = _Reader(raw, 0)
    if not reader.byte():
        return None
    session_timeout_ms = reader.four()
    protocols = []
    for _ in range(reader.count()):
        name = reader.text()
        protocols.append(GroupProtocol(name, reader.raw()))
        reader.tags()
    reader.tags()
    return ClassicMetadata(session_timeout_ms, tuple(protocols))


def assignment_epoch_value(epoch: int) -> bytes:
    """The value of ASSIGNMENT_EPOCH."""
    return _FORM_0 + _FOUR.pack(epoch) + _NO_TAGS


def read_assignment_epoch_value(value: bytes) -> int:
    """Raises UnknownRecord, CorruptRecord."""

    def read(reader: _Reader) -> int:
        epoch = reader.four()
        reader.tags()
        return epoch

    return _read(value, "assignment epoch", read)


def target_value(partitions: Partitions) -> bytes:
    """The value of TARGET."""
    return _FORM_0 + _partitions(partitions) + _NO_TAGS


def read_target_value(value: bytes) -> Partitions:
    """Raises UnknownRecord, CorruptRecord."""

    def read(reader: _Reader) -> Partitions:
        partitions = reader.partitions()
        reader.tags()
        return partitions

    return _read(value, "target assignment", read)


def current_value(current: CurrentAssignment) -> bytes:
    """The value of CURRENT."""
    return b"".join(
        (
            _FORM_0,
            _EPOCHS.pack(current.member_epoch, current.previous_epoch, current.state),
            _partitions(current.assigned),
            _partitions(current.revoking),
            _NO_TAGS,
        )
    )


def read_current_value(value: bytes) -> CurrentAssignment:
    """Raises UnknownRecord, CorruptRecord."""

    def read(reader: _Reader) -> CurrentAssignment:
        member_epoch, previous_epoch = reader.four(), reader.four()
        number = reader.byte()
        state = MemberState(number) if number in _STATES else MemberState.UNKNOWN
        assigned, revoking = reader.partitions(), reader.partitions()
        reader.tags()
        return CurrentAssignment(member_epoch, previous_epoch, state, assigned, revoking)

    return _read(value, "current assignment", read)


_STATES: Final = frozenset(int(each) for each in MemberState)


def expression_value(resolved: ResolvedExpression) -> bytes:
    """The value of EXPRESSION."""
    return b"".join(
        (
            _FORM_0,
            _names(resolved.topics),
            _EIGHT.pack(resolved.version),
            _EIGHT.pack(resolved.timestamp_ms),
            _NO_TAGS,
        )
    )


def read_expression_value(value: bytes) -> ResolvedExpression:
    """Raises UnknownRecord, CorruptRecord."""

    def read(reader: _Reader) -> ResolvedExpression:
        topics = frozenset(reader.text() for _ in range(reader.count()))
        version, timestamp_ms = reader.eight(), reader.eight()
        reader.tags()
        return ResolvedExpression(topics, version, timestamp_ms)

    return _read(value, "expression", read)


# ---------------------------------------------------------------------- the compact encoding


def _text(text: str) -> bytes:
    raw = text.encode()
    return _TWO.pack(len(raw)) + raw


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _compact(text: str) -> bytes:
    raw = text.encode()
    return _varint(len(raw) + 1) + raw


def _nullable(text: str | None) -> bytes:
    return b"\x00" if text is None else _compact(text)


def _names(names: Iterable[str]) -> bytes:
    ordered = sorted(names)
    return _varint(len(ordered) + 1) + b"".join(map(_compact, ordered))


def _partitions(partitions: Partitions) -> bytes:
    parts = [_varint(len(partitions) + 1)]
    for topic_id, numbers in partitions.items():
        count = len(numbers)
        parts += (
            topic_id.bytes,
            _varint(count + 1),
            struct.pack(f">{count}i", *sorted(numbers)),
            _NO_TAGS,
        )
    return b"".join(parts)


_topic_id = lru_cache(maxsize=1024)(lambda raw: uuid.UUID(bytes=raw))
"""All assignments share one object per topic id."""


def _read(value: bytes, kind: str, read: "Callable[[_Reader], T]") -> T:
    try:
        form = int(_TWO.unpack_from(value)[0])
        if form:
            raise UnknownRecord(f"{kind} of form {form}")
        return read(_Reader(value, _TWO.size))
    except (IndexError, UnicodeDecodeError, struct.error):
        raise CorruptRecord(f"{kind} of {len(value)} bytes") from None


class _Reader:
    """Decodes one value from front to back. Raises IndexError, struct.error, UnicodeDecodeError or
    CorruptRecord if the value is malformed."""

    def __init__(self, value: bytes, position: int) -> None:
        self._value = value
        self._position = position

    def byte(self) -> int:
        number = self._value[self._position]
        self._position += 1
        return number

    def four(self) -> int:
        return int(_FOUR.unpack(self._take(_FOUR.size))[0])

    def eight(self) -> int:
        return int(_EIGHT.unpack(self._take(_EIGHT.size))[0])

    def text(self) -> str:
        return self.raw().decode()

    def raw(self) -> bytes:
        raw = self._sized()
        if raw is None:
            raise IndexError
        return raw

    def nullable(self) -> str | None:
        raw = self._sized()
        return None if raw is None else raw.decode()

    def count(self) -> int:
        """The size of a list, each item of which takes at least one byte."""
        count = self._varint() - 1
        if not 0 <= count <= len(self._value) - self._position:
            raise IndexError
        return count

    def partitions(self) -> Partitions:
        found: dict[uuid.UUID, frozenset[int]] = {}
        for _ in range(self.count()):
            topic_id = _topic_id(self._take(_UUID_BYTES))
            count = self.count()
            numbers = frozenset(struct.unpack(f">{count}i", self._take(4 * count)))
            if numbers:
                found[topic_id] = numbers
            self.tags()
        return found

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, by their number."""
        found = {}
        for _ in range(self._varint()):
            number = self._varint()
            found[number] = self._take(self._varint())
        return found

    def _sized(self) -> bytes | None:
        size = self._varint() - 1
        return None if size < 0 else self._take(size)

    def _take(self, size: int) -> bytes:
        start = self._position
        self._position = start + size
        if self._position > len(self._value):
            raise IndexError
        return self._value[start : self._position]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 28:
                raise CorruptRecord("varint is longer than five bytes")
