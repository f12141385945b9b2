"""A thread for blocking work that nobody waits for, and work that either of two threads may do."""

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
    """A thread that runs calls one after the other."""

    def do(self, call: Callable[[], None]) -> None:
        """Queue a call; it must not raise."""
        ...

    def close(self, *, drop: bool = False) -> None:
        """Finish all queued calls, or with `drop` only the one that is running."""
        ...


_REST_AFTER_S: Final = 0.002
"""Rest only after this much work: shorter rests cost more than they give."""


def run_now(call: Callable[[], None]) -> None:
    """Make the call at once, without a thread."""
    call()


def run_detached(name: str, call: Callable[[], None]) -> None:
    """Make one call on a new thread, which is cut off when the process ends."""
    threading.Thread(target=call, name=name, daemon=True).start()


class Pace:
    """How long to rest so that work takes no more than its share of a processor. Pure.

    Kernels share processors fairly among threads, so work in the background that nobody waits for
    would take as much as the thread that serves clients.
    """

    def __init__(self, share: float) -> None:
        """A share of 1 never rests."""
        self._rest_per_work = 1 / share - 1
        self._worked_s = 0.0

    def rest_s(self, worked_s: float) -> float:
        """Seconds to rest now, after this many more of a processor's time."""
        self._worked_s += worked_s
        if self._worked_s < _REST_AFTER_S:
            return 0.0
        rest_s, self._worked_s = self._worked_s * self._rest_per_work, 0.0
        return rest_s


class Once:
    """Work that is done once, by whichever thread calls `run` first; another one waits for its end.

    An exception leaves it undone: the next to come tries again.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act
        self._lock = threading.Lock()

    def run(self) -> None:
        """Do the work, unless it is done already. Raises what the work raises."""
        with self._lock:
            if self._act is not None:
                self._act()
                self._act = None

    def cancel(self) -> bool:
        """Prevent the work; False where it was done before."""
        with self._lock:
            was_to_be_done = self._act is not None
            self._act = None
        return was_to_be_done


class InOrder(Generic[T]):
    """Things that are done one after the other, by whichever threads come to do them.

    Invariant: none is done before those that were added earlier, nor after `cancel` has returned.
    """

    def __init__(self, act: Callable[[T], None]) -> None:
        self._act = act
        self._waiting: deque[T] = deque()
        self._lock = threading.Lock()

    def add(self, things: Iterable[T]) -> None:
        """Append what is to be done."""
        self._waiting.extend(things)

    def run(self) -> None:
        """Do all that is left, or wait for the thread that does it.

        Raises what the work raises: the thing that failed, and what comes after it, stays.
        """
        is_done = False
        while not is_done:
            with self._lock:  # for one thing at a time: another thread may want to cancel
                if self._waiting:
                    self._act(self._waiting[0])
                    self._waiting.popleft()
                is_done = not self._waiting

    def cancel(self) -> None:
        """Do nothing more; waits for the one thing that is being done."""
        with self._lock:
            self._waiting.clear()


class BackgroundThread:
    """Runs calls one after the other. Lifecycle: any number of `do`, then `close`."""

    def __init__(self, name: str, share: float = 1.0) -> None:
        """It takes at most this share of a processor, until it is closed."""
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_dropping = False
        self._pace = Pace(share)
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, call: Callable[[], None]) -> None:
        """Run a call in its turn; it must not raise."""
        self._calls.put(call)

    def close(self, *, drop: bool = False) -> None:
        """Finish everything, or with `drop` only what is under way, and end the thread."""
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
            del call  # or what it holds, such as a deleted log's files, stays until the next one
            rest_s = self._pace.rest_s(time.thread_time() - began_s)
            if rest_s:
                self._is_closing.wait(rest_s)
