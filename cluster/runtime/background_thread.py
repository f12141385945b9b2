"""A thread for background work, and work that either of two threads may do."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

T = TypeVar("T")

Post = Callable[[Callable[[], None]], None]
"""Hands a call to a thread, which makes such calls one after the other."""


class Background(Protocol):
    """Runs calls one after the other on a thread."""

    def do(self, call: Callable[[], None]) -> None:
        """Queue a call, which must not raise."""
        ...

    def close(self, *, drop: bool = False) -> None:
        """Finish all queued calls, or with `drop` only the running one."""
        ...


_REST_AFTER_S: Final = 0.002
"""Rest only after this much work: shorter rests cost more than they give."""


def run_now(call: Callable[[], None]) -> None:
    """Make the call at once, without a thread."""
    call()


def run_detached(name: str, call: Callable[[], None]) -> None:
    """Make one call on a new daemon thread."""
    threading.Thread(target=call, name=name, daemon=True).start()


class Pace:
    """Sleep times that limit work to its share of a CPU. Pure.

    Kernels share CPUs fairly among threads, so background work would otherwise take as much as the
    thread that serves clients.
    """

    def __init__(self, share: float) -> None:
        """A share of 1 never requires a sleep."""
        self._rest_per_work = 1 / share - 1
        self._worked_s = 0.0

    def rest_s(self, worked_s: float) -> float:
        """Seconds to sleep after `worked_s` more of CPU time."""
        self._worked_s += worked_s
        if self._worked_s < _REST_AFTER_S:
            return 0.0
        rest_s, self._worked_s = self._worked_s * self._rest_per_work, 0.0
        return rest_s


class Once:
    """Work that is done once, by the first thread that calls `run`; other callers wait for it.

    An exception leaves it undone, and the next caller retries.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act
        self._lock = threading.Lock()

    def run(self) -> None:
        """Do the work unless it is done. Raises the exceptions of the work."""
        with self._lock:
            if self._act is not None:
                self._act()
                self._act = None

    def cancel(self) -> bool:
        """Prevent the work; False if it was already done."""
        with self._lock:
            was_to_be_done = self._act is not None
            self._act = None
        return was_to_be_done


class InOrder(Generic[T]):
    """Items that are processed one after the other, by any thread that calls `run`.

    Invariant: an item is processed after all earlier ones, and never after `cancel` has returned.
    """

    def __init__(self, act: Callable[[T], None]) -> None:
        self._act = act
        self._waiting: deque[T] = deque()
        self._lock = threading.Lock()

    def add(self, things: Iterable[T]) -> None:
        """Append items."""
        self._waiting.extend(things)

    def run(self) -> None:
        """Process all remaining items, or wait for the thread that does.

        Raises the exceptions of the work; the failed item and all later ones remain.
        """
        is_done = False
        while not is_done:
            with self._lock:  # per item, because another thread may want to cancel
                if self._waiting:
                    self._act(self._waiting[0])
                    self._waiting.popleft()
                is_done = not self._waiting

    def cancel(self) -> None:
        """Process no more items; waits for the current one."""
        with self._lock:
            self._waiting.clear()


class BackgroundThread:
    """Runs calls one after the other. Lifecycle: any number of `do`, then `close`."""

    def __init__(self, name: str, share: float = 1.0) -> None:
        """The thread takes at most this share of a CPU until it is closed."""
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_dropping = False
        self._pace = Pace(share)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, call: Callable[[], None]) -> None:
        """Queue a call, which must not raise."""
        self._calls.put(call)

    def close(self, *, drop: bool = False) -> None:
        """Finish all queued calls, or with `drop` only the running one, and end the thread."""
        self._is_dropping = drop
        self._is_closing.set()
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if self._is_dropping:
                continue
            began_s = time.thread_time()
            call()
            del call  # otherwise its objects live until the next call
            rest_s = self._pace.rest_s(time.thread_time() - began_s)
            if rest_s:
                self._is_closing.wait(rest_s)
