"""Writes to a terminal, pipe or file without ever blocking on a slow reader.

A terminal paused by Ctrl-S, or a full pipe, accepts no bytes: output is then buffered, up to a
limit, and written when the reader continues.
"""

import os
import select
from collections.abc import Callable
from typing import Final

from cluster.runtime.loop import WRITABLE, EventLoop

_CHUNK_BYTES: Final = 512
"""Small enough not to block on a writable descriptor, which POSIX guarantees for pipes
(PIPE_BUF).
"""
_KEPT_MAX_BYTES: Final = 256 * 1024


class ConsoleStream:
    """One descriptor, written to from the loop's thread. Output to a closed reader is dropped."""

    def __init__(self, descriptor: int, loop: EventLoop) -> None:
        self._descriptor = _own(descriptor)
        self._is_own = self._descriptor != descriptor
        self._loop = loop
        self._kept = bytearray()
        self._is_watched = False
        self._is_closed = False
        self._when_drained: list[Callable[[], None]] = []

    def write(self, text: str) -> None:
        """Write the text now or buffer it; text that exceeds the buffer's limit is dropped."""
        if self._is_closed:
            return
        encoded = text.encode("utf-8", "backslashreplace")
        if self.kept_bytes + len(encoded) <= _KEPT_MAX_BYTES:
            self._kept += encoded
        self._drain()

    @property
    def kept_bytes(self) -> int:
        return len(self._kept)

    def when_drained(self, callback: Callable[[], None]) -> None:
        """Call `callback` once everything is written or the reader has closed; possibly
        immediately.
        """
        self._when_drained.append(callback)
        self._drain()

    def finish(self) -> None:
        """Write the buffered output, blocking until the reader takes it, and close."""
        while self._kept:
            self._poll(None)
            self._write_some()
        self.close()

    def close(self) -> None:
        """Drop the buffered output and ignore later writes."""
        self._unwatch()
        self._kept.clear()
        if not self._is_closed:
            self.close_inherited()
        self._is_closed = True

    def close_inherited(self) -> None:
        """In a forked child: close the descriptor without touching the loop, which is shared."""
        if self._is_own and not self._is_closed:
            os.close(self._descriptor)

    def _drain(self) -> None:
        while self._kept and self._poll(0):
            if not self._write_some():
                break
        if not self._kept:
            self._unwatch()
            callbacks, self._when_drained = self._when_drained, []
            for callback in callbacks:
                callback()
        elif not self._is_watched:
            self._loop.watch(self._descriptor, WRITABLE, lambda _events: self._drain())
            self._is_watched = True

    def _poll(self, timeout_ms: int | None) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(timeout_ms))

    def _write_some(self) -> bool:
        """Write one chunk. Returns False if the descriptor accepted nothing."""
        try:
            written = os.write(self._descriptor, self._kept[:_CHUNK_BYTES])
        except BlockingIOError:
            return False
        except OSError:  # the reader is gone, or the disk is full
            self._kept.clear()
            return True
        del self._kept[:written]
        return True

    def _unwatch(self) -> None:
        if self._is_watched:
            self._loop.unwatch(self._descriptor)
            self._is_watched = False


def _own(descriptor: int) -> int:
    """The terminal of a descriptor, reopened as non-blocking; otherwise the descriptor itself.

    Non-blocking because Ctrl-S may come between a poll and the write. Reopened because O_NONBLOCK
    on the inherited descriptor would affect the shell, which shares it.
    """
    try:
        if os.isatty(descriptor):
            name = os.ttyname(descriptor)
            return os.open(name, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        pass  # not permitted to open it, as after `su`
    return descriptor
