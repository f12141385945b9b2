"""The usual fetch of a follower and the usual answer, in fixed layouts. Pure.

Nearly every fetch reports new positions of partitions that the session knows, and nearly every
answer gives high watermarks and records without an error. Such messages are numbers only: each
partition is an entry with the `handle` that the follower gave it in this session, and the file of
the records is the one that the leader named last for that handle. All other messages are msgpack
(`codec`) and begin with another byte.
"""

from struct import Struct
from typing import Final

from cluster.model.errors import PeerError

COMPACT_FETCH: Final = 0x01
COMPACT_ANSWER: Final = 0x02
COMPACT_REFUSAL: Final = 0x03
"""The leader does not know the session; the message is a header of an answer, without entries."""

FETCH_HEAD: Final = Struct("<BxxxiiQ")
"""Kind, the follower's id, session, sequence."""
FETCH_ENTRY: Final = Struct("<iiqiqi")
"""Handle, leader epoch, fetch offset, last fetched epoch, log start offset, most bytes."""
ANSWER_HEAD: Final = Struct("<BxxxiQ")
"""Kind, session, sequence."""
ANSWER_ENTRY: Final = Struct("<iiqqqi")
"""Handle, leader epoch, high watermark, log start offset, position in the file, size in bytes."""

NO_RECORDS: Final = -1
"""Stands for the position if there are no records."""
IN_NEXT_FRAME: Final = -2
"""Stands for the position if the records are in a frame of their own behind the message."""
ENTRIES_MAX: Final = 100
"""The maximum number of partitions in a message."""


def check_size(size_bytes: int, head: Struct, entry: Struct) -> None:
    """Check the size of a message that consists of a head and entries. Raises PeerError."""
    entries_bytes = size_bytes - head.size
    if entries_bytes < 0 or entries_bytes % entry.size or entries_bytes > ENTRIES_MAX * entry.size:
        raise PeerError(f"malformed compact message: {size_bytes} bytes")
