"""A produced batch after its checks. A module of its own: mypyc compiles no such class (012)."""

from typing import NamedTuple

from cluster.records.batch import BatchHeader


class Produced(NamedTuple):
    """A batch that was checked, as it is to be stored."""

    header: BatchHeader
    """Its timestamps are those of the records; but for the checksum, where it was changed."""
    records: memoryview
    """The whole batch: the one that came, or one with another codec."""
    from_magic: bytes
    """What is to be written over it from byte 16 on, since the header has changed; else empty."""


class IsLong(Exception):
    """Checking the batch takes milliseconds: not for a thread that others wait for."""
