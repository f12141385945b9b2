"""Keeps long-lived objects, such as partitions' states, out of Python's garbage collections.

A full collection looks at every container object. A broker of ten thousand partitions has half a
million, which takes a tenth of a second, and one is due whenever a quarter has been added.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PARTITIONS_PER_FREEZE: Final = 256


def leave_out_what_is_there() -> None:
    """No collection visits the present objects again; they are still freed when unreferenced.

    Constant work; to be called now and then while many long-lived objects are made.
    """
    gc.freeze()


@contextmanager
def paused() -> Iterator[None]:
    """No collections meanwhile, and what is there afterwards is left out: for imports, which make a
    hundred thousand objects that stay, and which collections make a tenth slower.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class Growth:
    """Leaves out long-lived objects once in a while as they are made or replaced."""

    def __init__(
        self,
        leave_out: Callable[[], None] = leave_out_what_is_there,
        per_freeze: int = PARTITIONS_PER_FREEZE,
    ) -> None:
        self._leave_out = leave_out
        self._per_freeze = per_freeze
        self._count = 0

    def add(self, count: int) -> None:
        """Count things, such as partitions, that were made or got another state."""
        self._count += count
        if self._count >= self._per_freeze:
            self._count = 0
            self._leave_out()
