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
from cluster.records.varint import write_varint


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
    base_timestamp = records[0].timestamp_ms
    payload = bytearray()
    for offset_delta, record in enumerate(records):
        body = _record_body(record, record.timestamp_ms - base_timestamp, offset_delta)
        write_varint(payload, len(body))
        payload += body
    attributes = int(codec)
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp_ms for record in records),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        record_count=len(records),
    )
    return _assemble(header, compress(codec, payload))


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
    payload = bytearray()
    for record in records:
        new = NewRecord(record.value, record.key, record.timestamp_ms, record.headers)
        body = _record_body(
            new, record.timestamp_ms - first.timestamp_ms, record.offset - first.offset
        )
        write_varint(payload, len(body))
        payload += body
    header = BatchHeader(
        base_offset=first.offset,
        batch_length=0,
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
    return _assemble(header, compress(codec, payload))


def _record_body(record: NewRecord, timestamp_delta_ms: int, offset_delta: int) -> bytearray:
    body = bytearray(1)  # attributes: none are defined for a record
    write_varint(body, timestamp_delta_ms)
    write_varint(body, offset_delta)
    _write_nullable(body, record.key)
    _write_nullable(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_nullable(body, key.encode())
        _write_nullable(body, value)
    return body


def _write_nullable(body: bytearray, field: bytes | None) -> None:
    if field is None:
        write_varint(body, -1)
    else:
        write_varint(body, len(field))
        body += field


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload)
    batch = bytearray(header._replace(batch_length=length).pack())
    batch += payload
    stamp_checksum(memoryview(batch))
    return batch
