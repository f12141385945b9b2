"""Check bytes copied from a leader before they become part of a follower's log. Pure."""

from cluster.model.errors import ErrorCode, Refused
from cluster.records.batch import BatchHeader, batches_of, checksum


def check_replicated(records: memoryview, next_offset: int) -> list[BatchHeader]:
    """Headers of the whole batches that fill `records`, offsets growing from `next_offset` on.

    Raises Refused(corrupt_message): the leader or the way here damaged them, or they do not fit
    this log's end.
    """
    headers = []
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
                f"checksum of the replicated batch at offset {header.base_offset}",
            )
        headers.append(header)
        size += len(batch)
        next_offset = header.last_offset + 1
    if size != len(records):
        raise Refused(
            ErrorCode.corrupt_message, f"{len(records) - size} bytes after the last whole batch"
        )
    return headers
