"""Validates produced batches: the rules for acceptance, and the bytes to store.

The records are walked once (`walk_plain` lists the checks), decompressed if necessary, so that
readers can rely on them; the walk yields the largest timestamp for the header. Error codes and
messages follow Kafka's `LogValidator`, except for cases that Kafka answers with
UNKNOWN_SERVER_ERROR, and two defects that it accepts although readers fail on them: lengths below
-1, and offsets that are not 0, 1, 2, ... (docs/decisions/047).
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
    Buffer,
    Compression,
    pack_from_magic,
    unpack_header,
)
from cluster.records.checked_batch import IsLong, Produced
from cluster.records.compression import MAX_DECOMPRESSED_BYTES, TooLong, compress, decompress
from cluster.records.reader import RecordHead, heads_of
from cluster.records.walk import IS_COMPILED, walk
from cluster.records.walk_plain import Problem

RECORD_ERRORS_MAX: Final = 10_000
"""At most this many records of a batch are named; the message states how many there are."""
_SHOWN_ERRORS: Final = 3
_PACKED_LONG_BYTES: Final = 16 * 1024
_PLAIN_LONG_BYTES: Final = 256 * 1024
_RECORDS_LONG: Final = 100_000 if IS_COMPILED else 4_000
"""From here on the checks of a batch take longer than a millisecond or two."""
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple
_MAX_INT64: Final = 2**63 - 1
_TIMESTAMPS_REFUSED: Final = "One or more records have been rejected due to invalid timestamp"
_NOT_THE_PRODUCERS: Final = "Producer should not set timestamp type to LogAppendTime"
_WRONG: Final = {
    Problem.MISSING: "the batch ends before record {}",
    Problem.NUMBER: "record {} has a number that is cut or too long",
    Problem.SIZE: "record {} has a size that does not fit into its batch",
    Problem.FIELD: "record {} has a key, a value or a header whose length does not fit into it",
    Problem.HEADERS: "record {} has a number of headers that does not fit into it",
    Problem.FILL: "record {} does not fill its size",
    Problem.LEFT_OVER: "bytes are left over after all {} records",
}


class BatchLimits(NamedTuple):
    """The limits that a partition sets for producers; -1 and 2^63 - 1 are Kafka's "no bound"."""

    max_message_bytes: int
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 2**63 - 1
    keyed: TopicPartition | None = None
    """The partition, where it is compacted: then every record must have a key."""
    codec: Compression | None = None
    """What every batch is compressed with; None keeps the producer's."""
    codec_level: int | None = None


def validate_produced(  # noqa: C901 - the path of every batch, without calls
    records: memoryview, limits: BatchLimits, wall_ms: WallMs, *, at_once: bool = True
) -> Produced:
    """Validate the single batch of a produce request.

    Raises Refused: corrupt_message (sizes, checksum), invalid_record (not one plain batch, invalid
    records), message_too_large (also after decompression), unsupported_compression_type;
    RecordsRefused: invalid_timestamp, invalid_record (no key in a compacted partition). Without
    `at_once` also IsLong, as early as possible.
    """
    size = len(records)
    if size > MAGIC_POSITION and (magic := records[MAGIC_POSITION]) != MAGIC_V2:
        # Kafka's answer in every Produce version that is served here (3 and later).
        raise Refused(
            ErrorCode.invalid_record, f"record batch of magic {magic}; only magic 2 is accepted"
        )
    if size < HEADER_BYTES:
        raise Refused(ErrorCode.corrupt_message, "batch shorter than its header")
    header = _new(BatchHeader, unpack_header(records))
    if LENGTH_OVERHEAD_BYTES + header.batch_length != size or size > limits.max_message_bytes:
        raise _wrong_size(header.size_bytes, size, limits)
    if crc32c(records[ATTRIBUTES_POSITION:]) != header.crc:
        raise Refused(ErrorCode.corrupt_message, "checksum of the batch does not match")
    attributes, record_count = header.attributes, header.record_count
    if (
        header.base_offset
        or record_count != header.last_offset_delta + 1
        or record_count <= 0
        or attributes & CONTROL_BIT
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        raise _not_plain(header)
    body: Buffer = records[HEADER_BYTES:]
    codec = attributes & CODEC_MASK
    wanted = codec if limits.codec is None else limits.codec
    if codec or wanted:
        if codec > Compression.ZSTD:
            raise Refused(ErrorCode.unsupported_compression_type, f"codec {codec}")
        if not at_once and size > _PACKED_LONG_BYTES:
            raise IsLong
        body = _decompressed(Compression(codec), body, at_once=at_once)
    if record_count > _RECORDS_LONG and not at_once:
        raise IsLong
    problem, index, least, largest, keyless, is_numbered = walk(body, record_count)
    if problem:
        raise Refused(ErrorCode.invalid_record, _WRONG[Problem(problem)].format(index))
    if not is_numbered:
        raise Refused(ErrorCode.invalid_record, "offsets of the records are not 0, 1, 2, ...")
    base_ms = header.base_timestamp
    least += base_ms
    largest += base_ms
    if keyless >= 0 and limits.keyed is not None:
        _refuse_records(header, body, limits, wall_ms)
    if limits.is_log_append_time:
        if attributes & LOG_APPEND_TIME_BIT:
            _refuse_append_time(header)
        largest = wall_ms
        attributes |= LOG_APPEND_TIME_BIT
    else:
        if (
            least < wall_ms - limits.timestamp_before_max_ms
            or largest > wall_ms + limits.timestamp_after_max_ms
            or largest > _MAX_INT64
        ) and not least == largest == NO_TIMESTAMP:
            _refuse_records(header, body, limits, wall_ms)
        if largest < NO_TIMESTAMP:
            largest = NO_TIMESTAMP
        attributes &= ~LOG_APPEND_TIME_BIT
    if wanted != codec:
        return _recompressed(header, attributes, largest, body, limits)
    if largest == header.max_timestamp and attributes == header.attributes:
        return _new(Produced, (header, records, b""))
    header = header._replace(attributes=attributes, max_timestamp=largest)
    return Produced(header, records, pack_from_magic(header, records[HEADER_BYTES:]))


def restamped(produced: Produced, wall_ms: WallMs) -> Produced:
    """With LogAppendTime, set the time of the append, which is later than that of the check."""
    header = produced.header
    if not header.attributes & LOG_APPEND_TIME_BIT:
        return produced
    header = header._replace(max_timestamp=wall_ms)
    records = produced.records
    return Produced(header, records, pack_from_magic(header, records[HEADER_BYTES:]))


def _wrong_size(batch_size: int, size: int, limits: BatchLimits) -> Refused:
    if batch_size == size:
        return _too_large(size, limits)
    if HEADER_BYTES <= batch_size <= size - HEADER_BYTES:
        return Refused(ErrorCode.invalid_record, "more than one record batch for a partition")
    return Refused(ErrorCode.corrupt_message, f"batch of {batch_size} bytes in {size} bytes")


def _too_large(size_bytes: int, limits: BatchLimits) -> Refused:
    return Refused(
        ErrorCode.message_too_large, f"{size_bytes} bytes; the limit is {limits.max_message_bytes}"
    )


def _decompressed(codec: Compression, packed: Buffer, *, at_once: bool) -> Buffer:
    try:
        return decompress(codec, packed, MAX_DECOMPRESSED_BYTES if at_once else _PLAIN_LONG_BYTES)
    except TooLong as refused:
        if not at_once:
            raise IsLong from None
        # Java's producer splits a batch that is too large and sends its parts.
        raise Refused(ErrorCode.message_too_large, refused.detail) from None
    except Refused as refused:
        # Not CORRUPT_MESSAGE, which makes clients resend: the checksum proves that it arrived
        # intact.
        raise Refused(ErrorCode.invalid_record, refused.detail) from None


def _recompressed(
    header: BatchHeader, attributes: int, max_timestamp_ms: int, plain: Buffer, limits: BatchLimits
) -> Produced:
    """Compress the batch with the codec of the partition. Raises Refused(message_too_large)."""
    codec = limits.codec
    assert codec is not None
    payload = memoryview(compress(codec, plain, limits.codec_level))
    if HEADER_BYTES + len(payload) > limits.max_message_bytes:
        raise _too_large(HEADER_BYTES + len(payload), limits)
    header = header._replace(
        batch_length=HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(payload),
        attributes=attributes & ~CODEC_MASK | codec,
        max_timestamp=max_timestamp_ms,
    )
    batch = bytearray(header.pack())
    batch[MAGIC_POSITION:] = pack_from_magic(header, payload)
    batch += payload
    return Produced(header, memoryview(batch), b"")


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


def _refuse_append_time(header: BatchHeader) -> None:
    """Refuse LogAppendTime, which only the broker may set. Raises RecordsRefused."""
    count = min(header.record_count, RECORD_ERRORS_MAX)
    errors = [RecordError(index, _NOT_THE_PRODUCERS) for index in range(count)]
    raise RecordsRefused(ErrorCode.invalid_timestamp, _TIMESTAMPS_REFUSED, errors)


def _refuse_records(
    header: BatchHeader, body: Buffer, limits: BatchLimits, wall_ms: WallMs
) -> None:
    """Raise RecordsRefused if a record must be refused; the whole batch is refused then."""
    found = list(_record_errors(heads_of(header, body), limits, wall_ms))
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
    """The first error of each record that must be refused."""
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
