"""Waiting for a condition with a deadline: the only place of the cluster tests that sleeps."""

import select
import time
from collections.abc import Callable
from typing import TypeVar

from cluster.runtime.loop import HasFileno

T = TypeVar("T")

DEADLINE_S = 60.0
"""Long, because a busy machine may pause for seconds; only failing tests wait for all of it."""
_POLL_S = 0.02


def wait_until(condition: Callable[[], T | None], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Ask again and again until the answer is true, and return it; fail after the deadline."""
    deadline = time.monotonic() + deadline_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {deadline_s:g} s for {what}"
        time.sleep(_POLL_S)
    return answer


def is_readable(source: HasFileno | int, patience_s: float) -> bool:
    """Whether data, or the end of the stream, can be read within `patience_s` seconds.

    With `poll`: `select` takes no descriptor above 1023, and a test process may have more.
    """
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(patience_s * 1000))
