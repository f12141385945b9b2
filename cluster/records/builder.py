"""Builds record batches v2 from records."""

from collections.abc import Sequence
from typing import NamedTuple

from cluster.model.ids import NO_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from cluster.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Compression,
    stamp_checksum,
)
from cluster.records.compression import compress
from cluster.records.reader import Headers, Record
from cluster.records.varint import MINUS_ONE, SMALL, write_varint


class NewRecord(NamedTuple):
    """A record without an offset."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = -1
    headers: Headers = ()


class ProducerIdentity(NamedTuple):
    """The producer of a batch, and the sequence number of its first record."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE


_NOBODY = ProducerIdentity()


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    codec: Compression = Compression.NONE,
    producer: ProducerIdentity = _NOBODY,
    leader_epoch: int = NO_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """Build a batch with consecutive offsets from `base_offset`; takes at least one record."""
    base_timestamp = max_timestamp = records[0].timestamp_ms
    plain = bytearray()
    for offset_delta, record in enumerate(records):
        timestamp_ms = record.timestamp_ms
        if timestamp_ms > max_timestamp:
            max_timestamp = timestamp_ms
        body = _record_body(record, timestamp_ms - base_timestamp, offset_delta)
        write_varint(plain, len(body))
        plain += body
    payload = compress(codec, plain)
    attributes = int(codec)
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=_length(payload),
        partition_leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        record_count=len(records),
    )
    return _assemble(header, payload)


def batch_at_offsets(
    records: Sequence[Record],
    *,
    codec: Compression = Compression.NONE,
    leader_epoch: int = NO_EPOCH,
    is_log_append_time: bool = False,
) -> bytearray:
    """Build a batch without a producer whose records keep their ascending offsets.

    Takes at least one record. With `is_log_append_time` all records get the largest timestamp.
    """
    first, last = records[0], records[-1]
    plain = bytearray()
    for record in records:
        new = NewRecord(record.value, record.key, record.timestamp_ms, record.headers)
        body = _record_body(
            new, record.timestamp_ms - first.timestamp_ms, record.offset - first.offset
        )
        write_varint(plain, len(body))
        plain += body
    payload = compress(codec, plain)
    header = BatchHeader(
        base_offset=first.offset,
        batch_length=_length(payload),
        partition_leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=codec | (LOG_APPEND_TIME_BIT if is_log_append_time else 0),
        last_offset_delta=last.offset - first.offset,
        base_timestamp=first.timestamp_ms,
        max_timestamp=max(record.timestamp_ms for record in records),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=len(records),
    )
    return _assemble(header, payload)


def _record_body(record: NewRecord, timestamp_delta_ms: int, offset_delta: int) -> bytearray:
    body = bytearray(1)  # attributes: none are defined for a record
    write_varint(body, timestamp_delta_ms)
    write_varint(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    if not record.headers:
        body += SMALL[0]
        return body
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_nullable(body, key.encode())
        _write_nullable(body, value)
    return body


def _write_nullable(body: bytearray, field: bytes | None) -> None:
    if field is None:
        body += MINUS_ONE
        return
    size = len(field)
    if size < len(SMALL):
        body += SMALL[size]
    else:
        write_varint(body, size)
    body += field


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    """The batch with this header, whose length is that of the payload."""
    batch = bytearray(header.pack())
    batch += payload
    stamp_checksum(memoryview(batch))
    return batch


def _length(payload: bytes) -> int:
    """What the header of a batch with this payload calls its length."""
    return HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload)
