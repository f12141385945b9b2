"""The only place that reads the time. Pure code takes `now_ms` as an argument instead."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks that never mix: durations and deadlines, and record timestamps."""

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that never jumps; for durations and deadlines."""
        ...

    def monotonic_us(self) -> int:
        """The same in microseconds; for how long a request keeps the thread."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; for record timestamps and display."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic_ms(self) -> int:
        """CLOCK_MONOTONIC in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        """CLOCK_MONOTONIC in microseconds."""
        return time.monotonic_ns() // 1_000

    def wall_ms(self) -> int:
        """CLOCK_REALTIME in milliseconds."""
        return time.time_ns() // 1_000_000
