"""Reads messages of formats v0 and v1, which Kafka wrote before 0.11.

A message set is a run of messages. A compressed message holds a message set as its value: in v1 the
offsets inside are relative to the first, in v0 they are absolute; the outer offset is that of the
last one inside. Layout after Apache Kafka's protocol guide, "Old Message Format", and KIP-31/32.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import (
    CODEC_MASK,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    Buffer,
    Compression,
)
from cluster.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from cluster.records.lz4_header import with_valid_header_checksum
from cluster.records.reader import Record

#  0 offset     int64   of the last message inside, where there are messages inside
#  8 size       int32   bytes after this field
# 12 crc        uint32  CRC-32 (zlib's) of everything from byte 16 on
# 16 magic      int8    0 or 1
# 17 attributes int8    bits 0-2 codec, 3 LogAppendTime (v1)
# 18 timestamp  int64   v1 only
#    key        int32 size, or -1 for null, then bytes
#    value      likewise
_HEAD: Final = struct.Struct(">qiIbb")
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_CRC_FROM: Final = 16
MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
SIZE_MIN: Final = 14
"""The smallest size of a message: crc, magic, attributes and two lengths."""


class Message(NamedTuple):
    """One message of a file, which may contain others."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp_ms: int
    """-1 in v0."""
    key: bytes | None
    value: bytes | None
    content: memoryview
    """The whole message, its offset and size included."""

    @property
    def size_bytes(self) -> int:
        """Size of the whole message, including its offset and size fields."""
        return len(self.content)

    @property
    def is_valid(self) -> bool:
        """Whether the checksum matches."""
        return zlib.crc32(self.content[_CRC_FROM:]) == self.crc

    @property
    def compression(self) -> Compression:
        """Codec of the inner messages. Raises Refused for one that these formats lack."""
        codec = self.attributes & CODEC_MASK
        if codec > Compression.LZ4:
            raise Refused(ErrorCode.unsupported_compression_type, f"codec {codec} in an old format")
        return Compression(codec)

    @property
    def is_log_append_time(self) -> bool:
        """Whether the leader's clock set the timestamp; never in v0, which has no timestamps."""
        return self.magic == MAGIC_V1 and bool(self.attributes & LOG_APPEND_TIME_BIT)


def is_old_format(magic: int) -> bool:
    """Whether this magic marks a message of format v0 or v1."""
    return magic in (MAGIC_V0, MAGIC_V1)


def read_message(buffer: Buffer, position: int = 0) -> Message:
    """Read the message at a position. Checks its sizes, not its checksum.

    Raises Refused(corrupt_message), also if the buffer ends within the message.
    """
    view = memoryview(buffer)
    try:
        offset, size, crc, magic, attributes = _HEAD.unpack_from(view, position)
    except struct.error:
        raise Refused(ErrorCode.corrupt_message, "message shorter than its header") from None
    end = position + LENGTH_OVERHEAD_BYTES + size
    if not is_old_format(magic) or size < SIZE_MIN or end > len(view):
        raise Refused(
            ErrorCode.corrupt_message, f"message of {size} bytes and magic {magic} at {position}"
        )
    content = view[position:end]
    timestamp_ms, fields = NO_TIMESTAMP, _HEAD.size
    try:
        if magic == MAGIC_V1:
            (timestamp_ms,) = _INT64.unpack_from(content, fields)
            fields += _INT64.size
        key, fields = _nullable(content, fields)
        value, fields = _nullable(content, fields)
    except struct.error:
        raise Refused(ErrorCode.corrupt_message, f"message of {size} bytes is truncated") from None
    if fields != len(content):
        raise Refused(ErrorCode.corrupt_message, "message does not fill its size")
    return Message(offset, crc, magic, attributes, timestamp_ms, key, value, content)


def messages_of(buffer: Buffer) -> Iterator[Message]:
    """Each message of a set, without inner messages; a partial one at the end is skipped.

    Does not verify checksums. Raises Refused(corrupt_message).
    """
    view = memoryview(buffer)
    position = 0
    while position + MAGIC_POSITION < len(view):
        (size,) = _INT32.unpack_from(view, position + _INT64.size)
        if size >= SIZE_MIN and position + LENGTH_OVERHEAD_BYTES + size > len(view):
            return
        message = read_message(view, position)
        yield message
        position += message.size_bytes


def records_of_message(
    message: Message, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[tuple[Message, Record]]:
    """The records of a message, each with its innermost message; at least one.

    Offsets are absolute. Raises Refused(corrupt_message) for a damaged inner message, or if the
    decompressed size exceeds `max_bytes`. Does not verify the outer checksum.
    """
    codec = message.compression
    if codec is Compression.NONE:
        return [(message, _record(message, message.offset, message.timestamp_ms))]
    inner = list(messages_of(_plain(message, codec, max_bytes)))
    if not inner:
        raise Refused(ErrorCode.corrupt_message, "a compressed message without an inner message")
    base_offset = 0
    if message.magic == MAGIC_V1 and message.offset:  # 0: written by old versions of librdkafka
        base_offset = message.offset - inner[-1].offset
    found = []
    for each in inner:
        if each.magic != message.magic or each.attributes & CODEC_MASK:
            raise Refused(
                ErrorCode.corrupt_message,
                f"a message of magic {each.magic}, attributes {each.attributes}"
                f" in one of magic {message.magic}",
            )
        stamp = message.timestamp_ms if message.is_log_append_time else each.timestamp_ms
        found.append((each, _record(each, base_offset + each.offset, stamp)))
    return found


def _plain(message: Message, codec: Compression, max_bytes: int) -> Buffer:
    """The decompressed inner message set."""
    if message.value is None:
        raise Refused(ErrorCode.corrupt_message, "a compressed message without a value")
    packed = message.value
    if codec is Compression.LZ4 and message.magic == MAGIC_V0:
        packed = with_valid_header_checksum(packed)
    return decompress(codec, packed, max_bytes)


def _record(message: Message, offset: int, timestamp_ms: int) -> Record:
    return Record(offset, timestamp_ms, message.key, message.value)


def _nullable(content: memoryview, position: int) -> tuple[bytes | None, int]:
    """The field at a position and the end of it; raises struct.error beyond the end."""
    (size,) = _INT32.unpack_from(content, position)
    position += _INT32.size
    if size < 0:
        return None, position
    end = position + size
    if end > len(content):
        raise struct.error
    return bytes(content[position:end]), end
