"""Turning a real loop until something holds, with a deadline."""

import time
from collections.abc import Callable

from cluster.runtime.loop import EventLoop

DEADLINE_S = 60.0


def turn_until(loop: EventLoop, condition: Callable[[], object], what: str) -> None:
    """Turn the loop until the condition holds; fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s for {what}"
        loop.run_once(max_wait_ms=20)
