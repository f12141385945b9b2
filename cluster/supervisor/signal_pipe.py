"""Turns signals into calls on the loop, without a race between a signal and the loop's wait."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from cluster.runtime.loop import READABLE, EventLoop


class SignalPipe:
    """A signal writes a byte to a pipe, which wakes the loop, which runs the signal's callback.

    Must be created on the main thread, at most once per process.
    """

    def __init__(self, loop: EventLoop, calls: Mapping[int, Callable[[], None]]) -> None:
        """Run the callback of each signal in `calls` on the loop from now on."""
        self._loop = loop
        self._calls = calls
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in calls:
            signal.signal(number, _leave_it_to_the_pipe)
        loop.watch(self._reader, READABLE, self._on_readable)

    def close(self) -> None:
        """Restore the default action of each signal."""
        signal.set_wakeup_fd(-1)
        for number in self._calls:
            signal.signal(number, signal.SIG_DFL)
        self._loop.unwatch(self._reader)
        self.close_inherited()

    def close_inherited(self) -> None:
        """In a forked child: close the pipe's descriptors."""
        os.close(self._reader)
        os.close(self._writer)

    def _on_readable(self, _events: int) -> None:
        with suppress(BlockingIOError):
            for number in os.read(self._reader, 4096):
                if number in self._calls:
                    self._calls[number]()


def _leave_it_to_the_pipe(_number: int, _frame: object) -> None:
    """Do nothing: Python writes to the pipe only for signals that have a Python handler."""
