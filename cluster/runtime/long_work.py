"""Runs work that is too long for the loop's thread: decompressing and checking records.

Jobs are generators on the loop's thread. Each yielded step runs on another thread, which has no
access to the broker: zlib, lz4, zstd and the compiled walk release the GIL, so the loop continues.
Steps of several jobs alternate, so a long job delays a short one by at most a step.
"""

import logging
from collections.abc import Callable, Generator
from typing import Any, Final

from cluster.runtime.background_thread import Background
from cluster.runtime.loop_time import LoopTime, Payer

log = logging.getLogger(__name__)

Step = Callable[[], Any]
"""A computation on nothing but what it holds; what it raises is raised in the job."""
Job = Generator[Any, Any, None]
"""Yields steps."""
_NAME: Final = "long-work"


class LongWork:
    """The queue of long jobs. Owned by the loop's thread.

    Lifecycle: any number of `start`, then `close`.

    Invariant: one step runs at a time, and the steps of a job run in order.
    """

    def __init__(
        self,
        background: Callable[[str, float], Background],
        post_back: Callable[[Callable[[], None]], None],
        time: LoopTime,
        thread_cpu_ns: Callable[[], int],
    ) -> None:
        """The first job starts the thread; `post_back` runs a call on the loop's thread."""
        self._background = background
        self._post_back = post_back
        self._time = time
        self._thread_cpu_ns = thread_cpu_ns
        self._thread: Background | None = None

    def start(self, job: Job, payer: Payer, on_failed: Callable[[], None]) -> None:
        """Run a job, charged to `payer`, beginning with its first step.

        `on_failed` is called once if the job raises, which is a bug and is logged.
        """
        if self._thread is None:
            self._thread = self._background(_NAME, 1.0)
        self._advance(job, lambda: next(job), payer, on_failed)

    def close(self) -> None:
        """Drop queued jobs and wait for the current step."""
        if self._thread is not None:
            self._thread.close(drop=True)

    def _advance(
        self,
        job: Job,
        resume: Callable[[], Any],
        payer: Payer,
        on_failed: Callable[[], None],
    ) -> None:
        try:
            step: Step = resume()
        except StopIteration:
            return
        except Exception:
            log.exception("long work failed")
            on_failed()
            return
        assert self._thread is not None
        self._thread.do(lambda: self._run(job, step, payer, on_failed))

    def _run(self, job: Job, step: Step, payer: Payer, on_failed: Callable[[], None]) -> None:
        """Run a step on the other thread."""
        began_ns = self._thread_cpu_ns()
        resume: Callable[[], Step]
        try:
            outcome = step()
        except Exception as error:  # noqa: BLE001 - handed to the job, which knows which it expects
            raised = error  # the name of an `except` clause ends with it
            resume = lambda: job.throw(raised)  # noqa: E731 - one of two
        else:
            resume = lambda: job.send(outcome)  # noqa: E731
        spent_ns = self._thread_cpu_ns() - began_ns
        self._post_back(lambda: self._resume(job, resume, payer, on_failed, spent_ns))

    def _resume(
        self,
        job: Job,
        resume: Callable[[], Step],
        payer: Payer,
        on_failed: Callable[[], None],
        spent_ns: int,
    ) -> None:
        payer.owed_ns += spent_ns
        before = self._time.switch(payer)
        self._advance(job, resume, payer, on_failed)
        self._time.switch(before)
