"""Types for the times of two clocks, so that a type checker keeps them apart."""

from typing import NamedTuple, NewType

MonotonicMs = NewType("MonotonicMs", int)
"""Milliseconds of a clock that never jumps and counts from the machine's start: for durations and
deadlines."""

WallMs = NewType("WallMs", int)
"""Milliseconds since 1970-01-01 UTC on the machine's calendar clock, which may jump: for timestamps
of records, for display, and for times that must outlive a restart of the machine."""


class Moment(NamedTuple):
    """The time of an event: the monotonic clock for deadlines, wall time to store or to show."""

    monotonic_ms: MonotonicMs
    wall_ms: WallMs
