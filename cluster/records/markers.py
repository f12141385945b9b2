"""The batches that end a transaction in a partition: commit and abort markers (KIP-98). Pure.

A marker is a control batch of one record. Its key is int16 version 0 and int16 type, its value
int16 version 0 and int32 coordinator epoch.
"""

from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple

from cluster.model.clocks import WallMs
from cluster.model.ids import NO_SEQUENCE
from cluster.records.batch import CODEC_MASK, BatchHeader, Buffer, read_header
from cluster.records.builder import NewRecord, ProducerIdentity, build_batch
from cluster.records.checked_batch import Produced
from cluster.records.reader import records_of_batch

NO_COORDINATOR_EPOCH: Final = -1
_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_COMMON: Final = Struct(">8xi9xh20xqh4xi5shhbhib")
_COMMON_LENGTH: Final = _COMMON.size - 12
_COMMON_START: Final = bytes((32, 0, 0, 0, 8))
"""Size, attributes, both deltas and key size of a marker as Kafka and this module write it."""
_COMMON_VALUE_SIZE: Final = 12
_VERSION: Final = 0
_ABORT, _COMMIT = 0, 1


class EndMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition of `__transaction_state`."""
    is_commit: bool


@lru_cache(maxsize=16)
def produced_marker(marker: EndMarker, wall_ms: WallMs) -> Produced:
    """The batch of a marker, for the leader to append.

    Kept for a while: all partitions of a transaction get the same.
    """
    batch = memoryview(build_marker(marker, wall_ms))
    return Produced(read_header(batch), batch, b"")


def build_marker(marker: EndMarker, wall_ms: WallMs) -> bytes:
    """The bytes of that batch."""
    record = NewRecord(
        _VALUE.pack(_VERSION, marker.coordinator_epoch),
        _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT),
        wall_ms,
    )
    return bytes(
        build_batch(
            [record],
            producer=ProducerIdentity(marker.producer_id, marker.producer_epoch, NO_SEQUENCE),
            is_transactional=True,
            is_control=True,
        )
    )


def read_marker(header: BatchHeader, batch: memoryview) -> EndMarker | None:
    """The marker in a control batch; None for other control records, and for a marker whose record
    compaction has removed.

    Raises Refused for a batch that cannot be decoded.
    """
    for record in records_of_batch(header, batch):
        key, value = record.key or b"", record.value or b""
        if len(key) < _KEY.size:
            return None
        kind = _KEY.unpack_from(key)[1]
        if kind not in (_ABORT, _COMMIT):
            return None
        epoch = NO_COORDINATOR_EPOCH
        if len(value) >= _VALUE.size:
            epoch = _VALUE.unpack_from(value)[1]
        return EndMarker(header.producer_id, header.producer_epoch, epoch, kind == _COMMIT)
    return None


def marker_at(data: Buffer, position: int) -> EndMarker | None:
    """What `read_marker` returns for the control batch at a position. Raises what it raises.

    Fast for a marker of the usual form; `data` must not end within the batch.
    """
    if len(data) - position >= _COMMON.size:
        length, attributes, producer_id, epoch, count, start, _, kind, size, _, term, headers = (
            _COMMON.unpack_from(data, position)
        )
        if (
            length == _COMMON_LENGTH
            and not attributes & CODEC_MASK
            and count == 1
            and start == _COMMON_START
            and size == _COMMON_VALUE_SIZE
            and not headers
            and kind in (_ABORT, _COMMIT)
        ):
            return EndMarker(producer_id, epoch, term, kind == _COMMIT)
    header = read_header(data, position)
    return read_marker(header, memoryview(data)[position : position + header.size_bytes])
