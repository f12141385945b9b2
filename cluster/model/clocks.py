"""Times of the two clocks, which never mix: a type for each, so that a checker keeps them apart."""

from typing import NamedTuple, NewType

MonotonicMs = NewType("MonotonicMs", int)
"""Milliseconds of a clock that never jumps, of one machine since it started: for durations and
deadlines."""

WallMs = NewType("WallMs", int)
"""Milliseconds since 1970-01-01 UTC, as the machine's calendar has them; may jump. For timestamps
of records, for what is shown, and for what has to outlive the machine's next start."""


class Moment(NamedTuple):
    """The time of an event: the monotonic clock for deadlines, wall time to store or to show."""

    monotonic_ms: MonotonicMs
    wall_ms: WallMs
