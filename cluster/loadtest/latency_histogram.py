"""Latencies in buckets of equal relative width, merged exactly by addition. Pure.

As in HdrHistogram: microseconds below 256 have a bucket each; above that every doubling is divided
into 128 buckets, so that a percentile is off by at most half a bucket: 0.4 %.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

_EXACT_BITS: Final = 8
_EXACT: Final = 1 << _EXACT_BITS
_PER_DOUBLING_BITS: Final = _EXACT_BITS - 1


def bucket_of(value: int) -> int:
    """The bucket of a value of 0 or more."""
    if value < _EXACT:
        return value
    exponent = value.bit_length() - _EXACT_BITS
    return (exponent << _PER_DOUBLING_BITS) + (value >> exponent)


def middle_of(bucket: int) -> float:
    """The middle of the range of values that a bucket counts."""
    if bucket < _EXACT:
        return float(bucket)
    exponent = (bucket >> _PER_DOUBLING_BITS) - 1
    low = (bucket - (exponent << _PER_DOUBLING_BITS)) << exponent
    return low + ((1 << exponent) - 1) / 2


class LatencyHistogram:
    """Latencies in microseconds. Count, sum and maximum are exact, percentiles within 0.4 %."""

    __slots__ = ("count", "counts", "max_us", "sum_us")

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.counts: dict[int, int] = {}
        self.count = 0
        self.sum_us = 0
        self.max_us = 0
        for value in values:
            self.record(value)

    def record(self, value_us: int) -> None:
        """Count one latency; a negative one, from the clocks of two cores, counts as 0."""
        value_us = max(value_us, 0)
        if value_us < _EXACT:
            bucket = value_us
        else:
            exponent = value_us.bit_length() - _EXACT_BITS
            bucket = (exponent << _PER_DOUBLING_BITS) + (value_us >> exponent)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.count += 1
        self.sum_us += value_us
        self.max_us = max(self.max_us, value_us)

    def add(self, other: "LatencyHistogram") -> None:
        """Add the counts of the other one."""
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.count += other.count
        self.sum_us += other.sum_us
        self.max_us = max(self.max_us, other.max_us)

    def percentile_us(self, percent: float) -> float:
        """The percentile (nearest rank) in microseconds; 0 without values."""
        # Rounded, because 99.9 % of 41,000 is slightly above 40,959 in floats.
        rank = max(1, math.ceil(round(self.count * percent / 100, 6)))
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= rank:
                return min(middle_of(bucket), float(self.max_us))
        return 0.0

    @property
    def average_us(self) -> float:
        """The exact mean; 0 without values."""
        return self.sum_us / self.count if self.count else 0.0

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        buckets = sorted(self.counts.items())
        return {"sum_us": self.sum_us, "max_us": self.max_us, "buckets": buckets}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The histogram that another process has counted."""
        one = cls()
        one.counts = dict(document["buckets"])
        one.count = sum(one.counts.values())
        one.sum_us = document["sum_us"]
        one.max_us = document["max_us"]
        return one
