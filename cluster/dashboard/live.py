"""One reading a second for all browsers that watch, and none without a watcher.

If a reading takes long, readings are less frequent, so that they use little of a core.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from cluster.dashboard.live_differences import Update

PERIOD_S: Final = 1.0
HEARTBEAT_S: Final = 15.0
"""After this long without news a comment is sent, which detects a broken connection."""
SHARE_MAX: Final = 1 / 30
"""The share of a core that readings may use. With many clients they are less frequent, but at least
every `PERIOD_MAX_S`."""
PERIOD_MAX_S: Final = 5.0
WATCHERS_MAX: Final = 200


class TooMany(Exception):
    """Too many watchers; another one is refused."""


class LiveFeed:
    """Reads while somebody watches, and sends every watcher the changes.

    A slow watcher misses readings: each has room for one, and gets the whole of the next that it
    takes. Used on one asyncio loop.
    """

    def __init__(self, read: Callable[[], Update], period_s: float = PERIOD_S) -> None:
        """`read` makes one reading; it is called on a thread."""
        self._read = read
        self._period_s = period_s
        self._watchers: set[_Watcher] = set()
        self._task: asyncio.Task[None] | None = None
        self._newest: Update | None = None
        self._is_closed = False

    @property
    def watcher_count(self) -> int:
        """The number of watchers."""
        return len(self._watchers)

    async def watch(self) -> AsyncIterator[str]:
        """Events of a stream (`text/event-stream`), until the caller or the feed closes it.

        Raises TooMany.
        """
        if self._is_closed or len(self._watchers) >= WATCHERS_MAX:
            raise TooMany
        watcher = _Watcher()
        self._watchers.add(watcher)
        if self._task is None:
            self._newest = None
            self._task = asyncio.create_task(self._run())
        elif self._newest is not None:
            watcher.offer(self._newest)
        try:
            while not self._is_closed:
                news = await watcher.next(HEARTBEAT_S)
                yield ": nothing new\n\n" if news is None else f"data: {news}\n\n"
        finally:
            self._watchers.discard(watcher)
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None

    def close(self) -> None:
        self._is_closed = True
        for watcher in self._watchers:
            watcher.wake()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            newest, used_s = await asyncio.to_thread(self._measured)
            self._newest = newest
            for watcher in self._watchers:
                watcher.offer(newest)
            next_s = began_s + period_s(used_s, self._period_s)
            await asyncio.sleep(max(0.0, next_s - loop.time()))

    def _measured(self) -> tuple[Update, float]:
        """A reading, and the CPU time that it took."""
        began_s = time.thread_time()
        return self._read(), time.thread_time() - began_s


def period_s(used_s: float, wanted_s: float) -> float:
    """The time between readings, given the CPU time of one."""
    return max(wanted_s, min(PERIOD_MAX_S, used_s / SHARE_MAX))


class _Watcher:
    """A buffer for one reading."""

    def __init__(self) -> None:
        self._news: Update | None = None
        self._has_missed_some = True
        self._is_woken = asyncio.Event()

    def offer(self, news: Update) -> None:
        self._has_missed_some |= self._news is not None
        self._news = news
        self.wake()

    def wake(self) -> None:
        self._is_woken.set()

    async def next(self, patience_s: float) -> str | None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_woken.wait(), patience_s)
        self._is_woken.clear()
        news, self._news = self._news, None
        if news is None:
            return None
        text = news.whole if self._has_missed_some else news.changes
        self._has_missed_some = False
        return text
