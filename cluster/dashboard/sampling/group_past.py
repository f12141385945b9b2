"""The lag of groups over the last hours, and the time that they spent rebalancing. Pure."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.views.group_lags import GroupLags, rebalancing_ms

GROUPS_MAX: Final = 500
"""Groups with a past: the first that come, until they have been gone for the whole time. The arrays
of each take 5 KiB."""
FINE_S: Final = 6.0
"""Brokers examine groups every 5 s, and the sampler reads every 2 s."""
COARSE_S: Final = 60.0
_FINE_SAMPLES: Final = 150
_COARSE_SAMPLES: Final = 360
_RATE_OVER_MS: Final = 62_000
_RATE_SAMPLES_MIN: Final = 3
_ERRORS: Final = 3.0
"""A slope of fewer standard errors is none."""
_LATE: Final = 2.5
"""After this many steps without a sample there is a gap."""


class GroupTrend(NamedTuple):
    """The last minutes of one group."""

    lag_per_s: float | None
    """How fast its lag grows, or falls if negative, in the last minute; None if unknown."""
    rebalanced_ms: float
    watched_ms: float
    """The time, at most 15 minutes, in which it rebalanced for `rebalanced_ms`."""


class GroupPast:
    """Lags at two resolutions: 15 minutes and 6 hours."""

    def __init__(self) -> None:
        self._fine = _Samples(FINE_S, _FINE_SAMPLES)
        self._coarse = _Samples(COARSE_S, _COARSE_SAMPLES)
        self._rebalanced = _Samples(FINE_S, _FINE_SAMPLES)
        self._seen: dict[str, int] = {}
        """The time of the last record of each group whose rebalancing has been counted."""
        self._pending: dict[str, float] = {}

    def take(self, now_ms: int, groups: Sequence[GroupLags]) -> None:
        """Take a reading at that wall-clock time; most are between two samples."""
        self._count(groups)
        lags = {str(each.fields["group"]): float(each.lag) for each in groups}
        if self._rebalanced.is_due(now_ms):
            self._rebalanced.add(now_ms, self._pending)
            self._pending = dict.fromkeys(lags, 0.0)
        for samples in (self._fine, self._coarse):
            if samples.is_due(now_ms):
                samples.add(now_ms, lags)

    def _count(self, groups: Iterable[GroupLags]) -> None:
        """Add the time that groups rebalanced in intervals that were not counted yet."""
        before, self._seen = self._seen, {}
        for group in groups:
            name, at_ms = str(group.fields["group"]), int(group.fields["ts"])
            self._seen[name] = at_ms
            if before.get(name) != at_ms:
                self._pending[name] = self._pending.get(name, 0.0) + rebalancing_ms(group.fields)

    def trend(self, group: str) -> GroupTrend:
        """How a group has done lately."""
        times, lags = self._fine.of(group)
        known = [(at, lag) for at, lag in zip(times, lags, strict=True) if lag is not None]
        recent = [each for each in known if each[0] >= known[-1][0] - _RATE_OVER_MS]
        per_s = slope_per_s(recent)
        _, spent = self._rebalanced.of(group)
        counted = [each for each in spent if each is not None]
        return GroupTrend(per_s, sum(counted), len(counted) * FINE_S * 1_000)

    def to_json(self, group: str, span_s: float, since_ms: int) -> dict[str, Any]:
        """The lag after that time, with the step: fine if 15 minutes suffice."""
        samples = self._fine if span_s <= FINE_S * _FINE_SAMPLES else self._coarse
        times, lags = samples.of(group)
        first = next((at for at, time in enumerate(times) if time > since_ms), len(times))
        return {
            "step_s": samples.step_s,
            "ts": times[first:],
            "values": {"lag": lags[first:]} if times[first:] else {},
        }


def slope_per_s(samples: Sequence[tuple[int, float]]) -> float | None:
    """How fast the values rise with their times in ms; 0 if they only go up and down.

    A lag does so in time with the commits. None for too few samples.
    """
    count = len(samples)
    if count < _RATE_SAMPLES_MIN:
        return None
    middle_ms = sum(at for at, _ in samples) / count
    middle = sum(value for _, value in samples) / count
    spread = sum((at - middle_ms) ** 2 for at, _ in samples)
    slope = sum((at - middle_ms) * (value - middle) for at, value in samples) / spread
    rest = sum((value - middle - slope * (at - middle_ms)) ** 2 for at, value in samples)
    error = math.sqrt(rest / (count - 2) / spread)
    return slope * 1_000 if abs(slope) > _ERRORS * error else 0.0


class _Samples:
    """A value of each group at each sample, in arrays that are used in a circle."""

    def __init__(self, step_s: float, size: int) -> None:
        self.step_s = step_s
        self._size = size
        self._times = [0] * size
        self._count = 0
        self._length = 0
        self._values: dict[str, array[float]] = {}

    @property
    def _last_ms(self) -> int:
        return self._times[(self._count - 1) % self._size]

    def is_due(self, now_ms: int) -> bool:
        """Whether the last sample is a step old; half a second less is enough."""
        if not self._length:
            return True
        return not 0 <= now_ms - self._last_ms < self.step_s * 1_000 - 500

    def add(self, now_ms: int, values: Mapping[str, float]) -> None:
        """Add a sample. If the clock was set back, later ones are dropped."""
        while self._length and self._last_ms >= now_ms:
            self._count -= 1
            self._length -= 1
        step_ms = int(self.step_s * 1_000)
        if self._length and now_ms - self._last_ms > _LATE * step_ms:
            self._put(self._last_ms + step_ms, {})
        self._put(now_ms, values)

    def _put(self, now_ms: int, values: Mapping[str, float]) -> None:
        at = self._count % self._size
        self._times[at] = now_ms
        for kept in self._values.values():
            kept[at] = math.nan
        for name, value in values.items():
            if name not in self._values:
                if len(self._values) >= GROUPS_MAX:
                    continue
                self._values[name] = array("d", [math.nan]) * self._size
            self._values[name][at] = value
        self._count += 1
        self._length = min(self._length + 1, self._size)
        if at == self._size - 1:
            self._values = {
                name: kept for name, kept in self._values.items() if not all(map(math.isnan, kept))
            }

    def of(self, name: str) -> tuple[list[int], list[float | None]]:
        """Times and values, oldest first; None is a gap. Empty for an unknown group."""
        kept = self._values.get(name)
        if kept is None:
            return [], []
        places = [at % self._size for at in range(self._count - self._length, self._count)]
        values = [None if math.isnan(kept[at]) else kept[at] for at in places]
        return [self._times[at] for at in places], values
