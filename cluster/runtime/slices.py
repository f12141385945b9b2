"""Long work in short steps: a few milliseconds in each turn of the loop, everybody else in between.

A job is an iterator; each `next` is a step of it, which should take well under a millisecond. What
a job has to say at its end it says itself, in its last step.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

BUDGET_US: Final = 1_000
"""What all jobs together take of one turn, in microseconds."""


class Slices:
    """The jobs of one loop, a step of each in turn: a short job does not wait for a long one.

    Owned by the loop's thread. Invariant: when the budget of a turn is spent, what is left waits
    for the next turn; a step is never cut.
    """

    def __init__(
        self,
        monotonic_us: Callable[[], int],
        next_turn: Callable[[Callable[[], None]], None],
        budget_us: int = BUDGET_US,
    ) -> None:
        """`next_turn` runs a call in the next turn of the loop, beside what is ready by then."""
        self._monotonic_us = monotonic_us
        self._next_turn = next_turn
        self._budget_us = budget_us
        self._jobs: deque[Iterator[object]] = deque()
        self._is_scheduled = False

    @property
    def is_idle(self) -> bool:
        """No job has steps left."""
        return not self._jobs

    def start(self, job: Iterator[object], steps_at_once: int = 0) -> None:
        """Take up a job; its first steps are done before this returns, which ends a short one."""
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
    """Do one step of a job; whether the job has ended."""
    try:
        next(job)
    except StopIteration:
        return True
    return False
