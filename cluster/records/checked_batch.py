"""A produced batch after validation. It has its own module because mypyc cannot compile it
(012)."""

from typing import NamedTuple

from cluster.records.batch import BatchHeader


class Produced(NamedTuple):
    """A validated batch in the form to be stored."""

    header: BatchHeader
    """Its timestamps are those of the records; but for the checksum, where it was changed."""
    records: memoryview
    """The whole batch: the one that came, or one with another codec."""
    from_magic: bytes
    """What is to be written over it from byte 16 on, since the header has changed; else empty."""


class IsLong(Exception):
    """Validation takes milliseconds and must not run on a thread that serves others."""
