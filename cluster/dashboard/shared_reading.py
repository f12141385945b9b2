"""One reading for everybody who asks within a while, so that many pages cost what one costs."""

import asyncio
from collections.abc import Callable
from typing import Final

from cluster.dashboard.sources import Json

PERIOD_S: Final = 2.0
_SHARE: Final = 0.1
"""Of the time is spent on reading, at most: a large cluster is read less often."""


class SharedReading:
    """What a blocking function returns, read anew when it is asked for and old. On one loop."""

    def __init__(self, read: Callable[[], Json], period_s: float = PERIOD_S) -> None:
        """`read` is called on a thread, never twice at once. A failure is not kept."""
        self._read = read
        self._period_s = period_s
        self._task: asyncio.Task[Json] | None = None
        self._fresh_until_s = 0.0
        self._forgotten = 0

    def forget(self) -> None:
        """What is known is out of date: it is not kept, nor what a reading under way will find."""
        self._forgotten += 1
        self._fresh_until_s = 0.0

    async def get(self) -> Json:
        """The present reading. Raises what `read` raises."""
        loop = asyncio.get_running_loop()
        is_old = self._task is None or (self._task.done() and loop.time() >= self._fresh_until_s)
        if self._task is None or is_old:
            self._task = asyncio.create_task(self._run())
        return await asyncio.shield(self._task)

    async def _run(self) -> Json:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        forgotten = self._forgotten
        found = await asyncio.to_thread(self._read)
        ended_s = loop.time()
        if forgotten != self._forgotten:
            return found
        self._fresh_until_s = max(began_s + self._period_s, ended_s + (ended_s - began_s) / _SHARE)
        return found
