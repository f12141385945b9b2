"""The offset ranges that one rollup reads: fixed at its start, split so that all cores have work.

Pure. The ranges are passed to the data source as text.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
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


class TopicState(NamedTuple):
    """What a topic holds now."""

    name: str
    topic_id: str | None
    ranges: tuple[OffsetRange, ...]
    """Of every partition, empty ones included; none if there is no such topic."""


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


def to_text(ranges: Sequence[OffsetRange]) -> str:
    """The ranges as the text of an option of the data source."""
    return json.dumps(ranges)


def from_text(text: str) -> tuple[OffsetRange, ...]:
    """The ranges from a text that `to_text` made."""
    return tuple(OffsetRange(*each) for each in json.loads(text))
