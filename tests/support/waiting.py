"""Waiting for a condition with a deadline: the only place of the cluster tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0
"""A machine with other work may stand still for seconds; who waits in vain is not in a hurry."""
_POLL_S = 0.02


def wait_until(condition: Callable[[], T | None], what: str, deadline_s: float = DEADLINE_S) -> T:
    """Ask again and again until the answer is true, and return it; fail after the deadline."""
    deadline = time.monotonic() + deadline_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited {deadline_s:g} s for {what}"
        time.sleep(_POLL_S)
    return answer
