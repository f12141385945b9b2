"""Histograms of durations whose buckets double in width. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BUCKETS: Final = 26
"""Bucket i holds [2^(i-1), 2^i) microseconds; bucket 0 holds durations below 1. The last bucket is
open and begins at 16.8 seconds."""


def bucket_of(duration_us: int) -> int:
    """The bucket of a duration."""
    return min(duration_us.bit_length(), BUCKETS - 1)


def bound_us(bucket: int) -> int | None:
    """Exclusive upper bound of a bucket; None for the last."""
    return None if bucket == BUCKETS - 1 else 1 << bucket


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations: their sum in microseconds, and the number in each bucket."""

    sum_us: int = 0
    counts: tuple[int, ...] = (0,) * BUCKETS

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def mean_us(self) -> float:
        """The average; 0 without durations."""
        count = self.count
        return self.sum_us / count if count else 0.0

    def quantile_us(self, fraction: float) -> float:
        """An estimate of a quantile (0 to 1), linear within its bucket; 0 without durations."""
        return quantile_us(self.counts, fraction)

    def plus(self, other: "Histogram") -> "Histogram":
        """The sum of both histograms."""
        counts = tuple(one + more for one, more in zip(self.counts, other.counts, strict=True))
        return Histogram(self.sum_us + other.sum_us, counts)

    def since(self, earlier: "Histogram | None") -> "Histogram":
        """The durations since an earlier reading; all of them if the earlier one has more."""
        if earlier is None:
            return self
        counts = tuple(
            now - before for now, before in zip(self.counts, earlier.counts, strict=True)
        )
        if min(counts) < 0:
            return self  # the broker was restarted
        return Histogram(max(0, self.sum_us - earlier.sum_us), counts)


def quantile_us(counts: Sequence[int], fraction: float) -> float:
    """An estimate of a quantile, linear within its bucket; 0 without durations.

    The last bucket counts as its lower bound, so the true value may be higher.
    """
    wanted = sum(counts) * fraction
    seen = 0.0
    for bucket, count in enumerate(counts):
        if count and seen + count >= wanted:
            low = 0 if bucket == 0 else 1 << (bucket - 1)
            high = bound_us(bucket)
            return low if high is None else low + (high - low) * (wanted - seen) / count
        seen += count
    return 0.0
