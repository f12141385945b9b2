"""Decodes and encodes the metadata and assignments of classic consumers. Pure.

Kafka: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`, versions 0 to 3; newer
versions are decoded like version 3. Numbers are big-endian; a text has a length of two bytes,
arrays and bytes have one of four (-1: null).

    subscription   version (2), topics, user data, owned partitions (from 1), generation (4; from
                   2), rack (from 3)
    assignment     version (2), partitions, user data
    partitions     an array of: topic, numbers (an array of 4 bytes each)
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

NEWEST: Final = 3

NumbersByTopic = Mapping[str, frozenset[int]]

_TWO: Final = struct.Struct(">h")
_FOUR: Final = struct.Struct(">i")


class MalformedProtocol(ValueError):
    """The bytes are not a consumer's subscription or assignment; the text is one line."""


class Subscription(NamedTuple):
    """What a consumer sends when it joins."""

    topics: frozenset[str]
    owned: NumbersByTopic
    """Partitions that it keeps; empty before version 1, which eager consumers use."""
    rack_id: str | None
    """None also if it is empty."""


class Assignment(NamedTuple):
    """What the leader assigned to a consumer."""

    partitions: NumbersByTopic
    user_data: bytes
    """Data of the leader's assignor."""


def read_version(content: bytes) -> int:
    """The version that the member uses, at most NEWEST; 0 if the bytes are not a consumer's, which
    may happen for a protocol that was not selected."""
    try:
        return _Reader(content).version
    except MalformedProtocol:
        return 0


def read_subscription(content: bytes) -> Subscription:
    """Raises MalformedProtocol."""
    reader = _Reader(content)
    topics = frozenset(reader.text() for _ in range(reader.count()))
    reader.data()
    owned = reader.partitions() if reader.version >= 1 else {}
    if reader.version >= 2:
        reader.four()
    rack_id = reader.nullable() if reader.version >= 3 else None
    return Subscription(topics, owned, rack_id or None)


def read_assignment(content: bytes) -> Assignment:
    """An empty byte string is an empty assignment: the member never received one.

    Raises MalformedProtocol.
    """
    if not content:
        return Assignment({}, b"")
    reader = _Reader(content)
    partitions = reader.partitions()
    return Assignment(partitions, reader.data())


def assignment_bytes(partitions: NumbersByTopic, version: int) -> bytes:
    """Encode an assignment without user data; the form is the same in all versions."""
    parts = [_TWO.pack(version), _FOUR.pack(len(partitions))]
    for topic in sorted(partitions):
        numbers = sorted(partitions[topic])
        raw = topic.encode()
        parts += (_TWO.pack(len(raw)), raw, _FOUR.pack(len(numbers)))
        parts += map(_FOUR.pack, numbers)
    parts.append(_FOUR.pack(-1))
    return b"".join(parts)


class _Reader:
    """Decodes one message from front to back."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0
        version = self._two()
        if version < 0:
            raise MalformedProtocol(f"version {version}")
        self.version = min(version, NEWEST)

    def _two(self) -> int:
        return self._number(_TWO)

    def four(self) -> int:
        return self._number(_FOUR)

    def _number(self, form: struct.Struct) -> int:
        try:
            number: int = form.unpack_from(self._content, self._position)[0]
        except struct.error:
            raise MalformedProtocol(f"{len(self._content)} bytes end too soon") from None
        self._position += form.size
        return number

    def count(self) -> int:
        """The size of an array, each element of which takes at least two bytes."""
        count = self.four()
        if not 0 <= count <= len(self._content) // 2:
            raise MalformedProtocol(f"an array of {count} in {len(self._content)} bytes")
        return count

    def text(self) -> str:
        text = self.nullable()
        if text is None:
            raise MalformedProtocol("a text is null")
        return text

    def nullable(self) -> str | None:
        raw = self._sized(self._two())
        try:
            return None if raw is None else raw.decode()
        except UnicodeDecodeError:
            raise MalformedProtocol("a text is not UTF-8") from None

    def data(self) -> bytes:
        """Null is returned as empty."""
        return self._sized(self.four()) or b""

    def partitions(self) -> NumbersByTopic:
        """A topic may occur twice."""
        found: dict[str, frozenset[int]] = {}
        for _ in range(self.count()):
            topic = self.text()
            numbers = frozenset(self.four() for _ in range(self.count()))
            if numbers:
                found[topic] = found.get(topic, frozenset()) | numbers
        return found

    def _sized(self, size: int) -> bytes | None:
        if size < 0:
            return None
        start = self._position
        self._position = start + size
        if self._position > len(self._content):
            raise MalformedProtocol(f"{len(self._content)} bytes end too soon")
        return self._content[start : self._position]
