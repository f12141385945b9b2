"""What a client owes of one limit: Kafka's `TokenBucket`, seen from its other side. Pure.

Tokens are what is left of the burst, here it is counted what has been used of it, which falls at
the rate of the limit. Below zero tokens is more than a burst owed, and has to be waited for.
"""

import math

from cluster.model.clocks import MonotonicMs


class TokenBucket:
    """One budget's debt.

    Invariant: what is used between any two times in which the limit stays the same, while every
    delay is waited for, is at most the limit x (that time + burst) + one request.
    """

    __slots__ = ("_at_ms", "_burst_ms", "_limit", "_most_ms", "_owed")

    def __init__(self, burst_ms: int, most_ms: float = math.inf) -> None:
        """`burst_ms`: for how long unused tokens are kept. What is owed beyond `most_ms` of the
        limit is forgiven: where delays are capped it could grow for ever.
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
        """Take `used` more (less, when negative); milliseconds until no more than a burst is owed.

        `limit` is per second; another one than last time begins with a full bucket. `now_ms` never
        goes back. Rounded half up as Kafka does.
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
