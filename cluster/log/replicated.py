"""Checks bytes fetched from a leader before a follower appends them. Pure."""

from typing import Final

from crc32c import crc32c

from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_V2,
    MAX_INT32,
    BatchHeader,
    no_batch,
    read_header,
    unpack_header,
)
from cluster.records.reader import records_of_batch

_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple
_LAST_OFFSET_MAX: Final = 2**63 - 2
"""The log end after it is an offset as well."""


def first_replicated(records: memoryview, log_end_offset: Offset) -> Offset:
    """The base offset at which a leader's batches may begin in a log that holds no records: the
    log's end, or earlier.

    It is earlier if the leader's log start lies in the middle of its first batch (KAFKA-6975).
    """
    if len(records) >= HEADER_BYTES:
        first = read_header(records)
        if 0 <= first.base_offset < log_end_offset <= first.last_offset:
            return Offset(first.base_offset)
    return log_end_offset


def check_replicated(records: memoryview, next_offset: int) -> list[BatchHeader]:
    """Headers of the whole batches in `records`, with offsets growing from `next_offset` on.

    Raises Refused(corrupt_message) if they are damaged or do not continue the log.
    """
    headers: list[BatchHeader] = []
    position, end = 0, len(records)
    first_offset = -1
    while position + HEADER_BYTES <= end:
        fields = unpack_header(records, position)
        base_offset, length, _, magic, crc, attributes, last_delta, _, _, producer_id = fields[:10]
        after = position + LENGTH_OVERHEAD_BYTES + length
        if magic != MAGIC_V2 or after < position + HEADER_BYTES:
            raise no_batch(position, end)
        if after > end:
            break
        if base_offset < next_offset or last_delta < 0:
            raise Refused(
                ErrorCode.corrupt_message,
                f"replicated offset {base_offset} where {next_offset} comes next",
            )
        if crc32c(records[position + ATTRIBUTES_POSITION : after]) != crc:
            raise Refused(
                ErrorCode.corrupt_message,
                f"wrong checksum of the replicated batch at offset {base_offset}",
            )
        last_offset = base_offset + last_delta
        if not headers:
            first_offset = base_offset
        if last_offset > _LAST_OFFSET_MAX or last_offset - first_offset > MAX_INT32:
            raise Refused(
                ErrorCode.corrupt_message,
                f"replicated offsets {first_offset} to {last_offset} fit in no segment",
            )
        header = _new(BatchHeader, fields)
        if producer_id >= 0 and attributes & CONTROL_BIT:
            # The append decodes a marker again, when it is too late to refuse it.
            for _ in records_of_batch(header, records[position:after]):
                pass
        headers.append(header)
        next_offset = last_offset + 1
        position = after
    if position != end:
        raise Refused(
            ErrorCode.corrupt_message, f"{end - position} bytes after the last whole batch"
        )
    return headers
