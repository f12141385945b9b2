"""A rate over a row of small windows: Kafka's samples, with two ways to divide them.

A sample begins with the first value after the previous one is a window old, and counts until its
last value is `window_count` windows old. docs/decisions/005 says why there are two divisors, 034
why debts outlive their samples.
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
"""When a sample began, when it last grew, and its value."""


class WindowCredit(StrEnum):
    """How the time before a client's oldest sample counts."""

    ELAPSED = "elapsed"
    """Not at all: the divisor is the time since that sample began, at least one window."""
    KAFKA = "kafka"
    """As empty windows: the divisor is at least all windows but the current one, plus its elapsed
    part (Kafka's `Rate`), so a client that was idle may use what it did not use."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """`quota.window.num`, `quota.window.size.seconds` and `milena.quota.window.credit`."""

    window_count: int = 11
    window_ms: int = 1_000
    credit: WindowCredit = WindowCredit.ELAPSED
    delay_ms_max: int | None = None
    """The upper bound of a delay (KIP-124). With it, at most all windows' worth is owed; otherwise
    hundreds of connections could never pay their debt."""
    span_ms: int = field(init=False)
    """The length of all windows."""
    empty_has_begun: bool = field(init=False)
    """Whether a sample begins when it is created rather than with its first value."""

    def __post_init__(self) -> None:
        """Computed once rather than for each request."""
        object.__setattr__(self, "span_ms", self.window_count * self.window_ms)
        object.__setattr__(self, "empty_has_begun", self.credit is WindowCredit.KAFKA)

    @property
    def fetch_seconds(self) -> float:
        """How many seconds' worth of its limit a client may fetch at once.

        With Kafka's credit, what it may use after a silence. Otherwise a quarter of a window: a
        fetch waits until all of it is admitted, so unused time grows with its size.
        """
        windows = 0.25 if self.credit is WindowCredit.ELAPSED else max(1, self.window_count - 1)
        return windows * self.window_ms / 1_000


class _Earlier:
    """The samples before the current one; only budgets used for more than a window have any."""

    __slots__ = ("oldest_last_ms", "oldest_ms", "samples", "total")

    def __init__(self, samples: bytes, total: float, oldest_ms: int, oldest_last_ms: int) -> None:
        self.samples = samples
        """Oldest first; packed, since objects would take three times the memory."""
        self.total = total
        self.oldest_ms = oldest_ms
        """The earliest start of all samples, including the current one."""
        self.oldest_last_ms = oldest_last_ms
        """No sample last grew before this time."""


class SampledRate:
    """The recent rate of one budget, in at most `window_count` + 1 samples.

    There may be two hundred thousand of these, most of which were used once: the current sample is
    part of the object, everything else is created when it is needed.

    Invariant: `value` and `earlier.total` are the sum of the samples that have begun. For Kafka an
    empty sample has begun as well, when it was created or its value became obsolete.
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
        """The owner's key of it."""
        self._debt: TokenBucket | None = None
        """Set if it is or was above its limit and has not paid for all of that."""
        self.unsettled = 0.0
        """The usage under a limit since the last `delay_ms`."""
        self.value = 0.0
        """The value of the current sample."""
        self.last_ms: int = now_ms
        """When the current sample last grew."""
        self.start_ms: int = now_ms if options.empty_has_begun else -_NEVER
        """When the current sample began; if it has not, a time so long ago that it is over."""

    @property
    def total(self) -> float:
        """The sum of the samples."""
        earlier = self._earlier
        return self.value if earlier is None else self.value + earlier.total

    def record(self, value: float, now_ms: MonotonicMs) -> None:
        """Count a value, negative to take one back; `now_ms` never goes back."""
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
        """Start, last time and value of each sample that has begun, the current one last."""
        found = list(_SAMPLE.iter_unpack(self._earlier_samples()))
        if self.start_ms != -_NEVER:
            found.append((self.start_ms, self.last_ms, self.value))
        return found

    def _take_earlier(self, samples: bytes, start_ms: int, last_ms: int) -> None:
        """Store these as the earlier samples, beside a current one with these times."""
        if not samples:
            self._earlier = None
            return
        earlier = list(_SAMPLE.iter_unpack(samples))
        oldest_ms, oldest_last_ms, _ = earlier[0]  # ordered by time
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
        """The divisor of `total` in milliseconds; at least 1."""
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
        measured_ms = self.measured_ms(
            now_ms
        )  # first, since it drops obsolete samples from `total`
        return self.total * 1_000 / measured_ms

    def delay_ms(self, limit: float, now_ms: MonotonicMs) -> int:
        """The delay until the rate has fallen to the limit; 0 unless it is above.

        Rounded half up as in Kafka. The delay also lasts until all usage above the limit is paid
        for, even if its samples are obsolete by then; this is not in Kafka.
        """
        measured_ms = self.measured_ms(now_ms)  # first, since it drops obsolete samples
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
        """Add the usage since the last call to the bucket; returns its delay (KIP-599)."""
        used, self.unsettled = self.unsettled, 0.0
        return bucket.delay_ms(limit, used, now_ms)


class MutationRate(SampledRate):
    """The rate of topic changes. Its delays come from the token bucket alone (KIP-599)."""

    __slots__ = ()

    def delay_ms(self, limit: float, now_ms: MonotonicMs) -> int:
        """The delay until the bucket is no longer below zero."""
        if self._debt is None:
            self._debt = TokenBucket(self.options.span_ms)
        return self._owed_ms(self._debt, limit, now_ms)
