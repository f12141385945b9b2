"""One change of the cluster as the controller's driver carries it out, and how it is told."""

from collections.abc import Callable
from typing import Protocol

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.model.plan import Plan


class Operation(Protocol):
    """Called on the broker's thread, in steps: `plan` at most once, then `finish` or `refuse`.

    Exactly one of the last two is called, also where the operation never had its turn.
    """

    def plan(self, controller: Controller) -> Plan:
        """What to change, made from the state as it is by now. An empty plan changes nothing."""
        ...

    def finish(self, plan: Plan) -> None:
        """The registry and the state have it."""
        ...

    def refuse(self) -> None:
        """This broker is not the controller, or not any more: it was not done, as far as known."""
        ...


def tell(updates: BrokerUpdates, plan: Plan, done: Callable[[bool], None], timeout_ms: int) -> None:
    """Call `done` when every live broker knows the plan, with False if that took too long.

    At once where there is nothing in the plan, or nothing to wait for (0 ms). A broker that does
    not answer for UPDATE_TIMEOUT_MS is waited for no longer, whoever has more time: it is as good
    as gone, and will be sent everything.
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
