"""Carries out the requests of the control socket: status, stop, kill, restart, brokers that join
and leave.
"""

import signal
from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.model.errors import UserError
from cluster.model.event_kinds import BY_COMMAND, EventKind
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop
from cluster.supervisor.member import Member
from cluster.supervisor.membership import Membership
from cluster.supervisor.supervisor import Supervisor

Request = dict[str, Any]

_HARMLESS: Final = frozenset(
    {
        *(signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH),
        *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    }
)
"""Signals that do not end a process."""


class Commands:
    """Answers requests of the control socket, one at a time, on the supervisor's loop."""

    def __init__(self, supervisor: Supervisor, loop: EventLoop, clock: Clock) -> None:
        self._supervisor = supervisor
        self._loop = loop
        self._clock = clock
        membership = Membership(supervisor, clock)
        self._by_name: Final[Mapping[str, Callable[[Request], Request]]] = {
            "status": self._status,
            "stop": self._stop,
            "kill": self._kill,
            "restart": self._restart,
            "add-broker": membership.add,
            "remove-broker": membership.remove,
            "broker-state": membership.state_of,
        }

    def answer(self, request: Request) -> Request:
        """Carry out a request such as `{"command": "kill", "id": 1, "signal": 9}`.

        Returns the fields of the reply. Raises UserError for a request that is refused.
        """
        command = self._by_name.get(request["command"])
        if command is None:
            raise UserError(f"unknown command {request['command']}")
        return command(request)

    def _status(self, _request: Request) -> Request:
        return {**self._supervisor.describe(), "events": self._supervisor.timeline.to_json()}

    def _stop(self, _request: Request) -> Request:
        self._loop.defer(self._supervisor.stop_in_order)
        return self._supervisor.describe()

    def _kill(self, request: Request) -> Request:
        member = self._member(request["id"])
        number = signal.Signals(request["signal"])
        pid = member.pid
        try:
            effects = member.child.on_kill_ordered(
                number,
                stay_down=bool(request.get("stay_down")),
                now_ms=self._clock.monotonic_ms(),
            )
        except UserError as problem:
            raise UserError(f"{member.spec.label} {problem}") from None
        self._note_signal(member, number, stay_down=bool(request.get("stay_down")))
        self._supervisor.perform(member, effects)
        return {"pid": pid, "signal": number.name, "state": member.child.state.value}

    def _restart(self, request: Request) -> Request:
        member = self._member(request["id"])
        if self._supervisor.phase != "up":
            raise UserError(
                f"the cluster is {self._supervisor.phase}: processes cannot be restarted now"
            )
        pid = member.pid
        self._supervisor.note(
            member, EventKind.RESTART, "is restarted by a command", cause=BY_COMMAND
        )
        member.order = "restarted by a command"
        self._supervisor.perform(
            member, member.child.on_restart_ordered(self._clock.monotonic_ms())
        )
        return {"pid": pid, "state": member.child.state.value}

    def _note_signal(self, member: Member, number: signal.Signals, *, stay_down: bool) -> None:
        """Add what the user ordered to the timeline."""
        match number:
            case signal.SIGSTOP:
                kind, text = EventKind.PAUSE, "is paused by a command (SIGSTOP)"
            case signal.SIGCONT:
                kind, text = EventKind.RESUME, "is resumed by a command (SIGCONT)"
            case _:
                then = ", and stays down" if stay_down else ""
                kind, text = EventKind.SIGNAL, f"is sent {number.name} by a command{then}"
                if number not in _HARMLESS:
                    member.order = f"{number.name} sent by a command"
        self._supervisor.note(member, kind, text, cause=BY_COMMAND)

    def _member(self, wanted: int | str) -> Member:
        for member in self._supervisor.members:
            if wanted in (member.spec.broker_id, member.spec.name):
                return member
        names = ", ".join(
            str(member.spec.name if member.spec.broker_id is None else member.spec.broker_id)
            for member in self._supervisor.members
        )
        raise UserError(f"there is no broker {wanted}: choose one of {names}")
