"""The walk over the batches of a segment that a producer has numbered, in Python. Pure.

`_walk.c` has the same, some fifty times as fast. Callers use `walk.producer_batches`.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from cluster.records.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAX_INT32,
    TRANSACTIONAL_BIT,
    Buffer,
)

_HEADER: Final = Struct(">qi9xhi8xqqhii")
_SHORTEST: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES


class BatchKind(IntEnum):
    """What a batch may do to its producer's transaction."""

    DATA = 0
    OPENING = 1
    """It belongs to a transaction, and opens it if no earlier batch has."""
    CONTROL = 2


ProducerBatch = tuple[int, int, int, int, int, int, int, int]
"""Producer id, producer epoch, last sequence (-1 if none), last offset, offset delta, largest
timestamp, `BatchKind`, and position."""


def producer_batches(
    data: Buffer, position: int, end: int, most: int
) -> tuple[list[ProducerBatch], int, bool]:
    """The next batches with a producer id, of at most `most` batches from a position on.

    Also returns where the walk has ended, and False if that is no batch. A data batch may be left
    out if five later ones of its producer are among the others and it opens no transaction: nobody
    remembers it. What opens none may be said to be DATA.
    """
    found: list[ProducerBatch] = []
    add = found.append
    unpack = _HEADER.unpack_from
    data_kind, opening, control = int(BatchKind.DATA), int(BatchKind.OPENING), BatchKind.CONTROL
    last_header = end - HEADER_BYTES
    while most and position <= last_header:
        base_offset, length, attributes, delta, timestamp, producer_id, epoch, sequence, count = (
            unpack(data, position)
        )
        after = position + length + LENGTH_OVERHEAD_BYTES
        if length < _SHORTEST or after > end:
            return found, position, False
        if producer_id >= 0:
            kind = data_kind
            if attributes & CONTROL_BIT:
                kind = int(control)
            elif attributes & TRANSACTIONAL_BIT and count:
                kind = opening
            last_sequence = (sequence + delta) & MAX_INT32 if sequence >= 0 else -1
            last_offset = base_offset + delta
            add((producer_id, epoch, last_sequence, last_offset, delta, timestamp, kind, position))
        position = after
        most -= 1
    return found, position, not most or position >= end
