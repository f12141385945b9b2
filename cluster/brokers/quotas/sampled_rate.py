"""A rate over a row of small windows, with Kafka's arithmetic (`SampledStat`, `Rate`; QTA5).

A sample begins with the first value after the one before it is a window old, and counts until its
last value is `window_count` windows old. The rate divides by the time since the oldest sample
began, but at least by all windows except the present one plus the part of it that has passed: so
a client that was silent may use what it did not use.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """`quota.window.num` windows of `quota.window.size.seconds`."""

    window_count: int = 11
    window_ms: int = 1_000

    @property
    def burst_seconds(self) -> float:
        """For how many seconds' worth of its limit a client that was silent may send at once."""
        return max(1, self.window_count - 1) * self.window_ms / 1_000


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """The recent rate of one budget. Its size is fixed: `window_count` + 1 samples.

    Invariant: `total` is the sum of the samples, `_oldest_ms` the earliest of their starts, and
    no sample is obsolete before `_obsolete_from_ms`.
    """

    __slots__ = (
        "_current",
        "_obsolete_from_ms",
        "_oldest_ms",
        "_options",
        "_samples",
        "last_ms",
        "total",
    )

    def __init__(self, options: WindowOptions, now_ms: int) -> None:
        self._options = options
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self.total = 0.0
        self.last_ms = now_ms
        self._oldest_ms = now_ms
        self._obsolete_from_ms = now_ms + options.window_count * options.window_ms

    def record(self, value: float, now_ms: int) -> None:
        """Count a value (negative to take one back) now; `now_ms` never goes back."""
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._options.window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms
        self.last_ms = now_ms
        self.total += value

    def _advance(self, now_ms: int) -> _Sample:
        samples = self._samples
        # One more than the windows: the oldest may still overlap the measured time.
        self._current = (self._current + 1) % (self._options.window_count + 1)
        if self._current == len(samples):
            samples.append(_Sample(now_ms))
        else:
            samples[self._current].reset(now_ms)
        self._summarise()
        return samples[self._current]

    def _summarise(self) -> None:
        samples = self._samples
        self.total = math.fsum(sample.value for sample in samples)
        self._oldest_ms = min(sample.start_ms for sample in samples)
        expiry_ms = self._options.window_count * self._options.window_ms
        self._obsolete_from_ms = min(sample.last_ms for sample in samples) + expiry_ms

    def _purge(self, now_ms: int) -> None:
        expiry_ms = self._options.window_count * self._options.window_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= expiry_ms:
                sample.reset(now_ms)
        self._summarise()

    def measured_ms(self, now_ms: int) -> int:
        """By how many milliseconds `total` is to be divided now; at least 1."""
        if now_ms >= self._obsolete_from_ms:
            self._purge(now_ms)
        window_ms = self._options.window_ms
        elapsed_ms = now_ms - self._oldest_ms
        missing = self._options.window_count - 1 - elapsed_ms // window_ms
        if missing > 0:
            elapsed_ms += missing * window_ms
        return max(1, elapsed_ms)

    def rate(self, now_ms: int) -> float:
        """Units per second."""
        measured_ms = self.measured_ms(now_ms)  # first: it drops what is obsolete from `total`
        return self.total * 1_000 / measured_ms

    def delay_ms(self, limit: float, now_ms: int) -> int:
        """How long to wait until the rate is down at the limit: 0 unless it is above.

        X = (observed - limit) / limit x measured time, rounded half up as Kafka does.
        """
        measured_ms = self.measured_ms(now_ms)
        rate = self.total * 1_000 / measured_ms
        if rate <= limit:
            return 0
        return math.floor((rate - limit) / limit * measured_ms + 0.5)
