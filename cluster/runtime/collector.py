"""Keeps long-lived objects, such as partition states, out of Python's garbage collections.

A full collection visits every container object. A broker with ten thousand partitions has half a
million, which takes a tenth of a second, and a collection is due whenever a quarter was added.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PARTITIONS_PER_FREEZE: Final = 256


def leave_out_what_is_there() -> None:
    """Exclude the existing objects from all collections; they are still freed when unreferenced.

    Takes constant time; call it now and then while creating many long-lived objects.
    """
    gc.freeze()


@contextmanager
def paused() -> Iterator[None]:
    """Pause collections, then exclude the existing objects.

    Used for imports, which create a hundred thousand permanent objects and which collections slow
    down by a tenth.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def suspended() -> Iterator[None]:
    """Have no collections meanwhile, while some 100,000 objects are created that stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Growth:
    """Excludes long-lived objects from time to time as they are created or replaced."""

    def __init__(
        self,
        leave_out: Callable[[], None] = leave_out_what_is_there,
        per_freeze: int = PARTITIONS_PER_FREEZE,
    ) -> None:
        self._leave_out = leave_out
        self._per_freeze = per_freeze
        self._count = 0

    def add(self, count: int) -> None:
        """Count objects, such as partitions, that were created or got a new state."""
        self._count += count
        if self._count >= self._per_freeze:
            self._count = 0
            self._leave_out()
