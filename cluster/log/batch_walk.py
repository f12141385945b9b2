"""Walks over the batches of a segment using only their lengths. Pure."""

import mmap
import struct
from typing import Final

from cluster.records.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC_V2

WALK: Final = struct.Struct(">qi4xb6xi")
"""What a walk needs of each batch: base offset, batch length, magic, last offset delta."""
SHORTEST: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
"""Length of a batch without records, as its own field says it."""


def walk(mapping: mmap.mmap, position: int, size: int, offset: int) -> tuple[int, bool]:
    """Walk from a batch to the one that holds an offset, the first one after it, or the end.

    Returns the batch's position and True, or the position where no batch begins and False.
    """
    after = position
    try:
        while after < size:
            position = after
            base_offset, length, magic, last_delta = WALK.unpack_from(mapping, position)
            if magic != MAGIC_V2 or length < SHORTEST:
                break
            if base_offset + last_delta >= offset:
                return position, True
            after = position + length + LENGTH_OVERHEAD_BYTES
    except struct.error:  # the file ends within the header
        return position, False
    return (size, True) if after == size else (position, False)


def base_offset_at(mapping: mmap.mmap, position: int) -> int:
    base_offset: int = WALK.unpack_from(mapping, position)[0]
    return base_offset


def next_offset_at(mapping: mmap.mmap, start: int, position: int, base_offset: int) -> int:
    """The offset that the batch at a position should have: the one after the previous batch.

    The walk begins at the batch at `start`, or at the first batch if none begins there.
    """
    for place in (start, 0) if start else (0,):
        next_offset = base_offset
        while place < min(position, len(mapping) - HEADER_BYTES):
            base, length, magic, last_delta = WALK.unpack_from(mapping, place)
            if magic != MAGIC_V2 or length < SHORTEST:
                break
            next_offset = base + last_delta + 1
            place += length + LENGTH_OVERHEAD_BYTES
        if place == position:
            return next_offset
    return base_offset
