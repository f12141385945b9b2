"""Gives memory back to the system after much was held.

The C library returns the end of its heap by itself. One small block that was allocated last, a
znode for instance, keeps everything below it: 90 MiB of freed replies stayed with the registry.
"""

import ctypes
from collections.abc import Callable
from typing import Final

WORTH_TRIMMING_BYTES: Final = 16 << 20
"""Trimming walks the whole heap, some milliseconds: not for less than this."""


def trim_heap() -> None:
    """Return every free page of the heap (`malloc_trim`); nothing where the C library has none."""
    if _trim is not None:
        _trim(0)


def keep_to_one_heap() -> None:
    """All threads allocate from one heap (`M_ARENA_MAX`), from now on; nothing where the C library
    has no such choice.

    Otherwise each thread has one of its own, and keeps in it what the largest of its tasks took.
    Threads of Python seldom allocate at the same time, so they do not wait for each other.
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
    """Decides when to trim: once the bytes held have fallen to a quarter of their peak."""

    def __init__(self, trim: Callable[[], None] = trim_heap) -> None:
        self._trim = trim
        self._peak_bytes = 0

    def look(self, peak_bytes: int, held_bytes: int) -> None:
        """`peak_bytes`: the most that was held since the last call; `held_bytes`: held now."""
        self._peak_bytes = max(self._peak_bytes, peak_bytes)
        if self._peak_bytes >= WORTH_TRIMMING_BYTES and held_bytes <= self._peak_bytes // 4:
            self._peak_bytes = held_bytes
            self._trim()
