"""The latency of requests in the three figures that ZooKeeper's tools show. Pure."""


class Latency:
    """Minimum, mean and maximum since the start, in milliseconds."""

    def __init__(self) -> None:
        self.max_ms = 0
        self.last_ms = 0
        self._min_ms: int | None = None
        self._sum_ms = 0
        self._count = 0

    def record(self, latency_ms: int, count: int) -> None:
        """Record `count` replies with the same latency."""
        if count == 0:
            return
        self.last_ms = latency_ms
        self.max_ms = max(self.max_ms, latency_ms)
        self._min_ms = latency_ms if self._min_ms is None else min(self._min_ms, latency_ms)
        self._sum_ms += latency_ms * count
        self._count += count

    @property
    def min_ms(self) -> int:
        return self._min_ms or 0

    @property
    def average_ms(self) -> float:
        return self._sum_ms / self._count if self._count else 0.0
