"""Requests that wait until an earlier transition of their transactional id is complete. Pure.

Kafka answers these with CONCURRENT_TRANSACTIONS at once, and its clients try again after 20 to 100
ms. Here they wait for as long, since a transition takes a few milliseconds, and get that answer
only afterwards.
"""

from collections.abc import Callable
from typing import Final

from cluster.coordinator.shards.alarms import Alarm, Alarms
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode

WAITING_MAX: Final = 50
"""So many requests may wait for one transactional id: a producer sends one at a time."""


class Waiting:
    """A request that waits. Exactly one of the two functions is called, once."""

    __slots__ = ("alarm", "deadline_ms", "give_up", "resume")

    def __init__(
        self,
        resume: Callable[["Waiting", Moment], None],
        give_up: Callable[[ErrorCode], None],
        deadline_ms: MonotonicMs,
    ) -> None:
        """`resume` tries again, and may wait again until the same deadline; `give_up` answers with
        an error."""
        self.resume = resume
        self.give_up = give_up
        self.deadline_ms = deadline_ms
        self.alarm: Alarm | None = None


class Waits:
    """The requests of one shard that wait for a transaction to change."""

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._waiting: dict[str, list[Waiting]] = {}

    def add(self, transactional_id: str, waiting: Waiting, now: Moment) -> None:
        """Wait until `resume`, or the deadline."""
        queue = self._waiting.setdefault(transactional_id, [])
        if waiting.deadline_ms <= now.monotonic_ms or len(queue) >= WAITING_MAX:
            if not queue:
                del self._waiting[transactional_id]
            waiting.give_up(ErrorCode.concurrent_transactions)
            return
        alarm = self._alarms.alarm(lambda _: self._on_late(transactional_id, waiting))
        alarm.set(waiting.deadline_ms)
        waiting.alarm = alarm
        queue.append(waiting)

    def resume(self, transactional_id: str, now: Moment) -> None:
        """A transition is complete: try the requests again, in their order."""
        for waiting in self._waiting.pop(transactional_id, ()):
            _drop_alarm(waiting)
            waiting.resume(waiting, now)

    def abandon(self) -> None:
        """The shard is unloaded: give up all of them."""
        all_waiting, self._waiting = self._waiting, {}
        for queue in all_waiting.values():
            for waiting in queue:
                _drop_alarm(waiting)
                waiting.give_up(ErrorCode.not_coordinator)

    def _on_late(self, transactional_id: str, waiting: Waiting) -> None:
        queue = self._waiting[transactional_id]
        queue.remove(waiting)
        if not queue:
            del self._waiting[transactional_id]
        _drop_alarm(waiting)
        waiting.give_up(ErrorCode.concurrent_transactions)


def _drop_alarm(waiting: Waiting) -> None:
    if waiting.alarm is not None:
        waiting.alarm.drop()
        waiting.alarm = None
