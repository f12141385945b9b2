"""Tracks up to which offset a log is synced, and when its next sync is due. Pure.

`flushing` does the syncs.
"""

from cluster.log.flushing import FlushTarget
from cluster.log.options import NO_LIMIT, LogOptions
from cluster.model.clocks import MonotonicMs
from cluster.model.ids import Offset


class Durability:
    """The synced part of one log, updated by appends, truncations and syncs.

    Invariant: everything below `recovery_point` is on disk.
    """

    def __init__(self, recovery_point: Offset) -> None:
        self.recovery_point = recovery_point
        self._flush_messages = self._flush_ms = NO_LIMIT
        self.flush_at = NO_LIMIT
        """The log end at which `flush.messages` is reached. An append that reaches it is synced
        before it is answered."""
        self.cuts = 0
        """How often the log was truncated."""
        self._lowest_cut = recovery_point
        self._synced_at_ms: MonotonicMs | None = None
        """When `is_due` last found the log synced, or a sync due."""

    def take_options(self, options: LogOptions) -> None:
        self._flush_messages = options.flush_messages
        self._flush_ms = options.flush_ms
        self._move_to(self.recovery_point)

    def _move_to(self, recovery_point: Offset) -> None:
        self.recovery_point = recovery_point
        self.flush_at = recovery_point + self._flush_messages

    def is_due(self, log_end_offset: Offset, active_base_offset: int, now_ms: MonotonicMs) -> bool:
        """Whether `flush.messages` or `flush.ms` is reached, or a closed segment is not synced.

        The caller polls this and syncs when it is due. As in Kafka, `flush.ms` counts from the last
        sync, so no record waits longer than that.
        """
        unsynced = log_end_offset - self.recovery_point
        if unsynced <= 0 or self._synced_at_ms is None:
            self._synced_at_ms = now_ms
        is_due = unsynced > 0 and (
            unsynced >= self._flush_messages
            or now_ms - self._synced_at_ms >= self._flush_ms
            or self.recovery_point < active_base_offset
        )
        if is_due:
            self._synced_at_ms = now_ms
        return is_due

    def on_synced(self, target: FlushTarget) -> None:
        """Record a finished sync.

        If the log was truncated during the sync, the records above that offset may have changed.
        """
        end = target.offset if target.cuts == self.cuts else min(target.offset, self._lowest_cut)
        self._move_to(max(self.recovery_point, end))

    def on_cut(self, end: Offset) -> None:
        """Record a truncation to `end`."""
        self._lowest_cut = min(self._lowest_cut, end) if self.cuts else end
        self.cuts += 1
        self._move_to(min(self.recovery_point, end))

    def on_start_moved(self, log_start_offset: Offset) -> None:
        """Records before the new log start no longer need a sync."""
        self._move_to(max(self.recovery_point, log_start_offset))

    def restart_at(self, offset: Offset) -> None:
        """Record that the log was emptied; its next record gets `offset`."""
        self.on_cut(offset)
        self._move_to(offset)
