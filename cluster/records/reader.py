"""Iterates over the records of batches, for tools, tests and internal topics.

The produce path does not use it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    batches_of,
    checksum,
)
from cluster.records.compression import MAX_DECOMPRESSED_BYTES, decompress
from cluster.records.varint import read_varint

_COPIED_BELOW_BYTES: Final = 1 << 20
"""Bytes are the quickest to read, but a long copy would hold up other threads."""

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as an application sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_records(buffer: Buffer, *, with_control: bool = False) -> Iterator[Record]:
    """All records of a run of batches; those of control batches only with `with_control`.

    Raises Refused(corrupt_message) for invalid batches and wrong checksums.
    """
    for header, batch in batches_of(memoryview(buffer)):
        if checksum(batch) != header.crc:
            raise Refused(
                ErrorCode.corrupt_message,
                f"wrong checksum of the batch at offset {header.base_offset}",
            )
        if with_control or not header.is_control:
            yield from records_of_batch(header, batch)


def records_of_batch(
    header: BatchHeader, batch: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of one batch, without a checksum verification.

    Raises Refused(corrupt_message) if the records and the header disagree, a record is damaged, or
    the decompressed records exceed `max_bytes`.
    """
    yield from _records(header, plain_records(header, batch, max_bytes))


class RecordHead(NamedTuple):
    """The part of a record that is read if the contents of key and value do not matter."""

    timestamp_ms: int
    offset: int
    has_key: bool


def heads_of(header: BatchHeader, plain: Buffer) -> Iterator[RecordHead]:
    """The heads of a batch's decompressed records, without decoding the rest.

    Raises Refused(corrupt_message) if the records and the header disagree.
    """
    data = bytes(plain) if len(plain) < _COPIED_BELOW_BYTES else plain
    base_timestamp, base_offset = header.base_timestamp, header.base_offset
    position = 0
    for _ in range(header.record_count):
        end, position = _record_end(data, position)
        timestamp_delta, position = read_varint(data, position + 1)
        offset_delta, position = read_varint(data, position)
        key_size, position = read_varint(data, position)
        if position > end:
            raise Refused(ErrorCode.corrupt_message, "record ends before its key")
        timestamp_ms = base_timestamp + timestamp_delta
        yield RecordHead(timestamp_ms, base_offset + offset_delta, key_size >= 0)
        position = end
    if position != len(data):
        raise Refused(ErrorCode.corrupt_message, "bytes after the last record of a batch")


def keys_and_values(
    header: BatchHeader, batch: memoryview
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value of each record of a batch, for internal topics.

    Does not verify the checksum or read timestamps and headers. Raises Refused(corrupt_message) if
    the records and the header disagree or a record is damaged.
    """
    data = bytes(plain_records(header, batch))
    position = 0
    for _ in range(header.record_count):
        end, position = _record_end(data, position)
        _, position = read_varint(data, position + 1)
        _, position = read_varint(data, position)
        key, position = _nullable_bytes(data, position, end)
        value, position = _nullable_bytes(data, position, end)
        if position > end:
            raise Refused(ErrorCode.corrupt_message, "record ends before its value")
        yield key, value
        position = end
    if position != len(data):
        raise Refused(ErrorCode.corrupt_message, "bytes after the last record of a batch")


def plain_records(
    header: BatchHeader, batch: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes | bytearray | memoryview:
    """The decompressed bytes of a batch's records. Raises Refused."""
    return decompress(header.compression, batch[HEADER_BYTES:], max_bytes)


def _records(header: BatchHeader, plain: Buffer) -> Iterator[Record]:
    data = bytes(plain)
    position = 0
    append_time = header.max_timestamp if header.is_log_append_time else None
    for _ in range(header.record_count):
        end, position = _record_end(data, position)
        timestamp_delta, position = read_varint(
            data, position + 1
        )  # one byte of attributes, unused
        offset_delta, position = read_varint(data, position)
        key, position = _nullable_bytes(data, position, end)
        value, position = _nullable_bytes(data, position, end)
        headers, position = _headers(data, position, end)
        if position != end:
            raise Refused(ErrorCode.corrupt_message, "record does not fill its size")
        timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)
    if position != len(data):
        raise Refused(ErrorCode.corrupt_message, "bytes after the last record of a batch")


def _record_end(data: Buffer, position: int) -> tuple[int, int]:
    """The end of the record at a position, and the position of its attributes."""
    size, position = read_varint(data, position)
    end = position + size
    if size <= 0 or end > len(data):
        raise Refused(ErrorCode.corrupt_message, f"record of {size} bytes")
    return end, position


def _nullable_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    after = position + size
    if after > end:
        raise Refused(ErrorCode.corrupt_message, f"field of {size} bytes beyond its record")
    return data[position:after], after


def _headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count == 0:
        return (), position
    if count < 0 or count > end - position:
        raise Refused(ErrorCode.corrupt_message, f"{count} record headers")
    headers = []
    for _ in range(count):
        key, position = _nullable_bytes(data, position, end)
        if key is None:
            raise Refused(ErrorCode.corrupt_message, "record header without a key")
        value, position = _nullable_bytes(data, position, end)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position
