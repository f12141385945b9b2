"""What `_walk.c` offers where it is compiled: `walk_plain.walk` and
`producer_walk.producer_batches` over any buffer of bytes."""

from cluster.records.batch import Buffer

VERSION: int

def walk(data: Buffer, record_count: int, /) -> tuple[int, int, int, int, int, int]: ...
def producer_batches(
    data: Buffer, position: int, end: int, most: int, /
) -> tuple[list[tuple[int, int, int, int, int, int, int, int]], int, bool]: ...
