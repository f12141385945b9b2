"""Checks of a produced batch: what a partition accepts from a producer.

Works in constant time per batch, apart from the checksum. Single records are looked at in two cases
alone: for a topic that is compacted, whose records all need keys, and to name the records of a
batch that is refused for its timestamps. Codes and words follow Kafka's `LogValidator`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, RecordError, RecordsRefused, Refused
from cluster.model.ids import TopicPartition
from cluster.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_POSITION,
    MAGIC_V2,
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    unpack_header,
)
from cluster.records.compression import MAX_DECOMPRESSED_BYTES
from cluster.records.reader import RecordHead, record_heads

RECORD_ERRORS_MAX: Final = 10_000
"""At most this many records of a batch are named; the message states how many there are."""
_SHOWN_ERRORS: Final = 3
_NAMED_BELOW_BYTES: Final = 16 << 20
"""Records of a batch with timestamps out of range are named up to this size, decompressed."""
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple
_MAX_INT64: Final = 2**63 - 1
_TIMESTAMPS_REFUSED: Final = "One or more records have been rejected due to invalid timestamp"


class BatchLimits(NamedTuple):
    """What a partition accepts from a producer; -1 and 2^63 - 1 are Kafka's "no bound"."""

    max_message_bytes: int
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 2**63 - 1
    keyed: TopicPartition | None = None
    """The partition, where it is compacted: then every record must have a key."""


def validate_produced(records: memoryview, limits: BatchLimits, wall_ms: WallMs) -> BatchHeader:
    """Check the one batch of a produce request and return its header.

    Timestamps are checked in the header: its maximum must not be too far ahead, its base (the first
    record's) not too far back. A later record that is older than the first is not noticed.
    Raises Refused: corrupt_message (sizes, checksum), invalid_record (not one plain batch),
    message_too_large, invalid_timestamp, unsupported_compression_type; RecordsRefused:
    invalid_timestamp, invalid_record (no key where the partition is compacted).
    """
    size = len(records)
    if size > MAGIC_POSITION and (magic := records[MAGIC_POSITION]) != MAGIC_V2:
        # What Kafka answers to every Produce version that is served here (3 and later).
        raise Refused(
            ErrorCode.invalid_record, f"record batch of magic {magic}; only magic 2 is accepted"
        )
    if size < HEADER_BYTES:
        raise Refused(ErrorCode.corrupt_message, "batch shorter than its header")
    header = _new(BatchHeader, unpack_header(records))
    batch_size = LENGTH_OVERHEAD_BYTES + header.batch_length
    if batch_size != size:
        if HEADER_BYTES <= batch_size <= size - HEADER_BYTES:
            raise Refused(ErrorCode.invalid_record, "more than one record batch for a partition")
        raise Refused(ErrorCode.corrupt_message, f"batch of {batch_size} bytes in {size} bytes")
    if size > limits.max_message_bytes:
        raise Refused(
            ErrorCode.message_too_large, f"{size} bytes; the limit is {limits.max_message_bytes}"
        )
    if crc32c(records[ATTRIBUTES_POSITION:]) != header.crc:
        raise Refused(ErrorCode.corrupt_message, "checksum of the batch does not match")
    attributes = header.attributes
    if (
        header.base_offset
        or header.record_count != header.last_offset_delta + 1
        or header.record_count <= 0
        or attributes & CONTROL_BIT
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        raise _not_plain(header)
    if attributes & CODEC_MASK > Compression.ZSTD:
        raise Refused(ErrorCode.unsupported_compression_type, f"codec {attributes & CODEC_MASK}")
    is_out_of_range = False
    if not limits.is_log_append_time:
        if attributes & LOG_APPEND_TIME_BIT:
            raise Refused(
                ErrorCode.invalid_timestamp,
                f"{_TIMESTAMPS_REFUSED}: LogAppendTime is the broker's to set",
            )
        oldest_ms = header.base_timestamp
        is_out_of_range = header.max_timestamp - wall_ms > limits.timestamp_after_max_ms or (
            oldest_ms != NO_TIMESTAMP and wall_ms - oldest_ms > limits.timestamp_before_max_ms
        )
    if is_out_of_range or limits.keyed is not None:
        _check_records(header, records, limits, wall_ms)
        if is_out_of_range:  # the header says so, although no record does
            raise Refused(ErrorCode.invalid_timestamp, _TIMESTAMPS_REFUSED)
    return header


def _not_plain(header: BatchHeader) -> Refused:
    if header.base_offset:
        reason = f"base offset of a produced batch is {header.base_offset}, not 0"
    elif header.attributes & CONTROL_BIT:
        reason = "control batch from a client"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        reason = f"producer id {header.producer_id} without a sequence number"
    else:
        reason = f"{header.record_count} records for last offset delta {header.last_offset_delta}"
    return Refused(ErrorCode.invalid_record, reason)


def _check_records(
    header: BatchHeader, records: memoryview, limits: BatchLimits, wall_ms: WallMs
) -> None:
    """Raise RecordsRefused if any record must be; the batch is refused with all of them."""
    max_bytes = MAX_DECOMPRESSED_BYTES if limits.keyed is not None else _NAMED_BELOW_BYTES
    try:
        found = list(_record_errors(record_heads(header, records, max_bytes), limits, wall_ms))
    except Refused:
        if limits.keyed is not None:
            raise
        return  # the caller refuses the batch without naming records
    if not found:
        return
    errors = [error for _, error in found[:RECORD_ERRORS_MAX]]
    if any(code is ErrorCode.invalid_timestamp for code, _ in found):
        raise RecordsRefused(ErrorCode.invalid_timestamp, _TIMESTAMPS_REFUSED, errors)
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
        for error in errors[:_SHOWN_ERRORS]
    )
    raise RecordsRefused(
        ErrorCode.invalid_record,
        f"One or more records have been rejected due to {len(found)} record errors in total,"
        f" and only showing the first three errors at most: [{shown}]",
        errors,
    )


def _record_errors(
    heads: Iterator[RecordHead], limits: BatchLimits, wall_ms: WallMs
) -> Iterator[tuple[ErrorCode, RecordError]]:
    """The first thing that is wrong with each record that must be refused."""
    earliest_ms = wall_ms - limits.timestamp_before_max_ms
    latest_ms = min(wall_ms + limits.timestamp_after_max_ms, _MAX_INT64)
    keyless = f"Compacted topic cannot accept message without key in topic partition {limits.keyed}"
    for index, (timestamp_ms, offset, has_key) in enumerate(heads):
        if limits.keyed is not None and not has_key:
            yield ErrorCode.invalid_record, RecordError(index, keyless)
        elif limits.is_log_append_time or timestamp_ms == NO_TIMESTAMP:
            continue
        elif not earliest_ms <= timestamp_ms <= latest_ms:
            yield (
                ErrorCode.invalid_timestamp,
                RecordError(
                    index,
                    f"Timestamp {timestamp_ms} of message with offset {offset} is out of range."
                    f" The timestamp should be within [{earliest_ms}, {latest_ms}]",
                ),
            )
