"""Zigzag variable-length integers of record batch v2 (Protocol Buffers' sint32 and sint64)."""

from typing import Final

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import Buffer

SMALL: Final = tuple(
    bytes([2 * value]) if value < 0x40 else bytes([2 * value & 0x7F | 0x80, value >> 6])
    for value in range(0x400)
)
"""The encoded numbers from 0 on that are usual as lengths."""
MINUS_ONE: Final = b"\x01"


def write_varint(out: bytearray, value: int) -> None:
    """Append a number of at most 64 bits, which takes one to ten bytes."""
    if 0 <= value < 0x400:
        out += SMALL[value]
        return
    encoded = (value << 1) ^ (value >> 63)
    while encoded > 0x7F:
        out.append((encoded & 0x7F) | 0x80)
        encoded >>= 7
    out.append(encoded)


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read (number, position after it). Raises Refused(corrupt_message) beyond the end or ten
    bytes."""
    try:
        byte = buffer[position]
        position += 1
        if byte < 0x80:  # the common case, kept fast for bulk loads
            return (byte >> 1) ^ -(byte & 1), position
        encoded, shift = byte & 0x7F, 7
        while True:
            byte = buffer[position]
            position += 1
            encoded |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (encoded >> 1) ^ -(encoded & 1), position
            shift += 7
            if shift > 63:
                raise Refused(ErrorCode.corrupt_message, "number of more than ten bytes")
    except IndexError:
        raise Refused(ErrorCode.corrupt_message, "record ends inside a number") from None
