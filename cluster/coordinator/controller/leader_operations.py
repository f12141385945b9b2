"""Operations that elect leaders for clients, and return leaderships to preferred replicas."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.leader_elections import (
    RETURNS_AT_ONCE,
    Elected,
    ElectionType,
)
from cluster.coordinator.controller.operation import Operation, in_parts, tell
from cluster.coordinator.controller.topic_operations import NOT_CONTROLLER, late
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome, Plan

log = logging.getLogger(__name__)

LEADERS_AT_ONCE: Final = 500
"""Of one operation: what follows its write takes some milliseconds of the loop in one turn."""


def elect_in_parts(
    enqueue: Callable[[Operation], None],
    updates: BrokerUpdates,
    election: ElectionType,
    partitions: Sequence[TopicPartition] | None,
    all_partitions: Callable[[], Sequence[TopicPartition]],
    timeout_ms: int,
    on_done: Callable[[Outcome, Elected], None],
) -> None:
    """Elect leaders of some or all (None) partitions by as many operations as they need, so that
    each partition is without a leader for a few milliseconds only.

    `on_done` receives the outcome of the request, and those of its partitions in order, once. Of
    all partitions, those that need no election are left out.
    """

    def begin(some: Sequence[TopicPartition], on_part: Callable[[Outcome, Elected], None]) -> None:
        is_of_all = partitions is None
        enqueue(ElectLeaders(updates, election, some, timeout_ms, on_part, only_needed=is_of_all))

    in_parts(
        all_partitions() if partitions is None else partitions, LEADERS_AT_ONCE, begin, on_done
    )


class ElectLeaders:
    """Elect leaders of partitions; answers when every live broker knows them."""

    def __init__(
        self,
        updates: BrokerUpdates,
        election: ElectionType,
        partitions: Sequence[TopicPartition],
        timeout_ms: int,
        on_done: Callable[[Outcome, Elected], None],
        *,
        only_needed: bool = False,
    ) -> None:
        """`on_done` receives the outcome of the request, and those of its partitions in order.

        With `only_needed`, those that need no election are left out.
        """
        self._updates = updates
        self._election = election
        self._partitions = partitions
        self._timeout_ms = timeout_ms
        self._on_done = on_done
        self._only_needed = only_needed
        self._outcomes: Elected = []

    def plan(self, controller: Controller) -> Plan:
        plan, self._outcomes = controller.elect_leaders(
            self._election, self._partitions, only_needed=self._only_needed
        )
        return plan

    def finish(self, plan: Plan) -> None:
        if plan.changed:
            log.info("%s elections: %d partitions", self._election.name.lower(), len(plan.changed))
        tell(self._updates, plan, self._answer, self._timeout_ms)

    def refuse(self) -> None:
        self.fail(NOT_CONTROLLER)

    def fail(self, outcome: Outcome) -> None:
        if self._only_needed:
            self._on_done(outcome, [])
        else:
            self._on_done(Outcome(ErrorCode.none), [(each, outcome) for each in self._partitions])

    def _answer(self, do_all_know: bool) -> None:
        outcomes = self._outcomes
        if not do_all_know:
            outcomes = [(partition, late(outcome)) for partition, outcome in outcomes]
        self._on_done(Outcome(ErrorCode.none), outcomes)


class ReturnLeaders:
    """Return leaderships to in-sync preferred replicas, some in each operation."""

    def __init__(
        self,
        updates: BrokerUpdates,
        percentage: int,
        go_on: Callable[["ReturnLeaders"], None],
        of: set[BrokerId] | None = None,
    ) -> None:
        """Applies to brokers of whose preferred partitions others lead more than `percentage`.

        `go_on` receives the operation for the next part when every broker knows this one. `of` are
        these brokers if they are known already.
        """
        self._updates = updates
        self._percentage = percentage
        self._go_on = go_on
        self._of: set[BrokerId] = of or set()

    def plan(self, controller: Controller) -> Plan:
        return controller.return_leaders(self._percentage, self._of)

    def finish(self, plan: Plan) -> None:
        if not plan.changed:
            return
        log.info("leadership of %d partitions returns to preferred replicas", len(plan.changed))
        rest = ReturnLeaders(self._updates, self._percentage, self._go_on, self._of)
        is_all = len(plan.changed) < RETURNS_AT_ONCE
        tell(
            self._updates,
            plan,
            lambda _do_all_know: None if is_all else self._go_on(rest),
            UPDATE_TIMEOUT_MS,
        )

    def refuse(self) -> None:
        """Nobody waits for an answer; the next controller starts again."""

    def fail(self, outcome: Outcome) -> None:
        """The return is not urgent: the next check tries again."""
        log.warning("no leadership returns to preferred replicas: %s", outcome.detail)
