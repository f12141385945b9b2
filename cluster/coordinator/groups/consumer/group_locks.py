"""Serializes the appends of each group: events wait until the append before is stored. Pure."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.coordinator.groups.consumer.heartbeat_batch import MemberEvent
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class ExclusiveAction:
    """Any other operation that must not run while an append of the group is pending."""

    run: Callable[[Moment], None]
    """Performs the operation, and may lock the group."""
    refuse: Callable[[ErrorCode, Moment], None]
    """Answers the request behind it with an error."""


Event = MemberEvent | ExclusiveAction


@dataclass(slots=True)
class _Lock:
    waiting: deque[Event] = field(default_factory=deque)
    is_late: bool = False


class GroupLocks:
    """Locks by group id, so that a lock outlives the creation, removal and conversion of a group.

    Invariant: a group is locked exactly while an append of it is pending.
    """

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    def is_locked(self, group_id: str) -> bool:
        """Whether an append of the group is pending."""
        return group_id in self._locks

    def is_late(self, group_id: str) -> bool:
        """Whether the pending append has taken so long that no event should wait for it."""
        lock = self._locks.get(group_id)
        return lock is not None and lock.is_late

    def lock(self, group_id: str) -> None:
        """Lock the group until `unlock`."""
        self._locks[group_id] = _Lock()

    def wait(self, group_id: str, event: Event) -> None:
        """Queue an event of a locked group."""
        self._locks[group_id].waiting.append(event)

    def wait_first(self, group_id: str, events: deque[Event]) -> None:
        """Queue events before all others that wait."""
        self._locks[group_id].waiting.extendleft(reversed(events))

    def expire(self, group_id: str) -> deque[Event]:
        """Mark the pending append as late. Returns the events that waited; they no longer do."""
        lock = self._locks.get(group_id)
        if lock is None:
            return deque()
        lock.is_late = True
        waiting, lock.waiting = lock.waiting, deque()
        return waiting

    def unlock(self, group_id: str) -> deque[Event]:
        """Unlock the group. Returns the events that waited, oldest first."""
        return self._locks.pop(group_id).waiting

    def clear(self) -> list[tuple[str, Event]]:
        """Unlock all groups. Returns the events that waited, each with its group id."""
        events = [
            (group_id, event) for group_id, lock in self._locks.items() for event in lock.waiting
        ]
        self._locks.clear()
        return events
