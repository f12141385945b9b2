"""Batches as a log stores them after their checks, and with headers that no client would send."""

from typing import Any

from cluster.model.clocks import WallMs
from cluster.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC_POSITION,
    read_header,
    stamp_checksum,
)
from cluster.records.checked_batch import Produced
from cluster.records.produced import BatchLimits, validate_produced


def as_stored(produced: Produced) -> bytes:
    """The whole batch, at offset 0 and without a leader epoch."""
    batch = bytearray(produced.records)
    after = MAGIC_POSITION + len(produced.from_magic)
    batch[MAGIC_POSITION:after] = produced.from_magic
    return bytes(batch)


def stored(batch: bytes | bytearray | memoryview, limits: BatchLimits, wall_ms: WallMs) -> bytes:
    """What the log stores of a batch. Raises as `validate_produced`."""
    return as_stored(validate_produced(memoryview(batch), limits, wall_ms))


def with_header(batch: bytes | bytearray | memoryview, **fields: Any) -> memoryview:
    """The batch with other fields in its header, and the right checksum."""
    header = read_header(batch)._replace(**fields)
    changed = memoryview(bytearray(header.pack() + bytes(batch[HEADER_BYTES:])))
    stamp_checksum(changed)
    return changed


def with_append_time(batch: bytes | bytearray | memoryview, timestamp_ms: int) -> bytearray:
    """The batch as the leader of a topic with LogAppendTime stores it."""
    attributes = read_header(batch).attributes | LOG_APPEND_TIME_BIT
    return bytearray(with_header(batch, attributes=attributes, max_timestamp=timestamp_ms))
