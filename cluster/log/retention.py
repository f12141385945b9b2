"""Decides which segments of a log to delete, and why. Pure; `log_retention` runs it.

The rules are those of Kafka's `UnifiedLog.deleteOldSegments`: first the segments below the log
start offset, then, if `cleanup.policy` has `delete`, those beyond `retention.bytes`, then those
older than `retention.ms`. Each rule starts at the oldest segment and stops at the first one to
keep.
"""

import enum
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from cluster.log.options import LogOptions
from cluster.log.segment import Segment
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset

FUTURE_MS: Final = 3_600_000
"""A timestamp this far ahead of the clock is worth a line: Kafka's default for
`message.timestamp.after.max.ms`."""
_LAST_MS: Final = 253_402_300_799_000
"""The end of the year 9999, the last that `datetime` knows."""


class Reason(enum.Enum):
    """Why segments are deleted."""

    LOG_START = "log start offset"
    SIZE = "log retention size"
    AGE = "log retention time"


REASONS: Final = (Reason.LOG_START, Reason.SIZE, Reason.AGE)
"""In the order in which they are looked at."""


class LogState(NamedTuple):
    """The state of a log that the decision depends on."""

    segments: Sequence[Segment]
    """Oldest first, the last one active."""
    size_bytes: int
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    options: LogOptions


ModifiedMs = Callable[[Segment], int]
"""When a segment's file was last changed, in milliseconds since 1970."""


def count_deletable(
    state: LogState, reason: Reason, wall_ms: WallMs, modified_ms: ModifiedMs, most: int
) -> int:
    """How many of the oldest segments to delete for a reason, at most `most`.

    The active one counts too; it must be closed before its deletion. Segments that reach or pass
    the high watermark stay, and so does an active segment without records.
    """
    segments, options = state.segments, state.options
    if reason is not Reason.LOG_START and not options.is_deleted:
        return 0
    surplus = state.size_bytes - options.retention_bytes
    if reason is Reason.SIZE and (options.retention_bytes < 0 or surplus < 0):
        return 0
    if reason is Reason.AGE and options.retention_ms < 0:
        return 0
    count = 0
    for segment in islice(segments, most):
        is_active = count + 1 == len(segments)
        end = state.log_end_offset if is_active else segments[count + 1].base_offset
        if end > state.high_watermark or (is_active and not segment.file.size_bytes):
            break
        if reason is Reason.LOG_START:
            goes = not is_active and end <= state.log_start_offset
        elif reason is Reason.SIZE:
            surplus -= segment.file.size_bytes
            goes = surplus >= 0
        else:
            goes = wall_ms - largest_timestamp(segment, modified_ms) > options.retention_ms
        if not goes:
            break
        count += 1
    return count


def largest_timestamp(segment: Segment, modified_ms: ModifiedMs) -> int:
    """The largest timestamp of a segment's records, or the file's modification time without one."""
    if segment.max_timestamp_ms >= 0:
        return segment.max_timestamp_ms
    return modified_ms(segment)


def reason_text(reason: Reason, state: LogState, *, has_timestamps: bool) -> str:
    """The reason for a deletion, in Kafka's words; `state` is that of the log after it."""
    options = state.options
    if reason is Reason.LOG_START:
        return f"due to log start offset {state.log_start_offset} breach"
    if reason is Reason.SIZE:
        return (
            f"due to log retention size {options.retention_bytes} breach."
            f" Log size after deletion will be {state.size_bytes}."
        )
    told_by = (
        "largest record timestamp in the segment"
        if has_timestamps
        else "last modified time of the segment"
    )
    return f"due to log retention time {options.retention_ms}ms breach based on the {told_by}"


def pinned_until(state: LogState, wall_ms: WallMs) -> str | None:
    """The time until which a future timestamp keeps the log's oldest segment, and so all of it.

    None if no timestamp lies in the future.
    """
    options, oldest = state.options, state.segments[0]
    if (
        not options.is_deleted
        or options.retention_ms < 0
        or oldest.max_timestamp_ms - wall_ms < FUTURE_MS
    ):
        return None
    until_ms = min(oldest.max_timestamp_ms + options.retention_ms, _LAST_MS)
    return datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
