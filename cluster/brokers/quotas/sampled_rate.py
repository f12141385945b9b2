"""A rate over a row of small windows: Kafka's samples, two ways to divide them.

A sample begins with the first value after the one before it is a window old, and counts until its
last value is `window_count` windows old. Why there are two divisors: docs/decisions/005. What is
owed when a sample becomes obsolete is remembered: docs/decisions/034.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from struct import Struct
from typing import Any, Final

from cluster.brokers.quotas.token_bucket import TokenBucket
from cluster.model.clocks import MonotonicMs
from cluster.model.quota_delay import delay_of

_NEVER: Final = 1 << 62
_SAMPLE: Final = Struct("=qqd")
"""When a sample began, when something was last recorded in it, its value."""


class WindowCredit(StrEnum):
    """What the windows before a client's oldest sample are good for."""

    ELAPSED = "elapsed"
    """Nothing: the rate divides by the time since that sample began, at least by one window."""
    KAFKA = "kafka"
    """They were empty: it divides at least by all windows except the present one plus the part of
    it that has passed (Kafka's `Rate`), so a client that was silent may use what it did not use."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """`quota.window.num`, `quota.window.size.seconds` and `milena.quota.window.credit`."""

    window_count: int = 11
    window_ms: int = 1_000
    credit: WindowCredit = WindowCredit.ELAPSED

    @property
    def span_ms(self) -> int:
        """The length of all windows."""
        return self.window_count * self.window_ms

    @property
    def fetch_seconds(self) -> float:
        """How many seconds' worth of its limit a client may fetch at once.

        Kafka: what it may use after a silence. Else a quarter of a window: a fetch waits until all
        of it is admitted, so what is left unused grows with its size.
        """
        windows = 0.25 if self.credit is WindowCredit.ELAPSED else max(1, self.window_count - 1)
        return windows * self.window_ms / 1_000


class SampledRate:
    """The recent rate of one budget, in at most `window_count` + 1 samples.

    There may be a hundred thousand of these: the sample that takes what is recorded now is part of
    the object, and those before it are bytes.

    Invariant: `total` is the sum of the samples, `_oldest_ms` the earliest start of those that
    have begun, and no sample is obsolete before `_obsolete_from_ms`. To Kafka an empty sample has
    begun as well, when it was made or the value in it became obsolete.
    """

    __slots__ = (
        "_closed",
        "_debt",
        "_debt_max_ms",
        "_empty_has_begun",
        "_obsolete_from_ms",
        "_oldest_ms",
        "_options",
        "key",
        "last_ms",
        "start_ms",
        "total",
        "unsettled",
        "user_count",
        "value",
        "window_ms",
    )

    def __init__(
        self,
        options: WindowOptions,
        now_ms: MonotonicMs,
        key: Any = None,
        debt_max_ms: float = math.inf,
    ) -> None:
        """`debt_max_ms`: how much of the limit can be owed, where delays are capped."""
        self._options = options
        self._debt_max_ms = debt_max_ms
        self._empty_has_begun = options.credit is WindowCredit.KAFKA
        self._closed = b""
        """The samples before the present one, the oldest first."""
        self.window_ms = options.window_ms
        self.key = key
        """What its owner knows it by."""
        self._debt: TokenBucket | None = None
        """Of whom is, or was, above its limit and has not paid for all of that."""
        self.unsettled = 0.0
        """What was used under a limit since the last `delay_ms`."""
        self.user_count = 0
        """How many accounts share it."""
        self.value = 0.0
        """Of the present sample."""
        self.last_ms: int = now_ms
        """When something was recorded in it."""
        self.start_ms: int = now_ms
        """When it began; so long ago that it is over, if it has not begun."""
        if not self._empty_has_begun:
            self.start_ms = -_NEVER
        self._summarise()

    def record(self, value: float, now_ms: MonotonicMs) -> None:
        """Count a value (negative to take one back) now; `now_ms` never goes back."""
        if now_ms - self.start_ms >= self._options.window_ms:
            self._advance(now_ms)
        self.value += value
        self.last_ms = now_ms
        self.total += value

    def _advance(self, now_ms: MonotonicMs) -> None:
        if self.start_ms != -_NEVER:
            closed = self._closed + _SAMPLE.pack(self.start_ms, self.last_ms, self.value)
            # One more than the windows: the oldest may still overlap the measured time.
            self._closed = closed[-_SAMPLE.size * self._options.window_count :]
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0
        self._summarise()

    def _samples(self) -> list[tuple[int, int, float]]:
        """Start, last and value of each that has begun, the present one last."""
        found = list(_SAMPLE.iter_unpack(self._closed))
        if self.start_ms != -_NEVER:
            found.append((self.start_ms, self.last_ms, self.value))
        return found

    def _summarise(self) -> None:
        begun = self._samples()
        self.total: float = math.fsum([sample[2] for sample in begun])
        oldest_ms = last_ms = _NEVER
        if self._empty_has_begun:
            oldest_ms = min(sample[0] for sample in begun)
            last_ms = min(sample[1] for sample in begun)
        elif begun:  # in the order of time
            oldest_ms, last_ms, _ = begun[0]
        self._oldest_ms = oldest_ms
        self._obsolete_from_ms = last_ms + self._options.span_ms

    def _purge(self, now_ms: MonotonicMs) -> None:
        until_ms = now_ms - self._options.span_ms
        closed = self._closed
        if self._empty_has_begun:
            empty = (now_ms, now_ms, 0.0)
            self._closed = b"".join(
                _SAMPLE.pack(*(empty if sample[1] <= until_ms else sample))
                for sample in _SAMPLE.iter_unpack(closed)
            )
        else:
            kept_from = 0
            while kept_from < len(closed) and _SAMPLE.unpack_from(closed, kept_from)[1] <= until_ms:
                kept_from += _SAMPLE.size
            self._closed = closed[kept_from:]
        if self.last_ms <= until_ms:
            self.start_ms = now_ms if self._empty_has_begun else -_NEVER
            self.last_ms = now_ms
            self.value = 0.0
        self._summarise()

    def measured_ms(self, now_ms: MonotonicMs) -> int:
        """By how many milliseconds `total` is to be divided now; at least 1."""
        if now_ms >= self._obsolete_from_ms:
            self._purge(now_ms)
        window_ms = self._options.window_ms
        elapsed_ms = now_ms - self._oldest_ms
        if not self._empty_has_begun:
            return max(window_ms, elapsed_ms)
        missing = self._options.window_count - 1 - elapsed_ms // window_ms
        if missing > 0:
            elapsed_ms += missing * window_ms
        return max(1, elapsed_ms)

    def windows(self) -> tuple[tuple[MonotonicMs, float], ...]:
        """The samples in use, oldest first: begin and value. `measured_ms` drops obsolete ones."""
        found = [(MonotonicMs(start_ms), value) for start_ms, _, value in self._samples()]
        found.sort()
        return tuple(found)

    def rate(self, now_ms: MonotonicMs) -> float:
        """Units per second."""
        measured_ms = self.measured_ms(now_ms)  # first: it drops what is obsolete from `total`
        return self.total * 1_000 / measured_ms

    def delay_ms(self, limit: float, now_ms: MonotonicMs) -> int:
        """How long to wait for the rate to come down to the limit: 0 unless it is above.

        Rounded half up as Kafka does. At least until all is paid that was used above the limit,
        also if its samples are obsolete by then; this is not Kafka's.
        """
        measured_ms = self.measured_ms(now_ms)
        delay_ms = math.floor(delay_of(self.total * 1_000 / measured_ms, limit, measured_ms) + 0.5)
        if self._empty_has_begun:
            return delay_ms
        if self._debt is not None:
            self._debt.delay_ms(limit, 0.0, now_ms)
            if self._debt.is_in_use:
                return max(delay_ms, self._owed_ms(self._debt, limit, now_ms))
            self._debt = None
        if delay_ms:
            self._debt = TokenBucket(0, self._debt_max_ms)
            self._debt.delay_ms(limit, self.total - limit * measured_ms / 1_000, now_ms)
        self.unsettled = 0.0
        return delay_ms

    def _owed_ms(self, bucket: TokenBucket, limit: float, now_ms: MonotonicMs) -> int:
        """Take what was used since the last time; how long to wait by the bucket (KIP-599)."""
        used, self.unsettled = self.unsettled, 0.0
        return bucket.delay_ms(limit, used, now_ms)


class MutationRate(SampledRate):
    """The rate of changes of topics. Only the token bucket asks for delays (KIP-599)."""

    __slots__ = ()

    def delay_ms(self, limit: float, now_ms: MonotonicMs) -> int:
        """How long to wait until the bucket is no longer below zero."""
        if self._debt is None:
            self._debt = TokenBucket(self._options.span_ms)
        return self._owed_ms(self._debt, limit, now_ms)
