"""Which segments of a log are to be deleted, and why. Pure: `log_retention` looks and deletes.

As Kafka's `UnifiedLog.deleteOldSegments`: first those below the log start offset, then, where
`cleanup.policy` has `delete`, what is beyond `retention.bytes`, then what is older than
`retention.ms`; each time from the oldest on, up to the first that stays.
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
    """What the decision needs to know of a log."""

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
    """How many of the oldest segments go for a reason, `most` or fewer.

    The active one counts too: it must be closed before it is deleted. Nothing goes that reaches up
    to the high watermark or beyond it, nor an active segment without a record.
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
    """The largest timestamp of a segment's records; without one, when its file was changed."""
    if segment.max_timestamp_ms >= 0:
        return segment.max_timestamp_ms
    return modified_ms(segment)


def reason_text(reason: Reason, state: LogState, *, has_timestamps: bool) -> str:
    """Why segments were deleted, in Kafka's words; `state` is that of the log without them."""
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
    """Until when the log's oldest segment, and so all of it, stays because of a timestamp that lies
    in the future; None where it does not.
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
