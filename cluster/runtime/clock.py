"""The only place that reads the time. Pure code takes `now_ms` as an argument instead."""

import time
from typing import Protocol

from cluster.model.clocks import MonotonicMs, WallMs


class Clock(Protocol):
    """Two clocks that never mix: durations and deadlines, and record timestamps."""

    def monotonic_ms(self) -> MonotonicMs:
        """Milliseconds of a clock that never jumps; for durations and deadlines."""
        ...

    def monotonic_us(self) -> int:
        """The same in microseconds; for how long a part of a turn takes."""
        ...

    def monotonic_ns(self) -> int:
        """The same in nanoseconds, without a call of a Python function: for each request."""
        ...

    def thread_cpu_ns(self) -> int:
        """For how many nanoseconds a processor worked for the calling thread; a system call."""
        ...

    def wall_ms(self) -> WallMs:
        """Milliseconds since 1970-01-01 UTC; for record timestamps and display."""
        ...

    def wall_ns(self) -> int:
        """The same in nanoseconds, without a call of a Python function: for each request."""
        ...


class SystemClock:
    """The machine's own clocks."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    thread_cpu_ns = staticmethod(time.thread_time_ns)
    wall_ns = staticmethod(time.time_ns)

    def monotonic_ms(self) -> MonotonicMs:
        """CLOCK_MONOTONIC in milliseconds."""
        return MonotonicMs(time.monotonic_ns() // 1_000_000)

    def monotonic_us(self) -> int:
        """CLOCK_MONOTONIC in microseconds."""
        return time.monotonic_ns() // 1_000

    def wall_ms(self) -> WallMs:
        """CLOCK_REALTIME in milliseconds."""
        return WallMs(time.time_ns() // 1_000_000)
