"""How long a coordinator's partitions took to load. Pure.

Kafka: the sensor of `partition-load-time-max` and `partition-load-time-avg`.
"""

from collections import deque
from typing import Final, NamedTuple

from cluster.model.clocks import MonotonicMs

WINDOW_MS: Final = 30_000


class LoadFigures(NamedTuple):
    """Durations in milliseconds; 0 if nothing was loaded."""

    max_ms: int
    mean_ms: float


class LoadTimes:
    """The loads of the last `WINDOW_MS`, from the election until the shard serves requests."""

    def __init__(self) -> None:
        self._loads: deque[tuple[MonotonicMs, int]] = deque()
        """When each ended, and how long it took."""

    def add(self, took_ms: int, now_ms: MonotonicMs) -> None:
        """A partition is loaded."""
        self._forget_old(now_ms)
        self._loads.append((now_ms, took_ms))

    def figures(self, now_ms: MonotonicMs) -> LoadFigures:
        """The longest and the mean one."""
        self._forget_old(now_ms)
        took = [each for _, each in self._loads]
        return LoadFigures(max(took, default=0), sum(took) / max(1, len(took)))

    def _forget_old(self, now_ms: MonotonicMs) -> None:
        while self._loads and self._loads[0][0] <= now_ms - WINDOW_MS:
            self._loads.popleft()
