"""Deadlines of a shard: many alarms in one heap, most of which are postponed. Pure.

Each heartbeat postpones an alarm, which must cost almost nothing: the heap keeps the old time and
reschedules the alarm only when that has come.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from cluster.model.clocks import Moment, MonotonicMs

DROPPED_MAX: Final = 1_000
"""So many useless alarms, some 200 KiB, are always tolerated in the heap."""


class Alarm:
    """Calls `action` once at its deadline, which is None while the alarm is not set."""

    __slots__ = ("_alarms", "action", "deadline_ms", "scheduled_ms")

    def __init__(self, alarms: "Alarms", action: Callable[[Moment], None]) -> None:
        self._alarms = alarms
        self.action = action
        self.deadline_ms: MonotonicMs | None = None
        self.scheduled_ms: MonotonicMs | None = None
        """Its time in the heap, which is never later than the deadline."""

    def set(self, deadline_ms: MonotonicMs) -> None:
        """Call the action at this time; replaces an earlier setting."""
        self.deadline_ms = deadline_ms
        if self.scheduled_ms is None or self.scheduled_ms > deadline_ms:
            self._alarms.schedule(self, deadline_ms)

    def set_after(self, now: Moment, delay_ms: int) -> None:
        """Call the action after so many milliseconds."""
        self.set(MonotonicMs(now.monotonic_ms + delay_ms))

    def cancel(self) -> None:
        """Do not call the action."""
        self.deadline_ms = None

    def drop(self) -> None:
        """Cancel the alarm for good and release its action.

        A member refers to its alarm, whose action refers to the member. Long-lived objects are
        left out of garbage collections (`runtime/collector.py`), so this cycle has to be broken.
        """
        self.deadline_ms = None
        self.action = _nothing
        if self.scheduled_ms is not None:
            self.scheduled_ms = None
            self._alarms.note_dropped()


class Alarms:
    """The alarms of a shard. Invariant: a set alarm is in the heap, never after its time."""

    def __init__(self) -> None:
        self._heap: list[tuple[MonotonicMs, int, Alarm]] = []
        self._order = count()
        self._dropped = 0
        """An upper bound of the dropped alarms in the heap."""

    def __len__(self) -> int:
        """The number of entries in the heap."""
        return len(self._heap)

    def alarm(self, action: Callable[[Moment], None]) -> Alarm:
        """A new alarm, which is not set."""
        return Alarm(self, action)

    def schedule(self, alarm: Alarm, at_ms: MonotonicMs) -> None:
        """Used by `Alarm.set`: check the alarm at this time."""
        alarm.scheduled_ms = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._order), alarm))

    def note_dropped(self) -> None:
        """Used by `Alarm.drop`: an alarm in the heap has become useless.

        When half of the heap may be useless, those are removed: clients choose the timeouts, which
        may be weeks.
        """
        self._dropped += 1
        if self._dropped >= DROPPED_MAX and 2 * self._dropped >= len(self._heap):
            self._heap[:] = [each for each in self._heap if each[2].scheduled_ms == each[0]]
            heapq.heapify(self._heap)
            self._dropped = 0

    def clear(self) -> None:
        """Remove all alarms."""
        self._heap.clear()

    def next_ms(self) -> MonotonicMs | None:
        """When `ring` must be called; None if the heap is empty."""
        return self._heap[0][0] if self._heap else None

    def ring(self, now: Moment, at_most: int) -> int:
        """Call the actions that are due, earliest first, at most so many; returns their number."""
        rung = 0
        heap = self._heap
        while heap and heap[0][0] <= now.monotonic_ms and rung < at_most:
            at_ms, _, alarm = heapq.heappop(heap)
            if alarm.scheduled_ms != at_ms:
                continue  # it was brought forward, and has another entry
            alarm.scheduled_ms = None
            deadline_ms = alarm.deadline_ms
            if deadline_ms is None:
                continue
            if deadline_ms > now.monotonic_ms:
                self.schedule(alarm, deadline_ms)
                continue
            alarm.deadline_ms = None
            rung += 1
            alarm.action(now)
        return rung


def _nothing(_now: Moment) -> None:
    pass
