"""One change of a group at a time: who has to wait until the one before is stored. Pure."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from cluster.coordinator.groups.consumer.heartbeat_batch import Beat, Fence, Visit
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Action:
    """Something else that needs the group to itself."""

    run: Callable[[Moment], None]
    """Does it, and may take the group's turn."""
    refuse: Callable[[ErrorCode, Moment], None]
    """Answers whoever asked for it."""


Event = Beat | Fence | Visit | Action


@dataclass(slots=True)
class _Turn:
    waiting: deque[Event] = field(default_factory=deque)
    is_late: bool = False


class Turns:
    """By group id, so that it covers a group that is made, removed or becomes another type.

    Invariant: while a turn is taken, an append of the group is on its way.
    """

    def __init__(self) -> None:
        self._taken: dict[str, _Turn] = {}

    def is_taken(self, group_id: str) -> bool:
        """Whether a change of the group is on its way to the log."""
        return group_id in self._taken

    def is_late(self, group_id: str) -> bool:
        """Whether that takes so long that nobody should wait for it."""
        turn = self._taken.get(group_id)
        return turn is not None and turn.is_late

    def take(self, group_id: str) -> None:
        """A change of the group goes to the log."""
        self._taken[group_id] = _Turn()

    def wait(self, group_id: str, event: Event) -> None:
        """The event is for when the change on its way is stored."""
        self._taken[group_id].waiting.append(event)

    def wait_first(self, group_id: str, events: deque[Event]) -> None:
        """These were there before all that wait."""
        self._taken[group_id].waiting.extendleft(reversed(events))

    def late(self, group_id: str) -> deque[Event]:
        """It takes too long: nobody waits any more. Returns those who did."""
        turn = self._taken.get(group_id)
        if turn is None:
            return deque()
        turn.is_late = True
        waiting, turn.waiting = turn.waiting, deque()
        return waiting

    def release(self, group_id: str) -> deque[Event]:
        """Its outcome is known. Returns those who waited, in their order."""
        return self._taken.pop(group_id).waiting

    def all_waiting(self) -> list[tuple[str, Event]]:
        """Everybody who waits, with the group's id; nobody does any more."""
        events = [
            (group_id, event) for group_id, turn in self._taken.items() for event in turn.waiting
        ]
        self._taken.clear()
        return events
