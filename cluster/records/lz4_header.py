"""Repairs the header checksum of LZ4 frames, which Kafka computed wrongly in format v0. Pure.

Kafka's clients before 0.10 included the frame's magic number in the checksum (KAFKA-3160), and its
readers of v0 skip that byte; decoders of the LZ4 library refuse such frames.
"""

from typing import Final

_MAGIC_BYTES: Final = 4
_FLAGS_POSITION: Final = 4
_CONTENT_SIZE_FLAG: Final = 0x08
_DICTIONARY_FLAG: Final = 0x01

_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1
_MASK: Final = 0xFFFFFFFF


def with_valid_header_checksum(frame: bytes) -> bytes:
    """The frame with a valid header checksum; a truncated frame is returned unchanged."""
    if len(frame) <= _FLAGS_POSITION:
        return frame
    flags = frame[_FLAGS_POSITION]
    checksum_at = _FLAGS_POSITION + 2
    checksum_at += 8 if flags & _CONTENT_SIZE_FLAG else 0
    checksum_at += 4 if flags & _DICTIONARY_FLAG else 0
    if len(frame) <= checksum_at:
        return frame
    checksum = header_checksum(frame[_MAGIC_BYTES:checksum_at])
    return frame[:checksum_at] + bytes([checksum]) + frame[checksum_at + 1 :]


def header_checksum(descriptor: bytes) -> int:
    """The second byte of the descriptor's XXH32."""
    return xxh32_of_few(descriptor) >> 8 & 0xFF


def xxh32_of_few(data: bytes) -> int:
    """XXH32 with seed 0 for fewer than 16 bytes, after its specification."""
    total = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for position in range(0, whole, 4):
        lane = int.from_bytes(data[position : position + 4], "little")
        total = _rotated(total + lane * _PRIME_3 & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        total = _rotated(total + byte * _PRIME_5 & _MASK, 11) * _PRIME_1 & _MASK
    total ^= total >> 15
    total = total * _PRIME_2 & _MASK
    total ^= total >> 13
    total = total * _PRIME_3 & _MASK
    return total ^ total >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
