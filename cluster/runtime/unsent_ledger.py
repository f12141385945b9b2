"""Tracks unsent answers in memory and chooses the connection to close. Pure."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class UnsentLedger(Generic[T]):
    """The unsent bytes of all connections, ordered by the time of their last progress.

    Above the limit, the connection without progress for the longest time is closed first; a peer
    that reads, however slowly, is safe while others do not. The only connection is never closed.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        """With `limit_bytes` None there is no limit."""
        self._limit_bytes = limit_bytes
        self._unsent: dict[T, int] = {}
        self.held_bytes = 0
        self._peak_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the limit is exceeded by more than one connection."""
        limit_bytes = self._limit_bytes
        return limit_bytes is not None and self.held_bytes > limit_bytes and len(self._unsent) > 1

    def note(self, sender: T, size_bytes: int, *, has_taken: bool) -> None:
        """Set the unsent bytes of a connection; `has_taken` tells whether its peer just took
        some."""
        if has_taken or not size_bytes:
            self.forget(sender)
        if size_bytes:
            self.held_bytes += size_bytes - self._unsent.get(sender, 0)
            self._unsent[sender] = size_bytes
            self._peak_bytes = max(self._peak_bytes, self.held_bytes)

    def take_peak(self) -> int:
        """The maximum number of held bytes since the last call."""
        peak_bytes, self._peak_bytes = self._peak_bytes, self.held_bytes
        return peak_bytes

    def forget(self, sender: T) -> None:
        """Remove a connection without unsent bytes; does nothing if it is unknown."""
        self.held_bytes -= self._unsent.pop(sender, 0)

    def longest_silent(self) -> T:
        """The connection to close first while the ledger `is_full`."""
        return next(iter(self._unsent))
