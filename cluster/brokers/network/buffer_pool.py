"""Reusable receive buffers that grow with the received bytes.

New memory costs a page fault and a zeroed page per 4 KiB: with 1 MB produce requests, a fresh
buffer for each took a quarter of the broker's time. The size that a peer announces takes no memory:
a buffer is at most four times as large as the received bytes.
"""

from typing import Final

_SMALLEST_BYTES: Final = 64 * 1024
_LARGEST_BYTES: Final = 4 * 1024 * 1024
KEPT_PER_SIZE: Final = 4
"""At most 4 x (64 KiB + 128 KiB + ... + 4 MiB), 32 MiB, and only after such requests came."""
_GROWTH: Final = 4
_ZEROS: Final = bytes(1024 * 1024)
"""A buffer above the largest kept size grows by this much, in place."""


def capacity_for(size_bytes: int, arrived_bytes: int) -> int:
    """The buffer size for a frame of `size_bytes` of which `arrived_bytes` have arrived."""
    wanted = max(_SMALLEST_BYTES, _GROWTH * arrived_bytes)
    if size_bytes <= min(wanted, _LARGEST_BYTES):
        if size_bytes <= _SMALLEST_BYTES // 2:
            return size_bytes
        return max(_SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
    if arrived_bytes < _LARGEST_BYTES:
        return min(_LARGEST_BYTES, 1 << (wanted.bit_length() - 1))
    return min(size_bytes, arrived_bytes + len(_ZEROS))


class BufferPool:
    """Free buffers by power-of-two size; buffers outside the range of sizes are not kept."""

    def __init__(self) -> None:
        self._free: dict[int, list[bytearray]] = {}

    def take(self, capacity_bytes: int) -> bytearray:
        """A buffer of a size from `capacity_for`, with arbitrary contents."""
        free = self._free.get(capacity_bytes)
        return free.pop() if free else bytearray(capacity_bytes)

    def grow(self, buffer: bytearray, filled_bytes: int, capacity_bytes: int) -> bytearray:
        """A buffer of `capacity_bytes` that begins with the first `filled_bytes` of this one.

        `buffer` must not be used afterwards.
        """
        if filled_bytes >= _LARGEST_BYTES:
            buffer += memoryview(_ZEROS)[: capacity_bytes - len(buffer)]
            return buffer
        grown = self.take(capacity_bytes)
        grown[:filled_bytes] = memoryview(buffer)[:filled_bytes]
        self.give_back(buffer)
        return grown

    def give_back(self, buffer: bytearray) -> None:
        """Keep a buffer from `take` or `grow` for reuse, if there is room."""
        size_bytes = len(buffer)
        if _SMALLEST_BYTES <= size_bytes <= _LARGEST_BYTES and size_bytes.bit_count() == 1:
            free = self._free.setdefault(size_bytes, [])
            if len(free) < KEPT_PER_SIZE:
                free.append(buffer)
