"""Determines the cleanable range of a log and whether a cleaning is worthwhile. Pure.

Kafka: `LogCleanerManager.cleanableOffsets`, `LogToClean`, `grabFilthiestCompactedLog`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.log.options import NO_LIMIT, CleaningPolicy
from cluster.model.clocks import WallMs
from cluster.model.ids import Offset


class LogBounds(NamedTuple):
    """The start of a log and the limit up to which it may be cleaned."""

    log_start_offset: Offset
    log_end_offset: Offset
    first_dirty_offset: Offset
    """Up to where earlier cleanings came."""
    stable_offset: Offset
    """The last stable offset, so every transaction below it has ended."""


class Cleanable(NamedTuple):
    """The sizes of the range that one cleaning would read, and of its dirty part."""

    first_dirty_offset: Offset
    upper_offset: Offset
    """Base offset of the first segment that cannot be cleaned."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """A dirty record is older than `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        """The dirty part of the range, between 0 and 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_while(self, policy: CleaningPolicy) -> bool:
        """Whether the log is dirty enough, or was dirty long enough."""
        return self.dirty_bytes > 0 and (
            self.is_overdue or self.dirty_ratio > policy.min_dirty_ratio
        )


class SegmentFacts(NamedTuple):
    """Queries about segments; an answer may require a file access, so few are asked."""

    size_bytes: Callable[[int], int]
    largest_timestamp_ms: Callable[[int], int]
    """Of its records; the time it was last written, where they have none."""
    first_timestamp_ms: Callable[[int], int]
    """Of its first batch; -1 without one."""


def first_dirty_offset(bounds: LogBounds) -> Offset:
    """The offset at which cleaning begins; the log start if the checkpoint lies outside of the
    log."""
    if bounds.log_start_offset <= bounds.first_dirty_offset <= bounds.log_end_offset:
        return bounds.first_dirty_offset
    return bounds.log_start_offset


def find_cleanable(
    base_offsets: Sequence[Offset],
    facts: SegmentFacts,
    bounds: LogBounds,
    policy: CleaningPolicy,
    wall_ms: WallMs,
) -> Cleanable | None:
    """The cleanable range of a log with segments at these offsets; the last one is active.

    None if nothing of the dirty part can be cleaned. `facts` take a segment's slot.
    """
    first_dirty = first_dirty_offset(bounds)
    active = len(base_offsets) - 1
    limit = min(bounds.stable_offset, base_offsets[active])
    if limit <= first_dirty:
        return None
    # The segment with the first dirty offset counts as dirty, and also as clean unless that offset
    # is its base, as in Kafka.
    dirty_slot = max(0, bisect_right(base_offsets, first_dirty, 0, active) - 1)
    upper_slot = active
    for slot in range(dirty_slot, active):
        # A segment is cleaned only if it lies entirely below the limit.
        if base_offsets[slot + 1] > limit or (
            policy.min_lag_ms > 0 and facts.largest_timestamp_ms(slot) > wall_ms - policy.min_lag_ms
        ):
            upper_slot = slot
            break
    if base_offsets[upper_slot] <= first_dirty:
        return None
    clean_slots = range(bisect_left(base_offsets, first_dirty, 0, active))
    return Cleanable(
        first_dirty,
        base_offsets[upper_slot],
        sum(facts.size_bytes(slot) for slot in clean_slots),
        sum(facts.size_bytes(slot) for slot in range(dirty_slot, upper_slot)),
        _is_overdue(range(dirty_slot, active), facts, policy.max_lag_ms, wall_ms),
    )


def _is_overdue(slots: range, facts: SegmentFacts, max_lag_ms: int, wall_ms: WallMs) -> bool:
    if max_lag_ms >= NO_LIMIT:
        return False
    deadline_ms = wall_ms - max_lag_ms
    return any(0 < facts.first_timestamp_ms(slot) < deadline_ms for slot in slots)
