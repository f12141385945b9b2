"""Reads the time. Pure code takes `now_ms` as an argument instead."""

import time
from typing import Protocol

from cluster.model.clocks import MonotonicMs, WallMs


class Clock(Protocol):
    """Two clocks that must not be mixed: one for durations and deadlines, one for record
    timestamps."""

    def monotonic_ms(self) -> MonotonicMs:
        """Milliseconds of a monotonic clock, for durations and deadlines."""
        ...

    def monotonic_us(self) -> int:
        """Monotonic microseconds, for measuring parts of a turn."""
        ...

    def monotonic_ns(self) -> int:
        """Monotonic nanoseconds, without a Python function call, for each request."""
        ...

    def thread_cpu_ns(self) -> int:
        """CPU nanoseconds of the calling thread; takes a system call."""
        ...

    def wall_ms(self) -> WallMs:
        """Milliseconds since 1970-01-01 UTC, for record timestamps and display."""
        ...

    def wall_ns(self) -> int:
        """Wall-clock nanoseconds, without a Python function call, for each request."""
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
