"""Shares one reading among all requests within a while, so many pages cost as much as one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from cluster.dashboard.sources import Json

PERIOD_S: Final = 2.0
SHARE: Final = 0.1


class SharedReading:
    """Caches the result of a blocking function, and renews it when an old one is asked for.

    Used on one loop.
    """

    def __init__(
        self,
        read: Callable[[], Json],
        period_s: float = PERIOD_S,
        run: Callable[[Callable[[], Json]], Awaitable[Json]] = asyncio.to_thread,
        share: float = SHARE,
    ) -> None:
        """`read` is called by `run`, on a thread, never twice at once. A failure is not cached.

        `share` is that of the time that may be spent on reading: a large cluster is read less
        often. It is higher for what mostly waits.
        """
        self._read = read
        self._run_on_thread = run
        self._period_s = period_s
        self._share = share
        self._task: asyncio.Task[Json] | None = None
        self._fresh_until_s = 0.0
        self._forgotten = 0
        self._began_at = 0
        """The value of `_forgotten` when the reading began."""

    def forget(self) -> None:
        """Drop the cached result, and that of a reading in progress."""
        self._forgotten += 1
        self._fresh_until_s = 0.0

    async def get(self) -> Json:
        """The current result. Raises what `read` raises."""
        loop = asyncio.get_running_loop()
        while self._task is not None and not self._task.done() and self._is_outdated:
            await asyncio.wait([self._task])
        is_old = self._task is None or (self._task.done() and loop.time() >= self._fresh_until_s)
        if self._task is None or is_old:
            self._began_at = self._forgotten
            self._task = asyncio.create_task(self._run())
        return await asyncio.shield(self._task)

    @property
    def _is_outdated(self) -> bool:
        return self._began_at != self._forgotten

    async def _run(self) -> Json:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        found = await self._run_on_thread(self._read)
        ended_s = loop.time()
        if self._is_outdated:
            return found
        self._fresh_until_s = max(
            began_s + self._period_s, ended_s + (ended_s - began_s) / self._share
        )
        return found
