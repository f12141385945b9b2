"""A client's debt under one limit: the inverse of Kafka's `TokenBucket`. Pure.

Tokens are the unused part of the burst; here the used part is counted, which falls at the rate of
the limit. Fewer than zero tokens are a debt of more than a burst, which must be waited for.
"""

import math

from cluster.model.clocks import MonotonicMs


class TokenBucket:
    """The debt of one budget.

    Invariant: the usage between any two times with the same limit, if every delay is waited for, is
    at most the limit x (that time + burst) + one request.
    """

    __slots__ = ("_at_ms", "_burst_ms", "_limit", "_most_ms", "_owed")

    def __init__(self, burst_ms: int, most_ms: float = math.inf) -> None:
        """`burst_ms`: how long unused tokens are kept. A debt beyond `most_ms` of the limit is
        forgiven: with capped delays it could grow forever.
        """
        self._burst_ms = burst_ms
        self._most_ms = most_ms
        self._owed = 0.0
        self._at_ms = MonotonicMs(0)
        self._limit = 0.0

    @property
    def is_in_use(self) -> bool:
        """Whether anything is owed, as of the last `delay_ms`."""
        return self._owed > 0

    def delay_ms(self, limit: float, used: float, now_ms: MonotonicMs) -> int:
        """Add `used` (may be negative); returns the ms until no more than a burst is owed.

        `limit` is per second; a changed limit begins with a full bucket. `now_ms` never goes back.
        Rounded half up as in Kafka.
        """
        if limit != self._limit:
            self._limit = limit
            self._owed = 0.0
        paid = limit * (now_ms - self._at_ms) / 1_000
        self._at_ms = now_ms
        owed = max(0.0, max(0.0, self._owed - paid) + used)
        self._owed = min(owed, limit * self._most_ms / 1_000)
        over_ms = self._owed / limit * 1_000 - self._burst_ms
        return math.floor(over_ms + 0.5) if over_ms > 0 else 0
