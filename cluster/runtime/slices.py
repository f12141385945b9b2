"""Runs long work in short steps: a few milliseconds in each turn of the loop.

A job is an iterator; each `next` is one step, which should take well under a millisecond. A job
reports its own result in its last step.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

BUDGET_US: Final = 1_000
"""What all jobs together take of one turn, in microseconds."""


class Slices:
    """The jobs of one loop. They alternate, so a short job does not wait for a long one.

    Owned by the loop's thread. Invariant: once the budget of a turn is spent, the remaining steps
    wait for the next turn; a step is never interrupted.
    """

    def __init__(
        self,
        monotonic_us: Callable[[], int],
        next_turn: Callable[[Callable[[], None]], None],
        budget_us: int = BUDGET_US,
    ) -> None:
        """`next_turn` runs a call in the next turn of the loop, along with its ready
        descriptors."""
        self._monotonic_us = monotonic_us
        self._next_turn = next_turn
        self._budget_us = budget_us
        self._jobs: deque[Iterator[object]] = deque()
        self._is_scheduled = False

    @property
    def is_idle(self) -> bool:
        """Whether no job has steps left."""
        return not self._jobs

    def start(self, job: Iterator[object], steps_at_once: int = 0) -> None:
        """Start a job; its first steps run before this returns, which completes a short job."""
        for _ in range(steps_at_once):
            if _step(job):
                return
        self._jobs.append(job)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._next_turn(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        until_us = self._monotonic_us() + self._budget_us
        jobs = self._jobs
        while jobs:
            job = jobs.popleft()
            if not _step(job):
                jobs.append(job)
            if self._monotonic_us() >= until_us:
                break
        if jobs:
            self._schedule()


def _step(job: Iterator[object]) -> bool:
    """Run one step of a job; returns whether the job has ended."""
    try:
        next(job)
    except StopIteration:
        return True
    return False
