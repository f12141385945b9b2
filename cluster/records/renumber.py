"""Prepares stored batches to be produced again: without a producer, with offsets from 0. Pure.

Keys, values, headers, timestamps and the codec are kept.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import NO_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from cluster.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    read_header,
    stamp_checksum,
)
from cluster.records.builder import ProducerIdentity
from cluster.records.compression import compress
from cluster.records.reader import plain_records
from cluster.records.varint import read_varint, write_varint


class NewBatch(NamedTuple):
    """A batch to produce and its number of records; its checksum is not set yet."""

    content: bytearray
    record_count: int


def renumbered(
    header: BatchHeader, batch: memoryview, is_wanted: Callable[[int], bool] | None = None
) -> NewBatch | None:
    """The batch with consecutive offsets from 0 and without a producer; None if it is empty.

    `is_wanted` decides by offset whether to keep a record (None: all). Records keep their
    timestamps: LogAppendTime becomes CreateTime. Raises Refused(corrupt_message) if records that
    have to be read cannot be decoded.
    """
    is_dense = header.record_count == header.last_offset_delta + 1
    rewrites = header.is_log_append_time or header.delete_horizon_ms is not None
    if is_dense and not rewrites and is_wanted is None:
        if not header.record_count:
            return None
        return _packed(header, header.record_count, bytes(batch[HEADER_BYTES:]))
    kept = [
        record
        for record in _raw_records(header, batch)
        if is_wanted is None or is_wanted(record.offset)
    ]
    if not kept:
        return None
    base_timestamp = kept[0].timestamp_ms
    plain = bytearray()
    for delta, record in enumerate(kept):
        body = bytearray(1)
        write_varint(body, record.timestamp_ms - base_timestamp)
        write_varint(body, delta)
        body += record.fields
        write_varint(plain, len(body))
        plain += body
    new = header._replace(
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp_ms for record in kept),
    )
    return _packed(new, len(kept), compress(header.compression, plain))


def stamp_producer(batch: NewBatch, producer: ProducerIdentity) -> None:
    """Write the producer and sequence into a batch, then its checksum."""
    head = read_header(batch.content)._replace(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
    )
    batch.content[:HEADER_BYTES] = head.pack()
    stamp_checksum(memoryview(batch.content))


class _RawRecord(NamedTuple):
    offset: int
    timestamp_ms: int
    fields: bytes
    """Key, value and headers as they are."""


def _raw_records(header: BatchHeader, batch: memoryview) -> Sequence[_RawRecord]:
    data = bytes(plain_records(header, batch))
    append_time_ms = header.max_timestamp if header.is_log_append_time else None
    found = []
    position = 0
    for _ in range(header.record_count):
        size, position = read_varint(data, position)
        end = position + size
        if size <= 0 or end > len(data):
            raise Refused(ErrorCode.corrupt_message, f"record of {size} bytes")
        timestamp_delta, position = read_varint(data, position + 1)
        offset_delta, position = read_varint(data, position)
        if position > end:
            raise Refused(ErrorCode.corrupt_message, "record ends before its key")
        stamp = (
            header.base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms
        )
        found.append(_RawRecord(header.base_offset + offset_delta, stamp, data[position:end]))
        position = end
    return found


def _packed(header: BatchHeader, record_count: int, payload: bytes) -> NewBatch:
    head = header._replace(
        base_offset=0,
        batch_length=HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload),
        partition_leader_epoch=NO_EPOCH,
        attributes=header.attributes & CODEC_MASK,
        last_offset_delta=record_count - 1,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )
    return NewBatch(bytearray(head.pack()) + payload, record_count)
