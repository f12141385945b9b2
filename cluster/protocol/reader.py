"""Common parts of the generated readers of `messages/` and the scanners.

Written for untrusted input: a length that points past the end of the frame is the peer's mistake.
"""

import struct
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

from cluster.model.errors import PeerError

MALFORMED: Final = (
    struct.error,
    IndexError,
    ValueError,
    OverflowError,
)
"""What a reader may raise on malformed input beside PeerError (bad UTF-8 is a ValueError)."""

NO_TIME: Final = timedelta(0)
NO_UUID: Final = bytes(16)
ELEMENTS_MAX: Final = 100_000
"""For one array, and for all partitions in a produce request. Elements of a few bytes become
objects of some hundred bytes: without a bound, a large request could allocate a gigabyte."""


def truncated() -> PeerError:
    """A length or a count points past the end of the frame."""
    return PeerError("message ends inside a field")


def too_many(count: int) -> PeerError:
    """An array is longer than any in a request or response here."""
    return PeerError(f"array of {count} elements, at most {ELEMENTS_MAX} are allowed")


def read_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position after it.

    Raises PeerError, IndexError.
    """
    value = buffer[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise PeerError("varint is longer than five bytes")


def read_length(buffer: bytes, position: int) -> tuple[int, int]:
    """A compact length, -1 for null, and the position after it. Raises as `read_varint`."""
    value, position = read_varint(buffer, position)
    return value - 1, position


def tag_spans(
    buffer: bytes | memoryview, position: int, end: int
) -> tuple[dict[int, tuple[int, int]], int]:
    """Tagged fields at `position`, as tag to (start, end) of its value, and where they end."""
    count, position = read_varint(buffer, position)
    if count > end - position:
        raise truncated()
    spans: dict[int, tuple[int, int]] = {}
    for _ in range(count):
        tag, position = read_varint(buffer, position)
        size, start = read_varint(buffer, position)
        position = start + size
        if position > end:
            raise truncated()
        spans[tag] = (start, position)
    return spans, position


def skip_tags(buffer: bytes | memoryview, position: int, end: int) -> int:
    """The position after a tag section whose fields are all unknown."""
    return tag_spans(buffer, position, end)[1]


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID | None:
    """A UUID from its 16 bytes; Kafka's zero UUID is None."""
    return None if raw == NO_UUID else UUID(bytes=raw)


def datetime_of(timestamp_ms: int) -> datetime | None:
    """The time of a timestamp; None for -1."""
    if timestamp_ms == -1:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
