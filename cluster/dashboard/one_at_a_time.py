"""Long computations one after the other; only a few may wait."""

import asyncio
from collections.abc import Callable
from typing import Final

from cluster.dashboard.sources import Json

WAITING_MAX: Final = 3


class AlreadyRunning(Exception):
    """Too many computations wait already; the text is for the user."""


class OneAtATime:
    """Calls blocking functions on threads, never two at once. Used on one loop."""

    def __init__(self, what: str) -> None:
        """`what` names what others wait for, such as `what-if`."""
        self._what = what
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(self, compute: Callable[[], Json]) -> Json:
        """Return or raise what `compute` does. Raises AlreadyRunning if too many wait already."""
        if self._turn.locked() and self._waiting >= WAITING_MAX:
            raise AlreadyRunning(f"others are waiting for their {self._what}: try again soon")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        computing = asyncio.create_task(asyncio.to_thread(compute))
        # A thread continues when its request is canceled: the next one must wait for it.
        computing.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(computing)
