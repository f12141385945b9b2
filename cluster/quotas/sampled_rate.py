"""A rate over a row of small windows: Kafka's samples, two ways to divide them.

A sample begins with the first value after the one before it is a window old, and counts until its
last value is `window_count` windows old. Why there are two divisors: docs/decisions/005. What is
owed when a sample becomes obsolete is remembered: docs/decisions/034.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from struct import Struct
from typing import Any, Final

from cluster.model.clocks import MonotonicMs
from cluster.model.quota_delay import delay_of
from cluster.quotas.token_bucket import TokenBucket

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
    delay_ms_max: int | None = None
    """No delay is longer (KIP-124), so that some hundred connections never pay what they owe: where
    this is set, at most all windows' worth is owed."""
    span_ms: int = field(init=False)
    """The length of all windows."""
    empty_has_begun: bool = field(init=False)
    """Whether a sample begins when it is made, rather than with its first value."""

    def __post_init__(self) -> None:
        """Once, rather than for each request."""
        object.__setattr__(self, "span_ms", self.window_count * self.window_ms)
        object.__setattr__(self, "empty_has_begun", self.credit is WindowCredit.KAFKA)

    @property
    def fetch_seconds(self) -> float:
        """How many seconds' worth of its limit a client may fetch at once.

        Kafka: what it may use after a silence. Else a quarter of a window: a fetch waits until all
        of it is admitted, so what is left unused grows with its size.
        """
        windows = 0.25 if self.credit is WindowCredit.ELAPSED else max(1, self.window_count - 1)
        return windows * self.window_ms / 1_000


class _Earlier:
    """The samples before the present one: only who was used for more than a window has any."""

    __slots__ = ("oldest_last_ms", "oldest_ms", "samples", "total")

    def __init__(self, samples: bytes, total: float, oldest_ms: int, oldest_last_ms: int) -> None:
        self.samples = samples
        """The oldest first; bytes, as they take a third of what objects would."""
        self.total = total
        self.oldest_ms = oldest_ms
        """The earliest start of any, the present one too."""
        self.oldest_last_ms = oldest_last_ms
        """In none of them something was last recorded before that."""


class SampledRate:
    """The recent rate of one budget, in at most `window_count` + 1 samples.

    There may be two hundred thousand of these, most of which were used once: the sample that takes
    what is recorded now is part of the object, all else is made when it is needed.

    Invariant: `value` and `earlier.total` are the sum of the samples that have begun. To Kafka an
    empty sample has begun as well, when it was made or the value in it became obsolete.
    """

    __slots__ = (
        "_debt",
        "_earlier",
        "key",
        "last_ms",
        "options",
        "start_ms",
        "unsettled",
        "value",
    )

    def __init__(self, options: WindowOptions, now_ms: MonotonicMs, key: Any = None) -> None:
        self.options = options
        self._earlier: _Earlier | None = None
        self.key = key
        """What its owner knows it by."""
        self._debt: TokenBucket | None = None
        """Of whom is, or was, above its limit and has not paid for all of that."""
        self.unsettled = 0.0
        """What was used under a limit since the last `delay_ms`."""
        self.value = 0.0
        """Of the present sample."""
        self.last_ms: int = now_ms
        """When something was recorded in it."""
        self.start_ms: int = now_ms if options.empty_has_begun else -_NEVER
        """When it began; so long ago that it is over, if it has not begun."""

    @property
    def total(self) -> float:
        """The sum of the samples."""
        earlier = self._earlier
        return self.value if earlier is None else self.value + earlier.total

    def record(self, value: float, now_ms: MonotonicMs) -> None:
        """Count a value (negative to take one back) now; `now_ms` never goes back."""
        if now_ms - self.start_ms < self.options.window_ms:
            self.value += value
            self.last_ms = now_ms
        else:
            self._advance(now_ms)
            self.value = value

    def _advance(self, now_ms: MonotonicMs) -> None:
        earlier = self._earlier
        if self.start_ms != -_NEVER:
            closed = _SAMPLE.pack(self.start_ms, self.last_ms, self.value)
            # One more than the windows: the oldest may still overlap the measured time.
            most = _SAMPLE.size * self.options.window_count
            if earlier is None:
                self._earlier = _Earlier(closed, self.value, self.start_ms, self.last_ms)
            elif len(earlier.samples) < most:
                earlier.samples += closed
                earlier.total += self.value
            else:
                self._take_earlier((earlier.samples + closed)[-most:], now_ms, now_ms)
        self.start_ms = self.last_ms = now_ms

    def _earlier_samples(self) -> bytes:
        return b"" if self._earlier is None else self._earlier.samples

    def _samples(self) -> list[tuple[int, int, float]]:
        """Start, last and value of each that has begun, the present one last."""
        found = list(_SAMPLE.iter_unpack(self._earlier_samples()))
        if self.start_ms != -_NEVER:
            found.append((self.start_ms, self.last_ms, self.value))
        return found

    def _take_earlier(self, samples: bytes, start_ms: int, last_ms: int) -> None:
        """Take these as the earlier ones, beside a present one with these times."""
        if not samples:
            self._earlier = None
            return
        earlier = list(_SAMPLE.iter_unpack(samples))
        oldest_ms, oldest_last_ms, _ = earlier[0]  # in the order of time
        if self.options.empty_has_begun:
            oldest_ms = min(start_ms, *(sample[0] for sample in earlier))
            oldest_last_ms = min(last_ms, *(sample[1] for sample in earlier))
        total = math.fsum([sample[2] for sample in earlier])
        self._earlier = _Earlier(samples, total, oldest_ms, oldest_last_ms)

    def _purge(self, now_ms: MonotonicMs) -> None:
        options = self.options
        until_ms = now_ms - options.span_ms
        samples = self._earlier_samples()
        if options.empty_has_begun:
            empty = (now_ms, now_ms, 0.0)
            samples = b"".join(
                _SAMPLE.pack(*(empty if sample[1] <= until_ms else sample))
                for sample in _SAMPLE.iter_unpack(samples)
            )
        else:
            kept_from = 0
            while (
                kept_from < len(samples) and _SAMPLE.unpack_from(samples, kept_from)[1] <= until_ms
            ):
                kept_from += _SAMPLE.size
            samples = samples[kept_from:]
        if self.last_ms <= until_ms:
            self.start_ms = now_ms if options.empty_has_begun else -_NEVER
            self.last_ms = now_ms
            self.value = 0.0
        self._take_earlier(samples, self.start_ms, self.last_ms)

    def measured_ms(self, now_ms: MonotonicMs) -> int:
        """By how many milliseconds `total` is to be divided now; at least 1."""
        options, earlier = self.options, self._earlier
        oldest_last_ms = self.last_ms if earlier is None else earlier.oldest_last_ms
        if now_ms - oldest_last_ms >= options.span_ms:
            self._purge(now_ms)
            earlier = self._earlier
        elapsed_ms = now_ms - (self.start_ms if earlier is None else earlier.oldest_ms)
        window_ms = options.window_ms
        if not options.empty_has_begun:
            return elapsed_ms if window_ms < elapsed_ms < _NEVER else window_ms
        missing = options.window_count - 1 - elapsed_ms // window_ms
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
        measured_ms = self.measured_ms(now_ms)  # first: it drops what is obsolete from the samples
        earlier = self._earlier
        total = self.value if earlier is None else self.value + earlier.total
        delay_ms = math.floor(delay_of(total * 1_000 / measured_ms, limit, measured_ms) + 0.5)
        options = self.options
        if options.empty_has_begun:
            return delay_ms
        if self._debt is not None:
            self._debt.delay_ms(limit, 0.0, now_ms)
            if self._debt.is_in_use:
                return max(delay_ms, self._owed_ms(self._debt, limit, now_ms))
            self._debt = None
        if delay_ms:
            most_ms = math.inf if options.delay_ms_max is None else options.span_ms
            self._debt = TokenBucket(0, most_ms)
            self._debt.delay_ms(limit, total - limit * measured_ms / 1_000, now_ms)
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
            self._debt = TokenBucket(self.options.span_ms)
        return self._owed_ms(self._debt, limit, now_ms)
