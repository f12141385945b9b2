"""Common parts of the generated writers of `messages/` and the hand-written codecs."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from cluster.protocol.reader import NO_UUID

NULL_COMPACT: Final = b"\x00"
EMPTY_COMPACT: Final = b"\x01"
NULL_STRING: Final = b"\xff\xff"
EMPTY_STRING: Final = b"\x00\x00"
NULL_ARRAY: Final = b"\xff\xff\xff\xff"
"""Also for bytes."""
EMPTY_ARRAY: Final = b"\x00\x00\x00\x00"
NULL_STRUCT: Final = b"\xff"
STRUCT_FOLLOWS: Final = b"\x01"
NO_TAGS: Final = b"\x00"
MILLISECOND: Final = timedelta(milliseconds=1)
VARINTS: Final = tuple(
    bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80, value >> 7])
    for value in range(0x400)
)


class EncodedItems:
    """Replaces an array of structs by its items, encoded in advance for the version that is
    written.

    For arrays that take too long to encode at once.
    """

    __slots__ = ("content", "count")

    def __init__(self, count: int, content: bytes | bytearray) -> None:
        self.count = count
        self.content = content

    def __len__(self) -> int:
        return self.count


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x400:
        return VARINTS[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def uuid_bytes(value: UUID | None) -> bytes:
    """The 16 bytes of a UUID; None is Kafka's zero UUID."""
    return NO_UUID if value is None else value.bytes


def timestamp_of(value: datetime | None) -> int:
    """Milliseconds since the epoch; -1 for None."""
    return -1 if value is None else round(value.timestamp() * 1000)
