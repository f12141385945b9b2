"""The records of a load test: a stamp that a consumer can check, a key, and filling. Pure.

A value begins with `u32 run | u32 producer | u64 sequence | u64 due_us` (big-endian). The sequence
counts the records of one producer in one partition; `due_us` is on the machine's monotonic clock,
which all processes share.
"""

import itertools
import string
import struct
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from cluster.client.partitioner import partition_of

_STAMP: Final = struct.Struct(">IIQQ")
STAMP_BYTES: Final = _STAMP.size
KEY_DISTRIBUTIONS: Final = ("none", "uniform", "zipf")

_FILLING_BYTES: Final = 65_536
_LETTERS: Final = string.ascii_uppercase.encode()
_KEY_CHOICES: Final = 10_000


class Stamp(NamedTuple):
    """The stamp of a value."""

    run: int
    producer: int
    sequence: int
    due_us: int


def read_stamp(value: bytes | None) -> Stamp | None:
    """The stamp of a value; None if it is too short to have one."""
    if value is None or len(value) < STAMP_BYTES:
        return None
    return Stamp(*_STAMP.unpack_from(value))


class ValueMaker:
    """Makes the values of one producer: a stamp, then letters as in Kafka's perf tool."""

    def __init__(self, run: int, producer: int, size_bytes: int, dice: Random) -> None:
        """`size_bytes` is at least STAMP_BYTES."""
        self._run = run
        self._producer = producer
        self._filling_bytes = size_bytes - STAMP_BYTES
        self._filling = bytes(dice.choices(_LETTERS, k=_FILLING_BYTES + self._filling_bytes))
        self._position = 0

    def make(self, sequence: int, due_us: int) -> bytes:
        """Make a value; the filling differs between values."""
        self._position = (self._position + 251) % _FILLING_BYTES
        filling = self._filling[self._position : self._position + self._filling_bytes]
        return _STAMP.pack(self._run, self._producer, sequence, due_us) + filling


class Placed(NamedTuple):
    """A key and its partition."""

    key: bytes | None
    partition: int


def placements(
    distribution: str, key_count: int, partition_count: int, dice: Random
) -> Iterator[Placed]:
    """Yield the key and partition of each record, without end.

    `none`: no keys, partitions in turn. `uniform`: all keys equally often. `zipf`: key n with
    weight 1 / n, so that a few keys make most of the load. A key's partition is the one that the
    Java client chooses.
    """
    if distribution == "none":
        first = dice.randrange(partition_count)
        return itertools.cycle(
            [Placed(None, (first + n) % partition_count) for n in range(partition_count)]
        )
    keys = [f"key-{number}".encode() for number in range(key_count)]
    placed = [Placed(key, partition_of(key, partition_count)) for key in keys]
    weights = [1.0 if distribution == "uniform" else 1 / (n + 1) for n in range(key_count)]
    return itertools.cycle(dice.choices(placed, weights, k=_KEY_CHOICES))
