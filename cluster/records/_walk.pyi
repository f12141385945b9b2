"""What `_walk.c` offers where it is compiled: `walk_plain.walk` over any buffer of bytes."""

from cluster.records.batch import Buffer

VERSION: int

def walk(data: Buffer, record_count: int, /) -> tuple[int, int, int, int, int, int]: ...
