"""Runs a cluster: starts, restarts and stops its processes in the right order.

`child` decides when a child is restarted or given up.
"""

import gc
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from cluster.datadir.paths import DataDir
from cluster.datadir.state_file import write_state
from cluster.model.clocks import MonotonicMs
from cluster.model.cluster_view import ClusterView
from cluster.model.errors import UserError
from cluster.model.event_kinds import EventKind
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime.clock import Clock
from cluster.runtime.compiled import build_name
from cluster.runtime.installation import shown
from cluster.runtime.loop import EventLoop
from cluster.runtime.stop_signals import CLUSTER_STOPS
from cluster.supervisor import child as life
from cluster.supervisor.console import Console, last_lines
from cluster.supervisor.member import Member
from cluster.supervisor.member_processes import MemberProcesses
from cluster.supervisor.plan import ChildSpec, ClusterPlan
from cluster.supervisor.processes import ENDED_CLEANLY
from cluster.supervisor.readiness import agreed_view
from cluster.supervisor.timeline import Timeline
from cluster.views.cluster_text import how_to_go_on

log = logging.getLogger(__name__)

_VIEW_PATIENCE_MS: Final = 30_000
_GONE: Final = (life.ChildState.HELD, life.ChildState.STOPPED, life.ChildState.FAILED)
"""The states from which no process returns by itself to serve clients."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Callbacks for everything outside the supervisor's own children."""

    close_session: Callable[[ChildSpec], object]
    """Close the registry session that a dead broker left, if there is one."""
    on_up: Callable[[], None]
    """Called when the cluster is ready and the message about it has been written."""
    close_inherited: Callable[[ChildSpec], None]
    """In a forked child: close what belongs to the supervisor."""


class Supervisor:
    """One cluster, from `run` until everything has stopped; single-threaded.

    Lifecycle: starting (registry, brokers, one agreed view), up, stopping (brokers one by one, then
    the registry), done.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        loop: EventLoop,
        clock: Clock,
        console: Console,
        outside: Outside,
        policy: life.RestartPolicy | None = None,
    ) -> None:
        self._plan = plan
        self._files = DataDir(plan.data_dir)
        self._loop = loop
        self._clock = clock
        self._console = console
        self._outside = outside
        self._processes = MemberProcesses(
            loop,
            outside.close_inherited,
            self._on_ready,
            self._on_progress,
            self._on_view,
            self._on_exited,
        )
        self._policy = policy or life.RestartPolicy()
        self.members = [Member(spec, self._policy) for spec in plan.children]
        self._phase = "starting"
        self._stop_began_ms = self._phase_began_ms = self._began_ms = clock.monotonic_ms()
        self._exit_status = 0
        self._cluster_id: str | None = None
        self._newest_view: ClusterView | None = None
        self._noted_controller: int | None = None
        self._foreground = True
        self._on_end: Callable[[Member, str], None] = lambda _member, _how: None
        self.timeline = Timeline()

    # ------------------------------------------------------------------ life

    def run(self, began_ms: MonotonicMs, *, foreground: bool) -> int:
        """Start everything and stay until it has stopped. Returns the exit status.

        `began_ms`: when the user entered the command, on the monotonic clock. Raises UserError.
        """
        self._began_ms = self._phase_began_ms = began_ms
        self._foreground = foreground
        self._console.say(f"Starting {self._size()} in {shown(self._plan.data_dir)}")
        self._mark_directory()
        gc.freeze()  # collections would write to pages shared with children (copy on write)
        if self._registry is None:
            self._start_brokers()
        else:
            self.start(self._registry)
        self._loop.run()
        self.write_state()
        return self._exit_status

    @property
    def phase(self) -> str:
        """`starting`, `up`, `stopping` or `stopped`."""
        return self._phase

    def stop(self) -> None:
        """Stop all processes in order; a second call kills them all."""
        if self._phase == "stopping":
            self._console.say("Killing the remaining processes.")
            for member in self._alive():
                self._processes.signal(member, signal.SIGKILL)
            return
        self.stop_in_order()

    def stop_in_order(self) -> None:
        """Stop all processes in order; a second call has no effect."""
        if self._phase in ("stopping", "stopped"):
            return
        self._phase = "stopping"
        self._stop_began_ms = self._phase_began_ms = self._clock.monotonic_ms()
        self._console.say("\nStopping the cluster, brokers first; Ctrl-C again kills it.")
        for member in self._brokers:
            if member.child.state in (life.ChildState.RUNNING, life.ChildState.PAUSED):
                self._processes.signal(member, CLUSTER_STOPS)
        self._stop_next()

    def abandon(self, why: str) -> None:
        """Stop all processes in order because the cluster cannot continue; `why` is for
        the user.
        """
        if self._phase in ("stopping", "stopped"):
            return
        log.error("%s", why)
        self._console.complain(f"error: {why}")
        self._exit_status = 1
        self.stop_in_order()

    def describe(self) -> dict[str, Any]:
        """The state of the whole cluster, as `status` and cluster.json show it."""
        registry, dashboard = self._registry, self._dashboard
        return {
            "state": self._phase,
            "cluster_id": self._cluster_id,
            "bootstrap": self._plan.bootstrap,
            "registry": self._plan.registry_address,
            "registry_process": None if registry is None else registry.describe(),
            "dashboard": self._dashboard_url(),
            "dashboard_login": self._plan.dashboard_login if self._dashboard_url() else None,
            "dashboard_process": None if dashboard is None else dashboard.describe(),
            "secure": self._plan.security is not None,
            "build": build_name(),
            "data_dir": str(self._plan.data_dir),
            "chosen_ports": dict(self._plan.chosen_ports),
            "supervisor_pid": os.getpid(),
            "controller": self._controller(),
            "brokers": [member.describe() for member in self._brokers],
        }

    def perform(self, member: Member, effects: list[life.Effect]) -> None:
        """Carry out the effects of a child's state machine and their consequences for the
        cluster.
        """
        for effect in effects:
            match effect:
                case life.Fork():
                    self._fork(member)
                case life.Signal(number):
                    self._processes.signal(member, number)
                case life.WakeAt(deadline_ms):
                    self._loop.call_at(deadline_ms, lambda: self._on_wake(member))
                case life.CloseSession():
                    self._outside.close_session(member.spec)
                case life.Report(text, kind):
                    log.info("%s %s", member.spec.name, text)
                    self.note(member, kind, text, cause=member.order)
                    self._console.say(
                        f"{member.spec.label[0].upper()}{member.spec.label[1:]} {text}."
                    )
        if member.spec.held is not None and member.child.state in _GONE:
            member.spec.held.close()
        self.write_state()

    def note(self, member: Member, kind: EventKind, text: str, *, cause: str | None = None) -> None:
        """Add an event of a process to the timeline."""
        self.timeline.add(self._clock.wall_ms(), kind, member.spec.label, text, cause)

    # ------------------------------------------------------------------ starting

    def _start_brokers(self) -> None:
        for member in self._brokers:
            self.start(member)
        if self._dashboard is not None:
            self.start(self._dashboard)

    def start(self, member: Member) -> None:
        """Start a member unless it has a process."""
        self.perform(member, member.child.on_start_ordered(self._clock.monotonic_ms()))

    def _on_started(self, member: Member) -> None:
        """Continue the start after a child has become ready for the first time."""
        if member is self._dashboard:
            return  # no other process depends on it
        if member is self._registry:
            self._end_phase("registry", f"ready on {member.spec.address}")
            self._start_brokers()
        elif all(broker.child.state is life.ChildState.RUNNING for broker in self._brokers):
            count = len(self._brokers)
            self._end_phase("brokers", f"{count} of {count} ready")
            self._loop.call_after(_VIEW_PATIENCE_MS, self._give_up_disagreement)
            self._come_up_if_agreed()

    def _come_up_if_agreed(self) -> None:
        """Finish the start if every broker is ready and all of them see the same complete
        cluster.
        """
        if any(each.child.state is not life.ChildState.RUNNING for each in self._brokers):
            return
        expected = frozenset(int(member.spec.broker_id or 0) for member in self._brokers)
        view = agreed_view([member.view for member in self._brokers], expected)
        if view is not None:
            self._come_up(view)

    def _give_up_disagreement(self) -> None:
        if self._phase != "starting":
            return
        self._give_up(
            "the brokers are running, but do not agree on the members and the controller: "
            + "; ".join(f"{each.spec.label} {_seen(each.view)}" for each in self._brokers)
        )

    def _come_up(self, view: ClusterView) -> None:
        self._cluster_id = view.cluster_id
        self._phase = "up"
        self.write_state()
        self._end_phase(
            "metadata",
            f"every broker sees all {len(view.brokers)}, controller is broker {view.controller}",
        )
        self._console.say(how_to_go_on(self.describe(), foreground=self._foreground))
        elapsed_s = (self._clock.monotonic_ms() - self._began_ms) / 1000
        self._console.say(f"Cluster ready in {elapsed_s:.1f} s")
        self._console.when_flushed(self._outside.on_up)

    def _give_up(self, why: str, culprit: Member | None = None) -> None:
        self._exit_status = 1
        self._console.complain(f"Cannot start: {why}")
        if culprit is not None:
            log_file = self._files.log(culprit.spec.name)
            self._console.complain(f"The end of {shown(log_file)}:")
            for line in last_lines(log_file, culprit.log_begin_bytes):
                self._console.complain(f"  {line}")
        self._phase = "stopping"
        for member in self._brokers:  # the registry stays until their sessions are closed
            self.perform(member, member.child.on_stop_ordered(self._clock.monotonic_ms()))
            self._processes.signal(member, signal.SIGKILL)
        self._stop_next()

    def _end_phase(self, what: str, outcome: str) -> None:
        now_ms = self._clock.monotonic_ms()
        self._console.phase(what, outcome, now_ms - self._phase_began_ms)
        self._phase_began_ms = now_ms

    # ------------------------------------------------------------------ stopping

    def _stop_next(self) -> None:
        """Stop one broker at a time, so that its followers can still fetch the records they lack;
        stop the registry last.

        The dashboard stops meanwhile.
        """
        now_ms = self._clock.monotonic_ms()
        for member in self.members:
            stops_now = not member.child.is_alive or member is self._dashboard
            if stops_now and member.child.state is not life.ChildState.STOPPING:
                self.perform(member, member.child.on_stop_ordered(now_ms))
        if not self._alive():
            self._all_stopped()
            return
        alive = [member for member in self._alive() if member is not self._dashboard]
        if alive and not any(member.child.state is life.ChildState.STOPPING for member in alive):
            following = next((member for member in alive if member in self._brokers), alive[0])
            self.perform(following, following.child.on_stop_ordered(now_ms))

    def _all_stopped(self) -> None:
        self._phase = "stopped"
        elapsed_s = (self._clock.monotonic_ms() - self._stop_began_ms) / 1000
        if self._exit_status == 0:
            self._console.say(f"Cluster stopped in {elapsed_s:.1f} s")
        self._loop.stop()

    # ------------------------------------------------------------------ processes

    def reap(self) -> None:
        """Reap the children that have ended; called at SIGCHLD."""
        self._processes.reap(self.members)

    def _fork(self, member: Member) -> None:
        self._outside.close_session(
            member.spec
        )  # a session that could not be closed when its broker died
        self._processes.fork(member, self._files.log(member.spec.name))

    def _on_wake(self, member: Member) -> None:
        self.perform(member, member.child.on_wake(self._clock.monotonic_ms()))

    def _on_ready(self, member: Member) -> None:
        former = member.child.state
        effects = member.child.on_ready(self._clock.monotonic_ms())
        if not effects and member.child.state is not former:
            self.note(member, EventKind.START, "is running")
        self.perform(member, effects)
        if self._phase == "starting":
            self._on_started(member)

    def _on_progress(self, member: Member, progress: RecoveryProgress) -> None:
        member.progress = progress
        effects = member.child.on_progress(self._clock.monotonic_ms())
        if effects:
            self._console.say(f"  {member.spec.label}: {progress.text}")
        self.perform(member, effects)

    def _on_view(self, member: Member, view: ClusterView) -> None:
        member.view = self._newest_view = view
        self._note_controller()
        if self._phase == "starting":
            self._come_up_if_agreed()
        else:
            self.write_state()

    def _dashboard_url(self) -> str | None:
        """Its current or future URL; None if there is no dashboard or it cannot start."""
        dashboard = self._dashboard
        is_lost = dashboard is None or dashboard.child.state is life.ChildState.FAILED
        return None if is_lost else self._plan.dashboard_url

    def _controller(self) -> int | None:
        """The controller according to the newest view of a broker; None if no broker knows it."""
        views = [member.view for member in self._brokers]
        view = self._newest_view if self._newest_view in views else next(filter(None, views), None)
        return None if view is None or view.controller < 0 else view.controller

    def _note_controller(self) -> None:
        controller = self._controller()
        if controller in (None, self._noted_controller):
            return
        self._noted_controller = controller
        for member in self._brokers:
            if member.spec.broker_id == controller:
                self.note(member, EventKind.CONTROLLER, "is the controller")

    def _on_exited(self, member: Member, how: str) -> None:
        effects = member.child.on_exited(how, self._clock.monotonic_ms())
        if not any(isinstance(each, life.Report) for each in effects):
            kind = EventKind.STOP if how == ENDED_CLEANLY else EventKind.DEATH
            self.note(member, kind, how, cause=member.order)
        is_lost = member is self._dashboard and member.child.state is life.ChildState.FAILED
        if is_lost and member.failure is not None:
            effects = [each for each in effects if not isinstance(each, life.Report)]
            self._console.say(f"There is no dashboard: {member.failure}.")
        elif self._phase == "starting" and member is not self._dashboard:
            reason = member.failure or f"it {how}"
            self._give_up(f"{member.spec.label}: {reason}", member)
            return
        self.perform(member, effects)
        if self._phase == "stopping":
            if self._exit_status == 0:
                self._end_phase(member.spec.label, "stopped")
            if member.child.is_alive or member.child.state is life.ChildState.BACKING_OFF:
                now_ms = self._clock.monotonic_ms()
                self.perform(member, member.child.on_stop_ordered(now_ms))
            self._stop_next()

        self._on_end(member, how)

    # ------------------------------------------------------------------ members

    @property
    def plan(self) -> ClusterPlan:
        """The plan with the present brokers."""
        return self._plan

    def watch_ends(self, on_end: Callable[[Member, str], None]) -> None:
        """Have `on_end` called after a process has ended, with how it did."""
        self._on_end = on_end

    def broker(self, broker_id: int) -> Member | None:
        """The member with this id."""
        return next((each for each in self._brokers if each.spec.broker_id == broker_id), None)

    def admit(self, spec: ChildSpec) -> Member:
        """Make a broker a member, which is not started yet."""
        member = Member(spec, self._policy)
        others = [each for each in self.members if each.spec.broker_id is None]
        brokers = sorted([*self._brokers, member], key=lambda each: each.spec.broker_id or 0)
        self.members = [*others, *brokers]
        self._plan = replace(self._plan, brokers=tuple(each.spec for each in brokers))
        self.write_state()
        return member

    def forget(self, member: Member) -> None:
        """Let a broker without a process be no member any more."""
        self.members = [each for each in self.members if each is not member]
        self._plan = replace(self._plan, brokers=tuple(each.spec for each in self._brokers))
        self.write_state()

    @property
    def _registry(self) -> Member | None:
        return self._member_of(self._plan.registry)

    @property
    def _dashboard(self) -> Member | None:
        return self._member_of(self._plan.dashboard)

    def _member_of(self, spec: ChildSpec | None) -> Member | None:
        return next((member for member in self.members if member.spec is spec), None)

    @property
    def _brokers(self) -> list[Member]:
        return [member for member in self.members if member.spec.broker_id is not None]

    def _alive(self) -> list[Member]:
        return [member for member in self.members if member.child.is_alive]

    def _size(self) -> str:
        count = len(self._brokers)
        return f"{count} broker{'s' if count != 1 else ''}"

    def _mark_directory(self) -> None:
        """Write the first state file, which marks the data directory. Raises UserError."""
        try:
            write_state(self._files.state_file, self.describe())
        except OSError as problem:
            path = shown(self._plan.data_dir)
            raise UserError(f"cannot write to {path}: {problem.strerror}") from None

    def write_state(self) -> None:
        try:
            write_state(self._files.state_file, self.describe())
        except OSError as problem:
            # A full disk must not stop the cluster; what the next start reads does not change.
            log.warning("cannot write %s: %s", self._files.state_file, problem.strerror)


def _seen(view: ClusterView | None) -> str:
    if view is None:
        return "has not reported its view"
    brokers = ", ".join(map(str, sorted(view.brokers))) or "none"
    return f"sees brokers {brokers} and controller {view.controller}"
