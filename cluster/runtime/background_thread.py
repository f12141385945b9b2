"""A thread for what blocks and nobody waits for, and work that two threads may come to first."""

import queue
import threading
from collections.abc import Callable


class Once:
    """Work that is done once, by whichever thread comes first; the other waits for its end.

    An exception leaves it undone: the next to come tries again.
    """

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act
        self._lock = threading.Lock()

    def run(self) -> None:
        """Have it done when this returns. Raises what the work raises."""
        with self._lock:
            if self._act is not None:
                self._act()
                self._act = None

    def cancel(self) -> bool:
        """It is not to be done any more; False where it was done before."""
        with self._lock:
            was_to_be_done = self._act is not None
            self._act = None
        return was_to_be_done


class BackgroundThread:
    """Runs calls one after the other. Lifecycle: any number of `do`, then `close`."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_dropping = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def do(self, call: Callable[[], None]) -> None:
        """Run a call in its turn; it must not raise."""
        self._calls.put(call)

    def close(self, *, drop: bool = False) -> None:
        """Finish everything, or with `drop` only what is under way, and end the thread."""
        self._is_dropping = drop
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if not self._is_dropping:
                call()
