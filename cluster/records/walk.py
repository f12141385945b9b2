"""The walks over the records of a batch, and over the batches of a segment that producers have
numbered: the compiled versions if they were built, else Python's.

Both take and return the same values (docs/decisions/047). A compiled module that was built from
another version of this source is not used.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from cluster.records import producer_walk, walk_plain
from cluster.records.batch import Buffer
from cluster.records.producer_walk import ProducerBatch

_VERSION: Final = 2
"""Of `_walk.c`, which has the same number."""

WalkFunction = Callable[[Buffer, int], tuple[int, int, int, int, int, int]]
"""From the bytes of a batch's records and their number to the fields of `walk_plain.Walked`."""

ProducerWalkFunction = Callable[[Buffer, int, int, int], tuple[list[ProducerBatch], int, bool]]
"""From a buffer, a position, an end and a number of batches to what
`producer_walk.producer_batches` returns."""


class _Walks(NamedTuple):
    walk: WalkFunction
    producer_batches: ProducerWalkFunction


def _compiled() -> _Walks | None:
    try:
        from cluster.records import _walk
    except ImportError:
        return None
    if _walk.VERSION != _VERSION:
        return None
    return _Walks(_walk.walk, _walk.producer_batches)


_chosen: Final = _compiled()
IS_COMPILED: Final = _chosen is not None
_walks: Final = _chosen or _Walks(walk_plain.walk, producer_walk.producer_batches)
walk: Final[WalkFunction] = _walks.walk
producer_batches: Final[ProducerWalkFunction] = _walks.producer_batches
