"""The walk over the records of a batch: the compiled version if it was built, else Python's.

Both take and return the same values (docs/decisions/047). A compiled module that was built from
another version of this source is not used.
"""

from collections.abc import Callable
from typing import Final

from cluster.records import walk_plain
from cluster.records.batch import Buffer

_VERSION: Final = 1
"""Of `_walk.c`, which has the same number."""

WalkFunction = Callable[[Buffer, int], tuple[int, int, int, int, int, int]]
"""From the bytes of a batch's records and their number to the fields of `walk_plain.Walked`."""


def _compiled() -> WalkFunction | None:
    try:
        from cluster.records import _walk
    except ImportError:
        return None
    return _walk.walk if _walk.VERSION == _VERSION else None


_chosen: Final = _compiled()
IS_COMPILED: Final = _chosen is not None
walk: Final[WalkFunction] = walk_plain.walk if _chosen is None else _chosen
