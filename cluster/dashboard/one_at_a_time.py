"""Long computations one after the other, of which only a few wait."""

import asyncio
from collections.abc import Callable
from typing import Final

from cluster.dashboard.sources import Json

WAITING_MAX: Final = 3


class AlreadyRunning(Exception):
    """As many computations wait as may."""


class OneAtATime:
    """Calls blocking functions on threads, never two at once. On one loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(self, compute: Callable[[], Json]) -> Json:
        """What `compute` returns, and raises. Raises Busy where too many wait already."""
        if self._turn.locked() and self._waiting >= WAITING_MAX:
            raise AlreadyRunning
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        computing = asyncio.create_task(asyncio.to_thread(compute))
        # A thread goes on when its request is canceled: the next one's turn comes after it.
        computing.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(computing)
