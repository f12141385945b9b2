"""Deadlines of a shard: many alarms that are mostly put off, one heap. Pure.

A heartbeat puts an alarm off; that must cost next to nothing, so the heap is told only when the
alarm's old time comes.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from cluster.model.clocks import Moment, MonotonicMs

DROPPED_MAX: Final = 1_000
"""Some 200 KiB of the heap, at least, may be alarms of no use."""


class Alarm:
    """Calls `action` at its deadline, once for each time it was set; None: it is not set."""

    __slots__ = ("_alarms", "action", "deadline_ms", "scheduled_ms")

    def __init__(self, alarms: "Alarms", action: Callable[[Moment], None]) -> None:
        self._alarms = alarms
        self.action = action
        self.deadline_ms: MonotonicMs | None = None
        self.scheduled_ms: MonotonicMs | None = None
        """Where the heap has it: never later than the deadline."""

    def set(self, deadline_ms: MonotonicMs) -> None:
        """Call at this time, instead of any time set before."""
        self.deadline_ms = deadline_ms
        if self.scheduled_ms is None or self.scheduled_ms > deadline_ms:
            self._alarms.schedule(self, deadline_ms)

    def set_after(self, now: Moment, delay_ms: int) -> None:
        """Call when so many milliseconds have passed."""
        self.set(MonotonicMs(now.monotonic_ms + delay_ms))

    def cancel(self) -> None:
        """Do not call."""
        self.deadline_ms = None

    def drop(self) -> None:
        """Do not call, nor be set again: what it would have called is let go.

        A member knows its alarm, whose action knows the member: without this they would keep each
        other until a garbage collection, which does not visit what is left out of it
        (`runtime/collector.py`).
        """
        self.deadline_ms = None
        self.action = _nothing
        if self.scheduled_ms is not None:
            self.scheduled_ms = None
            self._alarms.note_dropped()


class Alarms:
    """All alarms of a shard. Invariant: an alarm that is set is in the heap, not after its time."""

    def __init__(self) -> None:
        self._heap: list[tuple[MonotonicMs, int, Alarm]] = []
        self._order = count()
        self._dropped = 0
        """At most so many alarms in the heap are those of groups and members that are gone."""

    def __len__(self) -> int:
        """Entries of the heap: what it takes of memory."""
        return len(self._heap)

    def alarm(self, action: Callable[[Moment], None]) -> Alarm:
        """A new one, not set."""
        return Alarm(self, action)

    def schedule(self, alarm: Alarm, at_ms: MonotonicMs) -> None:
        """For `Alarm.set`: look at the alarm at this time."""
        alarm.scheduled_ms = at_ms
        heapq.heappush(self._heap, (at_ms, next(self._order), alarm))

    def note_dropped(self) -> None:
        """For `Alarm.drop`: one in the heap is of no use any more. Once half of them may be, they
        are taken out: clients choose timeouts, of weeks if they like."""
        self._dropped += 1
        if self._dropped >= DROPPED_MAX and 2 * self._dropped >= len(self._heap):
            self._heap[:] = [each for each in self._heap if each[2].scheduled_ms == each[0]]
            heapq.heapify(self._heap)
            self._dropped = 0

    def clear(self) -> None:
        """Forget all of them."""
        self._heap.clear()

    def next_ms(self) -> MonotonicMs | None:
        """When `ring` may have something to do; None if no alarm is set."""
        return self._heap[0][0] if self._heap else None

    def ring(self, now: Moment, at_most: int) -> int:
        """Call those that are due, earliest first, up to a number; returns how many."""
        rung = 0
        heap = self._heap
        while heap and heap[0][0] <= now.monotonic_ms and rung < at_most:
            at_ms, _, alarm = heapq.heappop(heap)
            if alarm.scheduled_ms != at_ms:
                continue  # it was set to an earlier time later on, and has another entry for that
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
