"""An operation of the controller's driver: one change of the cluster and its announcement."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome, Plan

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
OnItemsDone: TypeAlias = Callable[[Outcome, list[ResultT]], None]


class Operation(Protocol):
    """Called on the broker's thread in this order: `plan` at most once, then `finish` or `refuse`.

    Exactly one of the last two is called, also if the operation never had its turn.
    """

    def plan(self, controller: Controller) -> Plan:
        """The change, based on the current state. An empty plan changes nothing."""
        ...

    def finish(self, plan: Plan) -> None:
        """The registry and the controller's state have the change: announce it and answer."""
        ...

    def refuse(self) -> None:
        """This broker is not the controller (any more); it does not know of any change."""
        ...


@runtime_checkable
class HasClient(Protocol):
    """An operation of a client, which can be told why it was not carried out."""

    def fail(self, outcome: Outcome) -> None:
        """Answer with this error instead of `finish` or `refuse`: nothing was changed."""
        ...


def in_parts(
    asked: Sequence[ItemT],
    size: int,
    begin: Callable[[Sequence[ItemT], OnItemsDone[ResultT]], None],
    on_done: OnItemsDone[ResultT],
) -> None:
    """Carry out a request by an operation for each `size` items, at least one.

    `begin` starts an operation for some items. `on_done` receives the outcome of the request, the
    first of the parts that is an error, and the results of all parts in order, once.
    """
    firsts = range(0, max(1, len(asked)), size)
    answers: dict[int, tuple[Outcome, list[ResultT]]] = {}

    def on_part(first: int, outcome: Outcome, results: list[ResultT]) -> None:
        answers[first] = (outcome, results)
        if len(answers) < len(firsts):
            return
        of_parts = [answers[each] for each in firsts]
        failed = (each for each, _ in of_parts if each.code is not ErrorCode.none)
        on_done(
            next(failed, Outcome(ErrorCode.none)),
            [result for _, results in of_parts for result in results],
        )

    for first in firsts:
        begin(asked[first : first + size], partial(on_part, first))


def tell(updates: BrokerUpdates, plan: Plan, done: Callable[[bool], None], timeout_ms: int) -> None:
    """Call `done` when every live broker knows the plan, with False if that takes too long.

    Calls it at once if the plan is empty or `timeout_ms` is 0. A broker that does not answer within
    UPDATE_TIMEOUT_MS is not waited for, even if `timeout_ms` is larger: it is treated as dead, and
    will be sent the full state.
    """
    if plan.is_empty:
        done(True)
    elif timeout_ms <= 0:
        updates.tell_everyone(plan, set())
        done(False)
    else:
        is_patient = timeout_ms > UPDATE_TIMEOUT_MS
        updates.tell_everyone(
            plan, set(), lambda do_all_know: done(do_all_know or is_patient), timeout_ms
        )
