"""What consumers of the classic protocol tell each other in their metadata and assignments. Pure.

Kafka: `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`, versions 0 to 3; the bytes
of a newer version are read as those of version 3. Big-endian numbers; a text has a length of two
bytes, an array and bytes one of four (-1: null).

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
    """Bytes that are no subscription or assignment of a consumer; the text is one line."""


class Subscription(NamedTuple):
    """What a consumer says when it joins."""

    topics: frozenset[str]
    owned: NumbersByTopic
    """What it has and will go on with; empty before version 1, which eager consumers use."""
    rack_id: str | None
    """None for an empty one too."""


class Assignment(NamedTuple):
    """What the leader gave a consumer."""

    partitions: NumbersByTopic
    user_data: bytes
    """Of the leader's assignor."""


def read_version(content: bytes) -> int:
    """The version that the member uses, at most NEWEST; 0 if these are no bytes of a consumer, as
    those for a protocol which has not been chosen may be."""
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
    """No bytes at all are an assignment of nothing: the member never got one.

    Raises MalformedProtocol.
    """
    if not content:
        return Assignment({}, b"")
    reader = _Reader(content)
    partitions = reader.partitions()
    return Assignment(partitions, reader.data())


def assignment_bytes(partitions: NumbersByTopic, version: int) -> bytes:
    """An assignment without user data; its form is the same in all versions."""
    parts = [_TWO.pack(version), _FOUR.pack(len(partitions))]
    for topic in sorted(partitions):
        numbers = sorted(partitions[topic])
        raw = topic.encode()
        parts += (_TWO.pack(len(raw)), raw, _FOUR.pack(len(numbers)))
        parts += map(_FOUR.pack, numbers)
    parts.append(_FOUR.pack(-1))
    return b"".join(parts)


class _Reader:
    """Takes one message apart, front to back."""

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
        """Of an array; each of its elements takes two bytes at least."""
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
        """Null is the same as nothing."""
        return self._sized(self.four()) or b""

    def partitions(self) -> NumbersByTopic:
        """A topic may be named twice."""
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
