"""Operations that move partitions to other replicas; `reassignments` has the rules."""

import logging
from collections.abc import Callable
from typing import Final

from cluster.coordinator.controller.broker_updates import BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.operation import Operation, in_parts, tell
from cluster.coordinator.controller.reassignments import Answered, Asked
from cluster.coordinator.controller.topic_operations import NOT_CONTROLLER, late
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome, Plan

log = logging.getLogger(__name__)


PARTITIONS_AT_ONCE: Final = 500
"""Of one operation: what follows its write takes some milliseconds of the loop in one turn."""


def alter_in_parts(
    enqueue: Callable[[Operation], None],
    updates: BrokerUpdates,
    asked: Asked,
    timeout_ms: int,
    on_done: Callable[[Outcome, Answered], None],
    *,
    may_change_factor: bool,
) -> None:
    """Start, change or cancel reassignments by as many operations as they need.

    `on_done` receives the outcome of the request, and those of its partitions in order, once.
    """

    def begin(some: Asked, on_part: Callable[[Outcome, Answered], None]) -> None:
        enqueue(
            AlterReassignments(
                updates, some, timeout_ms, on_part, may_change_factor=may_change_factor
            )
        )

    in_parts(asked, PARTITIONS_AT_ONCE, begin, on_done)


class AlterReassignments:
    """Start, change or cancel reassignments; answers when every live broker knows them."""

    def __init__(
        self,
        updates: BrokerUpdates,
        asked: Asked,
        timeout_ms: int,
        on_done: Callable[[Outcome, Answered], None],
        *,
        may_change_factor: bool,
    ) -> None:
        """`on_done` receives the outcome of the request, and those of its partitions in order."""
        self._updates = updates
        self._asked = asked
        self._timeout_ms = timeout_ms
        self._on_done = on_done
        self._may_change_factor = may_change_factor
        self._outcomes: Answered = []

    def plan(self, controller: Controller) -> Plan:
        plan, self._outcomes = controller.alter_reassignments(
            self._asked, may_change_factor=self._may_change_factor
        )
        return plan

    def finish(self, plan: Plan) -> None:
        begun = sum(state.is_reassigning for state in plan.changed.values())
        if plan.changed:
            settled = len(plan.changed) - begun
            log.info("reassignments: %d partitions begin to move, %d have moved", begun, settled)
        tell(self._updates, plan, self._answer, self._timeout_ms)

    def refuse(self) -> None:
        self.fail(NOT_CONTROLLER)

    def fail(self, outcome: Outcome) -> None:
        self._on_done(outcome, [(partition, outcome) for partition, _ in self._asked])

    def _answer(self, do_all_know: bool) -> None:
        outcomes = self._outcomes
        if not do_all_know:
            outcomes = [(partition, late(outcome)) for partition, outcome in outcomes]
        self._on_done(Outcome(ErrorCode.none), outcomes)


class CompleteReassignments:
    """The new replicas of some partitions are in sync: the old ones go."""

    def __init__(self, updates: BrokerUpdates) -> None:
        self._updates = updates

    def plan(self, controller: Controller) -> Plan:
        return controller.complete_reassignments()

    def finish(self, plan: Plan) -> None:
        if plan.changed:
            log.info("reassignments: %d partitions have moved", len(plan.changed))
            self._updates.tell_everyone(plan, full_to=set())

    def refuse(self) -> None:
        """Nobody waits for an answer; the next controller completes them."""

    def fail(self, outcome: Outcome) -> None:
        """The registry is full: the driver tries again."""
        log.warning("no reassignment is completed: %s", outcome.detail)
