"""Bounds the memory of incomplete messages over many connections. Pure.

All connections share one limit. Above it, the newest receiver waits: its connection is not read.
The oldest never waits, so at least one message always progresses, and the sum is at most the limit
plus one message. While any receiver waits, every other message must keep arriving and be complete
within `PATIENCE_MS`; otherwise incomplete messages of silent peers would block the others forever.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from cluster.model.clocks import MonotonicMs

PATIENCE_MS: Final = 10_000
"""How long a message may take to arrive while others wait; its own waiting is not counted."""

SILENCE_MS: Final = 2_000
"""For how long nothing of a message may arrive while others wait."""

T = TypeVar("T", bound=Hashable)


class _Claim:
    __slots__ = ("began_ms", "granted_ms", "held_bytes", "waits_since_ms", "wanted_bytes")

    def __init__(self, now_ms: MonotonicMs) -> None:
        self.held_bytes = 0
        self.wanted_bytes = 0
        self.began_ms = now_ms
        self.granted_ms = now_ms
        self.waits_since_ms: MonotonicMs | None = None


class ReceiveLedger(Generic[T]):
    """Memory claims of receivers, oldest first.

    Invariant: `held_bytes` is at most the limit plus the oldest claim; the oldest waits only until
    the next `admit`.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        """With `limit_bytes` None, all claims are granted."""
        self._limit_bytes = limit_bytes
        self._claims: dict[T, _Claim] = {}
        self.held_bytes = 0
        self.waiting_count = 0
        self._peak_bytes = 0

    def claim(self, receiver: T, size_bytes: int, now_ms: MonotonicMs) -> bool:
        """Raise a receiver's claim to `size_bytes` in total; False if it must wait for `admit`.

        A waiting receiver keeps its place and its current claim.
        """
        claim = self._claims.get(receiver)
        if claim is None:
            claim = self._claims[receiver] = _Claim(now_ms)
        if not self._fits(receiver, claim, size_bytes):
            claim.wanted_bytes = size_bytes
            if claim.waits_since_ms is None:
                claim.waits_since_ms = now_ms
                self.waiting_count += 1
            return False
        self._grant(claim, size_bytes, now_ms)
        return True

    def hold(self, receiver: T, size_bytes: int, now_ms: MonotonicMs) -> bool:
        """Set the claim for `size_bytes` that are already in memory.

        Returns False if they exceed the limit, whatever the receiver's age; they must then be
        dropped.
        """
        claim = self._claims.get(receiver)
        before_bytes = 0 if claim is None else claim.held_bytes
        limit_bytes = self._limit_bytes
        if limit_bytes is not None and self.held_bytes - before_bytes + size_bytes > limit_bytes:
            return False
        return self.claim(receiver, size_bytes, now_ms)

    def release(self, receiver: T) -> None:
        """The message was processed or dropped; does nothing without a claim."""
        claim = self._claims.pop(receiver, None)
        if claim is not None:
            self.held_bytes -= claim.held_bytes
            self.waiting_count -= claim.waits_since_ms is not None

    def admit(self, now_ms: MonotonicMs) -> list[T]:
        """Grant waiting claims, oldest first; returns their receivers."""
        admitted: list[T] = []
        if self.waiting_count:
            for receiver, claim in self._claims.items():
                if claim.waits_since_ms is not None and self._fits(
                    receiver, claim, claim.wanted_bytes
                ):
                    self._grant(claim, claim.wanted_bytes, now_ms)
                    admitted.append(receiver)
        return admitted

    def take_peak(self) -> int:
        """The maximum number of held bytes since the last call."""
        peak_bytes, self._peak_bytes = self._peak_bytes, self.held_bytes
        return peak_bytes

    def overdue(self, now_ms: MonotonicMs, received_ms: Callable[[T], int]) -> list[T]:
        """Receivers to close because others wait: they are silent or too slow.

        `received_ms(receiver)` is the time of its last received bytes.
        """
        if not self.waiting_count:
            return []
        return [
            receiver
            for receiver, claim in self._claims.items()
            if claim.waits_since_ms is None
            and (
                now_ms - claim.began_ms > PATIENCE_MS
                or now_ms - max(claim.granted_ms, received_ms(receiver)) > SILENCE_MS
            )
        ]

    def _fits(self, receiver: T, claim: _Claim, size_bytes: int) -> bool:
        return (
            self._limit_bytes is None
            or self.held_bytes - claim.held_bytes + size_bytes <= self._limit_bytes
            or next(iter(self._claims)) == receiver
        )

    def _grant(self, claim: _Claim, size_bytes: int, now_ms: MonotonicMs) -> None:
        self.held_bytes += size_bytes - claim.held_bytes
        claim.held_bytes = size_bytes
        claim.granted_ms = now_ms
        if self.held_bytes > self._peak_bytes:
            self._peak_bytes = self.held_bytes
        if claim.waits_since_ms is not None:
            claim.began_ms = MonotonicMs(claim.began_ms + now_ms - claim.waits_since_ms)
            claim.waits_since_ms = None
            self.waiting_count -= 1
