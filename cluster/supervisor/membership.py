"""More and fewer brokers in a running cluster: the supervisor's part of `add-broker` and
`remove-broker`.
"""

import logging
from contextlib import suppress
from typing import Any, Final

from cluster.datadir.paths import DataDir
from cluster.model.errors import UserError
from cluster.model.event_kinds import BY_COMMAND, EventKind
from cluster.runtime.clock import Clock
from cluster.supervisor.child import ChildState
from cluster.supervisor.member import Member
from cluster.supervisor.plan import ClusterPlan, NewBroker
from cluster.supervisor.supervisor import Supervisor

log = logging.getLogger(__name__)

Request = dict[str, Any]


class Membership:
    """Owned by the supervisor's loop. An added broker is remembered at once, and forgotten if it
    cannot start; a removed one when its process has ended.
    """

    def __init__(self, supervisor: Supervisor, clock: Clock) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._failures: Final[dict[int, str]] = {}
        """Why added brokers could not start, by id."""
        supervisor.watch_ends(self._on_end)

    def add(self, request: Request) -> Request:
        """Start one more broker; without `id` it gets one, which is not among those `in_use`.

        Returns its id. Raises UserError.
        """
        plan = self._plan_of_running_cluster()
        wanted = request.get("id")
        if wanted is not None and self._supervisor.broker(wanted) is not None:
            raise UserError(
                f"there is a broker {wanted} already: choose another --broker-id, or leave it out"
            )
        if plan.grow is None:
            raise UserError("this cluster cannot have more brokers")
        new = NewBroker(wanted, request.get("rack"), tuple(request.get("in_use", ())))
        spec = plan.grow(new, plan.brokers)
        added = spec.broker_id or 0
        self._failures.pop(added, None)
        member = self._supervisor.admit(spec)
        self._supervisor.note(member, EventKind.ADD, "is added by a command", cause=BY_COMMAND)
        self._tell_clients()
        self._supervisor.start(member)
        return {"id": added}

    def state_of(self, request: Request) -> Request:
        """The state of an added or leaving broker, and whether every other broker that runs knows
        it; None once it is forgotten. Raises UserError if it could not start.
        """
        broker = request["id"]
        if broker in self._failures:
            raise UserError(f"broker {broker} could not start: {self._failures[broker]}")
        member = self._supervisor.broker(broker)
        if member is None:
            return {"broker": None}
        views = [
            each.view
            for each in self._supervisor.members
            if each.spec.broker_id is not None and each.child.state is ChildState.RUNNING
        ]
        is_known = all(view is not None and broker in view.brokers for view in views)
        return {"broker": {**member.describe(), "is_known": is_known}}

    def remove(self, request: Request) -> Request:
        """Stop a broker, and forget it once it has ended. Raises UserError."""
        self._plan_of_running_cluster()
        member = self._supervisor.broker(request["id"])
        if member is None:
            raise UserError(f"there is no broker {request['id']}")
        if not any(
            each.spec.broker_id is not None and not each.is_leaving
            for each in self._supervisor.members
            if each is not member
        ):
            raise UserError(
                f"broker {request['id']} is the only one that stays: use `stop --purge`"
            )
        self._supervisor.note(member, EventKind.REMOVE, "is removed by a command", cause=BY_COMMAND)
        member.order = "removed by a command"
        member.is_leaving = True
        effects = member.child.on_stop_ordered(self._clock.monotonic_ms())
        self._supervisor.perform(member, effects)
        if not member.child.is_alive:
            self._forget(member)
        return {"id": request["id"]}

    def _plan_of_running_cluster(self) -> ClusterPlan:
        if self._supervisor.phase != "up":
            raise UserError(f"the cluster is {self._supervisor.phase}: try again when it is up")
        return self._supervisor.plan

    def _on_end(self, member: Member, how: str) -> None:
        broker = member.spec.broker_id
        if broker is None or self._supervisor.phase != "up" or member.child.is_alive:
            return
        if member.is_leaving:
            self._forget(member)
        elif member.child.state is ChildState.FAILED and not member.child.was_ever_ready:
            self._failures[broker] = member.failure or f"it {how}"
            self._forget(member)

    def _forget(self, member: Member) -> None:
        self._supervisor.forget(member)
        self._tell_clients()
        plan, broker = self._supervisor.plan, member.spec.broker_id or 0
        files = [DataDir(plan.data_dir).stats(broker)]
        if plan.security is not None:
            files.append(plan.security.key_store(broker))
        for file in files:
            with suppress(OSError):
                file.unlink(missing_ok=True)

    def _tell_clients(self) -> None:
        """Let the files for clients of a secure cluster name the present brokers."""
        plan = self._supervisor.plan
        if plan.security is None:
            return
        from cluster.datadir.client_files import change_bootstrap  # loads what makes certificates

        try:
            change_bootstrap(DataDir(plan.data_dir), plan.bootstrap)
        except (OSError, KeyError, UserError) as problem:
            log.warning("cannot update the files for clients: %s", problem)
