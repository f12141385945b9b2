"""Stops a cluster when the program that started it has ended, even by SIGKILL.

That program holds the other end of a pipe. The kernel closes it with the program; a program that
wants the data to stay writes `KEEP` before.
"""

import os
from collections.abc import Callable
from typing import Final

from cluster.runtime.loop import READABLE, EventLoop

KEEP: Final = b"k"
_READ_BYTES: Final = 64


class Lifeline:
    """The supervisor's end of the pipe; without effect if there is no such program."""

    def __init__(self, descriptor: int | None, loop: EventLoop, on_end: Callable[[], None]) -> None:
        """Call `on_end` once the other end is closed. Raises OSError for a bad descriptor."""
        self._descriptor = descriptor
        self._loop = loop
        self._on_end = on_end
        self._has_ended = self._keeps_data = False
        if descriptor is not None:
            os.set_blocking(descriptor, False)
            loop.watch(descriptor, READABLE, lambda _events: self._on_readable(descriptor))

    @property
    def removes_data(self) -> bool:
        """Whether the program has ended and wants the data to be removed."""
        return self._has_ended and not self._keeps_data

    def close_inherited(self) -> None:
        """Close the descriptor in a forked child."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor is not None:
            self._loop.unwatch(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _on_readable(self, descriptor: int) -> None:
        told = os.read(descriptor, _READ_BYTES)
        self._keeps_data = self._keeps_data or KEEP in told
        if not told:
            self._has_ended = True
            self.close()
            self._on_end()
