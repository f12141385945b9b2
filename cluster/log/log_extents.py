"""How much a log has between two offsets, and when a batch was written: for explanations, not for
the path of records.
"""

from cluster.log.damage import DamagedBatch
from cluster.log.log_reads import segment_slot
from cluster.log.partition_log import PartitionLog
from cluster.model.ids import Offset
from cluster.records.batch import read_header

UNKNOWN = -1


def bytes_between(log: PartitionLog, first: Offset, end: Offset) -> int:
    """The bytes of the batches from the one that holds `first` up to `end`; -1 if a damaged batch
    hides that."""
    if first >= end:
        return 0
    segments = log.files.segments
    first_slot, end_slot = segment_slot(segments, first), segment_slot(segments, end)
    try:
        start = segments[first_slot].locate(first)
        stop = segments[end_slot].locate(end)
    except DamagedBatch:
        return UNKNOWN
    whole = sum(segments[slot].file.size_bytes for slot in range(first_slot, end_slot))
    return whole + stop - start


def timestamp_at(log: PartitionLog, offset: Offset) -> int:
    """The largest timestamp in the batch that holds an offset; -1 if that cannot be read."""
    segments = log.files.segments
    segment = segments[segment_slot(segments, offset)]
    try:
        position = segment.locate(offset)
    except DamagedBatch:
        return UNKNOWN
    if position >= segment.file.size_bytes:
        return UNKNOWN
    return read_header(segment.file.mapping(), position).max_timestamp
