"""Returns memory to the system after large amounts were freed.

The C library returns only the end of its heap by itself. One small block that was allocated last,
such as a znode, keeps everything below it: the registry kept 90 MiB of freed replies.
"""

import ctypes
from collections.abc import Callable
from typing import Final

WORTH_TRIMMING_BYTES: Final = 16 << 20
"""Trimming walks the whole heap, some milliseconds: not for less than this."""


def trim_heap() -> None:
    """Return every free page of the heap (`malloc_trim`); does nothing if unsupported."""
    if _trim is not None:
        _trim(0)


def keep_to_one_heap() -> None:
    """Make all threads allocate from one heap (`M_ARENA_MAX`); does nothing if unsupported.

    Otherwise each thread has its own heap, which keeps the memory of its largest task. Python
    threads seldom allocate at the same time, so sharing costs no waiting.
    """
    if _mallopt is not None:
        _mallopt(_M_ARENA_MAX, 1)


def _find(name: str) -> Callable[..., int] | None:
    try:
        found: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None  # not glibc
    return found


_M_ARENA_MAX: Final = -8
_trim: Final = _find("malloc_trim")
_mallopt: Final = _find("mallopt")


class HeapTrim:
    """Decides when to trim: once the held bytes have fallen to a quarter of their peak."""

    def __init__(self, trim: Callable[[], None] = trim_heap) -> None:
        self._trim = trim
        self._peak_bytes = 0

    def look(self, peak_bytes: int, held_bytes: int) -> None:
        """Pass `peak_bytes`, the maximum since the last call, and `held_bytes`, the current
        value."""
        self._peak_bytes = max(self._peak_bytes, peak_bytes)
        if self._peak_bytes >= WORTH_TRIMMING_BYTES and held_bytes <= self._peak_bytes // 4:
            self._peak_bytes = held_bytes
            self._trim()
