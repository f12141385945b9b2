"""Protects parts of the main thread's work from Ctrl-C."""

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
    """Defer Python's handlers of SIGINT, SIGTERM and SIGHUP to the end of the block.

    Use it for work that can be undone only when complete, and for calls into C that mistake a
    handler's exception for an error of their own, as the constructors of confluent-kafka do.
    Signals that kill the process without Python, or are ignored, are unaffected; so are other
    threads, which no handler interrupts.
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
    """Install another handler for these signals during the block, on the main thread only."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
