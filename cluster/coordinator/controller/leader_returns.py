"""Returns leaderships to preferred replicas automatically (auto.leader.rebalance.enable).

As in Kafka, the controller regularly checks whether each broker leads enough of the partitions that
prefer it. In addition a preferred replica leads again soon after it is in sync.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cluster.coordinator.controller.broker_updates import BrokerUpdates
from cluster.coordinator.controller.leader_elections import can_return
from cluster.coordinator.controller.leader_operations import ReturnLeaders
from cluster.model.plan import Plan
from cluster.runtime.loop import EventLoop, Timer

FIRST_CHECK_MS: Final = 5_000
"""After a controller starts, as in Kafka."""
NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class ReturnOptions:
    """The settings of auto.leader.rebalance.enable."""

    is_enabled: bool = False
    delay_ms: int = NEVER
    """From a preferred replica's return to the ISR to its leadership; NEVER: until the next check.
    """
    check_interval_ms: int = 300_000
    percentage: int = 10
    """The share of a broker's preferred partitions that others may lead without a return."""


class LeaderReturns:
    """Owned by the broker's thread. Active from `begin`, when this broker becomes the controller,
    to `end`."""

    def __init__(
        self,
        options: ReturnOptions,
        loop: EventLoop,
        updates: BrokerUpdates,
        enqueue: Callable[[ReturnLeaders], None],
    ) -> None:
        self._options = options
        self._loop = loop
        self._updates = updates
        self._enqueue = enqueue
        self._check: Timer | None = None
        self._soon: Timer | None = None

    def begin(self) -> None:
        """This broker is the controller; an earlier one may have left leaderships to return."""
        self.end()
        if self._options.is_enabled:
            self._check = self._loop.call_after(FIRST_CHECK_MS, self._on_check)
            self.return_soon()

    def end(self) -> None:
        """This broker is not the controller any more."""
        for timer in (self._check, self._soon):
            if timer is not None:
                timer.cancel()
        self._check = self._soon = None

    def on_written(self, plan: Plan) -> None:
        """Partitions have changed; preferred replicas may be in sync again."""
        if any(map(can_return, plan.changed.values())):
            self.return_soon()

    def return_soon(self) -> None:
        """Some preferred replicas may be able to lead again."""
        has_begun = self._check is not None
        if has_begun and self._soon is None and self._options.delay_ms != NEVER:
            self._soon = self._loop.call_after(self._options.delay_ms, self._on_soon)

    def _on_soon(self) -> None:
        self._soon = None
        self._enqueue(ReturnLeaders(self._updates, 0, self._enqueue))

    def _on_check(self) -> None:
        self._check = self._loop.call_after(self._options.check_interval_ms, self._on_check)
        self._enqueue(ReturnLeaders(self._updates, self._options.percentage, self._enqueue))
