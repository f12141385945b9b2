"""A histogram of latencies whose buckets double in width. Pure."""

from collections.abc import Sequence
from typing import Final, Protocol

BUCKETS: Final = 20
"""Bucket i holds [2^(i-1), 2^i) microseconds, bucket 0 what is below 1; the last one is open."""


class Counts(Protocol):
    """The storage of the buckets: a list, or slots of a stats file."""

    def __getitem__(self, index: int, /) -> int:
        """One count."""
        ...

    def __setitem__(self, index: int, count: int, /) -> None:
        """Store one count."""
        ...


def bucket_of(duration_us: int) -> int:
    """Which bucket a duration falls into."""
    return min(duration_us.bit_length(), BUCKETS - 1)


def bound_us(bucket: int) -> int | None:
    """Exclusive upper bound of a bucket; None for the last."""
    return None if bucket == BUCKETS - 1 else 1 << bucket


def observe(counts: Counts, first: int, duration_us: int) -> None:
    """Count one duration in the buckets that begin at `first`."""
    bucket = duration_us.bit_length()
    counts[first + (bucket if bucket < BUCKETS else BUCKETS - 1)] += 1


def quantile_us(counts: Sequence[int], fraction: float) -> float:
    """An estimate of a quantile, linear within its bucket; 0 without observations.

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
