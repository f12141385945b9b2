"""How long a group has been in each of its states. Pure."""

from enum import Enum

from cluster.model.clocks import Moment, MonotonicMs


class StateTimes:
    """Takes no memory beyond itself until the group has left a state."""

    __slots__ = ("_spent_ms", "_state", "entered_ms")

    def __init__(self, state: Enum) -> None:
        self._state = state
        self.entered_ms: MonotonicMs | None = None
        """When the group entered its state; None: not known, the group is being loaded."""
        self._spent_ms: dict[Enum, int] | None = None

    def start(self, state: Enum, now: Moment) -> None:
        """Measure from now: the group was created or loaded in this state."""
        self._state = state
        self.entered_ms = now.monotonic_ms

    def enter(self, state: Enum, now: Moment) -> None:
        """Add up the time in the state before, unless the state is the same."""
        if self.entered_ms is not None:
            if state is self._state:
                return
            if self._spent_ms is None:
                self._spent_ms = {}
            spent_ms = now.monotonic_ms - self.entered_ms
            self._spent_ms[self._state] = self._spent_ms.get(self._state, 0) + spent_ms
        self.start(state, now)

    def in_state_ms(self, now: Moment) -> int:
        """The time in the current state; 0 if it is not known."""
        return 0 if self.entered_ms is None else now.monotonic_ms - self.entered_ms

    def by_state_ms(self, now: Moment) -> dict[str, int]:
        """The time in each state since the group was created or loaded."""
        times = {state.value: spent_ms for state, spent_ms in (self._spent_ms or {}).items()}
        if self.entered_ms is not None:
            name = self._state.value
            times[name] = times.get(name, 0) + now.monotonic_ms - self.entered_ms
        return times
