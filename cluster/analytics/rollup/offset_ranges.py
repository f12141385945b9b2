"""The offset ranges that one rollup reads: fixed at its start, cut so that all cores have work.

Pure.
"""

import itertools
from collections.abc import Iterable
from typing import Final, NamedTuple

PYTHON: Final = "python"
KAFKA: Final = "kafka"
SOURCES: Final = (PYTHON, KAFKA)
"""What Spark reads ranges with: our data source, or its own connector."""


class OffsetRange(NamedTuple):
    """Records of one partition, `[start, end)`."""

    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets it spans: at least as many as there are records."""
        return self.end - self.start


class TopicRanges(NamedTuple):
    """What a topic holds now."""

    name: str
    topic_id: str | None
    ranges: tuple[OffsetRange, ...]
    """Of every partition, empty ones included; none if there is no such topic."""
    cluster_id: str | None = None
    """What tells a cluster from others; None if it does not say."""
    hosts: tuple[str, ...] = ()
    """Under which its brokers are to be reached, as they say."""


def split(
    ranges: Iterable[OffsetRange], parts: int, smallest: int = 50_000
) -> tuple[OffsetRange, ...]:
    """The same offsets in at least `parts` ranges, unless these would be below `smallest` offsets.

    Empty ranges are left out.
    """
    filled = [each for each in ranges if each.size > 0]
    size = max(smallest, -(-sum(each.size for each in filled) // max(1, parts)))
    return tuple(piece for each in filled for piece in _cut(each, size))


def _cut(whole: OffsetRange, size: int) -> Iterable[OffsetRange]:
    count = -(-whole.size // size)
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return (OffsetRange(whole.partition, start, end) for start, end in itertools.pairwise(edges))


def grouped(
    ranges: Iterable[OffsetRange], tasks: int, smallest: int
) -> list[tuple[OffsetRange, ...]]:
    """The same offsets in the same order, cut into groups of the same size but for the last: at
    most `tasks`, each of `smallest` offsets at least. Empty ranges are left out.
    """
    filled = [each for each in ranges if each.size > 0]
    size = max(smallest, -(-sum(each.size for each in filled) // max(1, tasks)))
    groups: list[list[OffsetRange]] = []
    room = 0
    for partition, start, end in filled:
        at = start
        while at < end:
            if not room:
                groups.append([])
                room = size
            cut = min(end, at + room)
            groups[-1].append(OffsetRange(partition, at, cut))
            room -= cut - at
            at = cut
    return [tuple(group) for group in groups]
