"""Filters one batch at a time: selects the records to keep and encodes the result. Pure.

Two loops over a batch's plain records are written out, because they run for every record of a log.
They copy nothing but the keys. A batch that loses no record is kept byte for byte. Other batches
keep offsets, timestamps, producer, sequence, leader epoch and codec, following Kafka's
`MemoryRecords.filterTo` and `Cleaner.shouldRetainRecord` (KIP-98, KIP-534).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.log.cleaner.offset_map import OffsetMap
from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    checksum,
    stamp_checksum,
)
from cluster.records.compression import compress, decompress
from cluster.records.varint import read_varint, write_varint

_NULL: Final = 1
"""The size -1 as a zigzag varint: no key, or no value."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The clock of one cleaning: tombstones met for the first time may be removed `retention_ms`
    later."""

    now_ms: int
    retention_ms: int

    def is_over(self, header: BatchHeader) -> bool:
        """Whether the tombstones, or the marker, of a batch were kept long enough."""
        deadline_ms = header.delete_horizon_ms
        return deadline_ms is not None and deadline_ms <= self.now_ms


class Filtered(NamedTuple):
    """The remaining part of a batch; its bytes are None if nothing remains."""

    content: bytes | bytearray | None
    max_timestamp: int
    records: int


GONE: Final = Filtered(None, NO_TIMESTAMP, 0)


class _Kept(NamedTuple):
    """The records to keep: their places in the plain bytes, as contiguous runs."""

    runs: Sequence[tuple[int, int]]
    records: int
    has_tombstone: bool
    max_timestamp_delta: int


def check_batch(header: BatchHeader, batch: bytes) -> None:
    """Raise Refused(corrupt_message) if a batch has a wrong checksum."""
    if checksum(batch) != header.crc:
        raise Refused(
            ErrorCode.corrupt_message, f"wrong checksum of the batch at offset {header.base_offset}"
        )


def index_batch(header: BatchHeader, batch: bytes, first_offset: int, keys: OffsetMap) -> bool:
    """Add a batch's keys from an offset on; False if the map filled up before the end.

    Raises Refused(corrupt_message) for a batch that cannot be decoded.
    """
    data, position = _plain(header, batch)
    put, base_offset = keys.put, header.base_offset
    try:
        for _ in range(header.record_count):
            size = data[position]
            position += 1
            if size > 0x7F:
                size, position = _long_size(data, position - 1)
            end = position + (size >> 1)
            position += 1  # attributes
            while data[position] > 0x7F:  # timestamp
                position += 1
            position += 1
            delta = data[position]
            position += 1
            if delta > 0x7F:
                delta, position = _long_size(data, position - 1)
            size = data[position]
            position += 1
            if size != _NULL:
                if size > 0x7F:
                    size, position = _long_size(data, position - 1)
                key_end = position + (size >> 1)
                if key_end >= end:  # the size of the value follows the key
                    raise _damaged(header)
                offset = base_offset + (delta >> 1)
                if offset >= first_offset and not put(data[position:key_end], offset):
                    return False
            elif position >= end:
                raise _damaged(header)
            position = end
    except IndexError:
        raise _damaged(header) from None
    if position != len(data):
        raise _damaged(header)
    return True


def filter_batch(header: BatchHeader, batch: bytes, keys: OffsetMap, horizon: Horizon) -> Filtered:
    """Filter a data batch that passed `check_batch`. Raises Refused(corrupt_message)."""
    data, position = _plain(header, batch)
    is_past_horizon = horizon.is_over(header)
    kept = _filter(header, data, position, keys, is_past_horizon=is_past_horizon)
    if not kept.records:
        return GONE
    sets_horizon = kept.has_tombstone and header.delete_horizon_ms is None
    if kept.records == header.record_count and not sets_horizon:
        return Filtered(batch, header.max_timestamp, kept.records)
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + kept.max_timestamp_delta
    changed = header._replace(max_timestamp=max_timestamp, record_count=kept.records)
    if sets_horizon:
        return _with_horizon(changed, data, kept.runs, horizon)
    records = b"".join([data[start:end] for start, end in kept.runs])
    return _rebuilt(changed, records)


def filter_markers(
    header: BatchHeader, batch: bytes, horizon: Horizon, *, has_no_transaction: bool
) -> Filtered:
    """Filter a batch of markers, which keeps all of them.

    If no record of its transaction remains, the batch gets a delete horizon unless it has one.
    Raises Refused(corrupt_message).
    """
    if not header.record_count:
        return GONE
    if not has_no_transaction or header.delete_horizon_ms is not None:
        return Filtered(batch, header.max_timestamp, header.record_count)
    data, position = _plain(header, batch)
    return _with_horizon(header, data, [(position, len(data))], horizon)


def empty_batch(header: BatchHeader) -> Filtered:
    """The batch without records, which preserves its offsets and its producer's sequence.

    Kafka: `DefaultRecordBatch.writeEmptyHeader`.
    """
    kept_bits = ~(CODEC_MASK | DELETE_HORIZON_BIT)
    emptied = header._replace(
        attributes=header.attributes & kept_bits, base_timestamp=NO_TIMESTAMP, record_count=0
    )
    return Filtered(_assemble(emptied, b""), header.max_timestamp, 0)


def _plain(header: BatchHeader, batch: bytes) -> tuple[bytes, int]:
    """Bytes that hold the plain records up to their end, and the start position."""
    if not header.attributes & CODEC_MASK:
        return batch, HEADER_BYTES
    return bytes(decompress(header.compression, memoryview(batch)[HEADER_BYTES:])), 0


def _filter(  # noqa: C901 - written out: it runs for every record
    header: BatchHeader, data: bytes, position: int, keys: OffsetMap, *, is_past_horizon: bool
) -> _Kept:
    """The records that no later record replaces."""
    newest_of, latest_offset = keys.get, keys.latest_offset
    base_offset = header.base_offset
    runs: list[tuple[int, int]] = []
    count = 0
    run_start = run_end = position
    has_tombstone = False
    max_delta: int | None = None
    try:
        for _ in range(header.record_count):
            start = position
            size = data[position]
            position += 1
            if size > 0x7F:
                size, position = _long_size(data, position - 1)
            end = position + (size >> 1)
            position += 1  # attributes
            timestamp_delta = data[position]
            if timestamp_delta > 0x7F:
                timestamp_delta, position = read_varint(data, position)
            else:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 1
            delta = data[position]
            position += 1
            if delta > 0x7F:
                delta, position = _long_size(data, position - 1)
            offset = base_offset + (delta >> 1)
            size = data[position]
            position += 1
            if size == _NULL:
                if position >= end:
                    raise _damaged(header)
                stays = offset > latest_offset
                is_tombstone = data[position] == _NULL
            else:
                if size > 0x7F:
                    size, position = _long_size(data, position - 1)
                key_end = position + (size >> 1)
                if key_end >= end:
                    raise _damaged(header)
                is_tombstone = data[key_end] == _NULL
                stays = offset > latest_offset or (
                    newest_of(data[position:key_end]) <= offset
                    and not (is_tombstone and is_past_horizon)
                )
            if stays:
                count += 1
                if is_tombstone:
                    has_tombstone = True
                if max_delta is None or timestamp_delta > max_delta:
                    max_delta = timestamp_delta
                if start != run_end:
                    if run_end > run_start:
                        runs.append((run_start, run_end))
                    run_start = start
                run_end = end
            position = end
    except IndexError:
        raise _damaged(header) from None
    if position != len(data):
        raise _damaged(header)
    if run_end > run_start:
        runs.append((run_start, run_end))
    return _Kept(runs, count, has_tombstone, max_delta or 0)


def _with_horizon(
    header: BatchHeader, data: bytes, runs: Sequence[tuple[int, int]], horizon: Horizon
) -> Filtered:
    """The batch with these records and its delete horizon as the base timestamp."""
    deadline_ms = horizon.now_ms + horizon.retention_ms
    shift_ms = 0 if header.is_log_append_time else header.base_timestamp - deadline_ms
    changed = header._replace(
        attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=deadline_ms
    )
    return _rebuilt(changed, _shifted(data, runs, shift_ms))


def _rebuilt(header: BatchHeader, records: bytes | bytearray) -> Filtered:
    content = _assemble(header, compress(header.compression, records))
    return Filtered(content, header.max_timestamp, header.record_count)


def _shifted(data: bytes, runs: Sequence[tuple[int, int]], shift_ms: int) -> bytearray:
    """The records with `shift_ms` added to their timestamps, which are relative to the base."""
    out = bytearray()
    for position, run_end in runs:
        while position < run_end:
            size, position = read_varint(data, position)
            end = position + size
            delta, rest = read_varint(data, position + 1)
            stamp = bytearray(data[position : position + 1])
            write_varint(stamp, delta + shift_ms)
            write_varint(out, len(stamp) + end - rest)
            out += stamp
            out += data[rest:end]
            position = end
    return out


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload)
    content = bytearray(header._replace(batch_length=length).pack())
    content += payload
    stamp_checksum(memoryview(content))
    return content


def _long_size(data: bytes, position: int) -> tuple[int, int]:
    """Decode a varint of two bytes or more: (encoded number, position after it)."""
    second = data[position + 1]
    if second < 0x80:
        return data[position] & 0x7F | second << 7, position + 2
    number, position = read_varint(data, position)
    return number << 1 if number >= 0 else 1, position


def _damaged(header: BatchHeader) -> Refused:
    return Refused(
        ErrorCode.corrupt_message,
        f"the records of the batch at offset {header.base_offset} do not decode",
    )
