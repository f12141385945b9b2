"""Checks bytes fetched from a leader before a follower appends them. Pure."""

from typing import Final

from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    MAX_INT32,
    BatchHeader,
    batches_of,
    checksum,
    read_header,
)
from cluster.records.reader import records_of_batch

_LAST_OFFSET_MAX: Final = 2**63 - 2
"""The log end after it is an offset as well."""


def first_replicated(
    records: memoryview, log_start_offset: Offset, log_end_offset: Offset
) -> Offset:
    """The base offset at which a leader's batches may begin: the log's end, or earlier.

    It is earlier if the leader's log start lies in the middle of its first batch (KAFKA-6975).
    """
    if log_start_offset == log_end_offset and len(records) >= HEADER_BYTES:
        first = read_header(records)
        if 0 <= first.base_offset < log_end_offset <= first.last_offset:
            return Offset(first.base_offset)
    return log_end_offset


def check_replicated(records: memoryview, next_offset: int) -> list[BatchHeader]:
    """Headers of the whole batches in `records`, with offsets growing from `next_offset` on.

    Raises Refused(corrupt_message) if they are damaged or do not continue the log.
    """
    headers: list[BatchHeader] = []
    size = 0
    for header, batch in batches_of(records):
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise Refused(
                ErrorCode.corrupt_message,
                f"replicated offset {header.base_offset} where {next_offset} comes next",
            )
        if checksum(batch) != header.crc:
            raise Refused(
                ErrorCode.corrupt_message,
                f"wrong checksum of the replicated batch at offset {header.base_offset}",
            )
        first = headers[0] if headers else header
        if (
            header.last_offset > _LAST_OFFSET_MAX
            or header.last_offset - first.base_offset > MAX_INT32
        ):
            raise Refused(
                ErrorCode.corrupt_message,
                f"replicated offsets {first.base_offset} to {header.last_offset} fit in no segment",
            )
        if header.producer_id >= 0 and header.attributes & CONTROL_BIT:
            # The append decodes a marker again, when it is too late to refuse it.
            for _ in records_of_batch(header, batch):
                pass
        headers.append(header)
        size += len(batch)
        next_offset = header.last_offset + 1
    if size != len(records):
        raise Refused(
            ErrorCode.corrupt_message, f"{len(records) - size} bytes after the last whole batch"
        )
    return headers
