"""Bounds the memory of messages that have not arrived whole, over many connections. Pure.

All connections share one limit. Where it would be exceeded, the receiver that began last waits:
its connection is not read. The oldest never waits, so at least one message always goes on, and the
sum is at most the limit and one message. While anyone waits, every other message must keep
arriving, and be complete within `PATIENCE_MS`, or half messages of silent peers would hold the
others up for ever.
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
    """Claims of receivers, oldest first.

    Invariant: `held_bytes` is at most the limit plus what the oldest holds; the oldest waits only
    until the next `admit`.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        """`limit_bytes` None: everybody may hold what they like."""
        self._limit_bytes = limit_bytes
        self._claims: dict[T, _Claim] = {}
        self.held_bytes = 0
        self.waiting_count = 0
        self._peak_bytes = 0

    def claim(self, receiver: T, size_bytes: int, now_ms: MonotonicMs) -> bool:
        """Have `receiver` hold `size_bytes` in all from now on; False: it is to wait for `admit`.

        Who waits keeps its place and what it holds already.
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
        """Have it hold `size_bytes` in all, which are in memory already; False: they are too many,
        however old it is, and are to be dropped.
        """
        claim = self._claims.get(receiver)
        before_bytes = 0 if claim is None else claim.held_bytes
        limit_bytes = self._limit_bytes
        if limit_bytes is not None and self.held_bytes - before_bytes + size_bytes > limit_bytes:
            return False
        return self.claim(receiver, size_bytes, now_ms)

    def release(self, receiver: T) -> None:
        """The receiver's message was processed or dropped; does nothing if it holds nothing."""
        claim = self._claims.pop(receiver, None)
        if claim is not None:
            self.held_bytes -= claim.held_bytes
            self.waiting_count -= claim.waits_since_ms is not None

    def admit(self, now_ms: MonotonicMs) -> list[T]:
        """Who waited and now holds what it asked for; in the order in which they began."""
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
        """The most bytes that were held at a time since the last call."""
        peak_bytes, self._peak_bytes = self._peak_bytes, self.held_bytes
        return peak_bytes

    def overdue(self, now_ms: MonotonicMs, received_ms: Callable[[T], int]) -> list[T]:
        """Receivers to be closed because others wait: they are silent, or take too long.

        `received_ms(receiver)`: when something of it has come last.
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
