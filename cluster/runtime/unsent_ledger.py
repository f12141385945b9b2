"""Whose answers wait in memory because their peers do not read them, and who is cut off. Pure."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class UnsentLedger(Generic[T]):
    """Bytes of unsent answers over all connections, the longest silent peer first.

    Above the limit, the connection whose peer has taken nothing for longest is closed first: a peer
    that reads, however slowly, is safe while others do not. The only connection is never closed.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        """`limit_bytes` None: any number of bytes may wait."""
        self._limit_bytes = limit_bytes
        self._unsent: dict[T, int] = {}
        self.held_bytes = 0
        self._peak_bytes = 0

    @property
    def is_full(self) -> bool:
        """Above the limit, with more than one connection."""
        limit_bytes = self._limit_bytes
        return limit_bytes is not None and self.held_bytes > limit_bytes and len(self._unsent) > 1

    def note(self, sender: T, size_bytes: int, *, has_taken: bool) -> None:
        """So many bytes wait for the sender's peer; `has_taken`: it has taken some just now."""
        if has_taken or not size_bytes:
            self.forget(sender)
        if size_bytes:
            self.held_bytes += size_bytes - self._unsent.get(sender, 0)
            self._unsent[sender] = size_bytes
            self._peak_bytes = max(self._peak_bytes, self.held_bytes)

    def take_peak(self) -> int:
        """The most bytes that were held at a time since the last call."""
        peak_bytes, self._peak_bytes = self._peak_bytes, self.held_bytes
        return peak_bytes

    def forget(self, sender: T) -> None:
        """Nothing waits for the sender's peer any more; does nothing if nothing did."""
        self.held_bytes -= self._unsent.pop(sender, 0)

    def longest_silent(self) -> T:
        """Whom to cut off first while it `is_full`."""
        return next(iter(self._unsent))
