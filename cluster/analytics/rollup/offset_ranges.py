"""The offset ranges of one rollup: fixed at its start, and cut so that all cores have work.

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
        """The number of offsets, which is at least the number of records."""
        return self.end - self.start


class TopicRanges(NamedTuple):
    """The current content of a topic."""

    name: str
    topic_id: str | None
    ranges: tuple[OffsetRange, ...]
    """For every partition, including empty ones; none if the topic does not exist."""
    cluster_id: str | None = None
    """Identifies the cluster; None if it has no id."""
    hosts: tuple[str, ...] = ()
    """The host names that its brokers advertise."""


def split(
    ranges: Iterable[OffsetRange], parts: int, smallest: int = 50_000
) -> tuple[OffsetRange, ...]:
    """The same offsets in at least `parts` ranges, unless these would be below `smallest` offsets.

    Without empty ranges.
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
    """The same offsets in the same order, cut into groups of equal size except for the last.

    There are at most `tasks`, each of at least `smallest` offsets. Without empty ranges.
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
