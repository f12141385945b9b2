"""One change of the cluster as the controller's driver carries it out, and its announcement."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from cluster.coordinator.controller.broker_updates import UPDATE_TIMEOUT_MS, BrokerUpdates
from cluster.coordinator.controller.controller import Controller
from cluster.model.plan import Outcome, Plan


class Operation(Protocol):
    """Called on the broker's thread, in steps: `plan` at most once, then `finish` or `refuse`.

    Exactly one of the last two is called, also where the operation never had its turn.
    """

    def plan(self, controller: Controller) -> Plan:
        """What to change, made from the present state. An empty plan changes nothing."""
        ...

    def finish(self, plan: Plan) -> None:
        """The registry and the controller's state have the change: announce it and answer."""
        ...

    def refuse(self) -> None:
        """This broker is not the controller (any more): nothing was done, as far as it knows."""
        ...


@runtime_checkable
class HasClient(Protocol):
    """An operation that a client has asked for, which can be told why it was not carried out."""

    def fail(self, outcome: Outcome) -> None:
        """In place of `finish` or `refuse`: nothing was done, for this reason."""
        ...


def tell(updates: BrokerUpdates, plan: Plan, done: Callable[[bool], None], timeout_ms: int) -> None:
    """Call `done` when every live broker knows the plan, with False if that took too long.

    At once where the plan is empty or `timeout_ms` is 0. A broker that does not answer within
    UPDATE_TIMEOUT_MS is not waited for any longer, even if `timeout_ms` is larger: it is treated as
    dead, and will be sent the full state.
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
