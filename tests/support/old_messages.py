"""Builds messages of formats v0 and v1 for tests; the product only reads them."""

import struct
import zlib
from collections.abc import Sequence

from cluster.records.batch import Compression
from cluster.records.compression import compress
from cluster.records.lz4_header import header_checksum
from cluster.records.reader import Record


def old_message(
    record: Record,
    magic: int,
    *,
    offset: int | None = None,
    codec: Compression = Compression.NONE,
    is_log_append_time: bool = False,
) -> bytes:
    """One message; its offset is the record's unless given, its value already compressed."""
    attributes = codec | (0x08 if is_log_append_time else 0)
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", record.timestamp_ms)
    for field in (record.key, record.value):
        body += struct.pack(">i", -1 if field is None else len(field)) + (field or b"")
    content = struct.pack(">I", zlib.crc32(body)) + body
    number = record.offset if offset is None else offset
    return struct.pack(">qi", number, len(content)) + content


def old_compressed(
    records: Sequence[Record],
    magic: int,
    codec: Compression,
    *,
    append_time_ms: int | None = None,
) -> bytes:
    """A message with messages inside, as a broker has stored it: it has the last one's offset."""
    base = records[0].offset if magic == 1 else 0
    inside = b"".join(old_message(record, magic, offset=record.offset - base) for record in records)
    packed = compress(codec, inside)
    if codec is Compression.LZ4 and magic == 0:
        packed = with_kafkas_wrong_checksum(packed)
    stamp = max(record.timestamp_ms for record in records)
    return old_message(
        Record(
            records[-1].offset, stamp if append_time_ms is None else append_time_ms, None, packed
        ),
        magic,
        codec=codec,
        is_log_append_time=append_time_ms is not None,
    )


def with_kafkas_wrong_checksum(frame: bytes) -> bytes:
    """An LZ4 frame (without a content size) as Kafka's clients before 0.10 wrote it."""
    return frame[:6] + bytes([header_checksum(frame[:6])]) + frame[7:]
