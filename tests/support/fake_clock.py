"""A clock that a test sets."""

from cluster.model.clocks import MonotonicMs, WallMs


class FakeClock:
    """Two clocks that stand still until `pass_time`."""

    def __init__(self, now_ms: int = 1_000, wall_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms
        self._wall_offset_ms = wall_ms - now_ms

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self.now_ms)

    def monotonic_us(self) -> int:
        return self.now_ms * 1_000

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def thread_cpu_ns(self) -> int:
        return 0

    def wall_ms(self) -> WallMs:
        return WallMs(self.now_ms + self._wall_offset_ms)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
