"""Parts of the main thread's work that Ctrl-C must not interrupt."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

Handler = Callable[[int, FrameType | None], object] | signal.Handlers

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Python's handlers of SIGINT, SIGTERM and SIGHUP run when this is over, not within it.

    For what can be undone only when it is done, and for calls into C that take a handler's
    exception for a mistake of their own, as the constructors of confluent-kafka do. What kills the
    process without Python, or is ignored, stays as it is; so do other threads, which no handler
    interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted: list[int] = []
    own = [number for number in _ENDING if callable(signal.getsignal(number))]
    with handled_by(lambda number, _frame: noted.append(number), own):
        yield
    for number in noted:
        handler = signal.getsignal(number)
        if callable(handler):
            handler(number, None)


@contextmanager
def handled_by(handler: Handler, numbers: Sequence[int] = _ENDING) -> Iterator[None]:
    """Another handler for these signals; on the main thread only."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
