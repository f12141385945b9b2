"""The lifecycle of one child process as a state machine: events in, effects out, no side effects.

starting -> running -> restarting -> starting ...       it died and is restarted
starting -> recovering -> running                       it reports that its start takes longer
running -> stopping -> stopped | held | starting        it was told to stop, stay down, restart
starting | restarting -> failed                         it could not start, or died early too often
"""

import enum
import signal
from dataclasses import dataclass
from typing import Final

from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.model.event_kinds import EventKind


class ChildState(enum.Enum):
    """The state of a child; the value is the text that `status` shows."""

    STOPPED = "stopped"
    STARTING = "starting"
    RECOVERING = "recovering"
    RUNNING = "running"
    PAUSED = "paused"
    BACKING_OFF = "restarting"
    HELD = "stopped (stays down)"
    STOPPING = "stopping"
    FAILED = "failed"


ALIVE: Final = frozenset(
    {
        ChildState.STARTING,
        ChildState.RECOVERING,
        ChildState.RUNNING,
        ChildState.PAUSED,
        ChildState.STOPPING,
    }
)
"""The states in which the child has a process."""
_BEFORE_READY: Final = frozenset({ChildState.STARTING, ChildState.RECOVERING})


@dataclass(frozen=True, slots=True)
class Fork:
    """Start the process."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to the process."""

    number: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call `on_wake` at this monotonic time."""

    deadline_ms: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the registry session that the dead process left, so that failover starts
    immediately.
    """


@dataclass(frozen=True, slots=True)
class Report:
    """Print and log this text after the child's name, as an event of this kind."""

    text: str
    kind: EventKind


Effect = Fork | Signal | WakeAt | CloseSession | Report


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a child is restarted, killed or given up, in milliseconds except for
    `early_deaths_max`.
    """

    backoff_ms: int = 1_000
    backoff_max_ms: int = 30_000
    stable_after_ms: int = 60_000
    """If the child ran for this long, its next death has the initial back-off again."""
    early_deaths_max: int = 10
    """A child is given up after more consecutive deaths than this before `stable_after_ms`."""
    start_timeout_ms: int = 300_000
    """Long, because recovering logs after a kill -9 may read gigabytes from a slow disk. Each
    report of progress restarts it.
    """
    stop_timeout_ms: int = 30_000


class _Then(enum.Enum):
    """What happens after a stopping child has ended."""

    STOPPED = enum.auto()
    HELD = enum.auto()
    START = enum.auto()


class Child:
    """One child; owned by the supervisor's loop.

    Invariant: there is a process, begun by the last `Fork`, if and only if the state is in `ALIVE`.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self.state = ChildState.STOPPED
        self.restart_count = 0
        self._early_deaths = 0
        self.was_ever_ready = False
        self._ready_at_ms: int | None = None
        self._deadline_ms: int | None = None
        self._then = _Then.STOPPED
        self._killed_by_order = False

    @property
    def is_alive(self) -> bool:
        """Whether the child has a process."""
        return self.state in ALIVE

    def on_start_ordered(self, now_ms: MonotonicMs) -> list[Effect]:
        """Start it unless it has a process."""
        if self.is_alive:
            return []
        self._early_deaths = 0
        return self._start(now_ms)

    def on_ready(self, now_ms: MonotonicMs) -> list[Effect]:
        """The process has reported that it serves requests."""
        if self.state not in _BEFORE_READY:
            return []
        again = self.was_ever_ready
        self.state = ChildState.RUNNING
        self.was_ever_ready = True
        self._ready_at_ms = now_ms
        self._deadline_ms = None
        return [Report("is running again", EventKind.START)] if again else []

    def on_progress(self, now_ms: MonotonicMs) -> list[Effect]:
        """The process has reported progress of its recovery."""
        if self.state not in _BEFORE_READY:
            return []
        self.state = ChildState.RECOVERING
        self._deadline_ms = now_ms + self._policy.start_timeout_ms
        return [WakeAt(self._deadline_ms)]

    def on_exited(self, how: str, now_ms: MonotonicMs) -> list[Effect]:
        """The process has ended; `how` is a verb phrase such as `was killed by SIGKILL`."""
        if self.state is ChildState.STOPPING:
            return self._stopped(now_ms)
        if not self.was_ever_ready:
            self.state = ChildState.FAILED
            self._deadline_ms = None
            return [CloseSession(), Report(f"could not start: it {how}", EventKind.FAILURE)]
        return [CloseSession(), *self._back_off(how, now_ms)]

    def on_wake(self, now_ms: MonotonicMs) -> list[Effect]:
        """The time of an earlier `WakeAt` has come; an outdated one has no effect."""
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return []
        self._deadline_ms = None
        match self.state:
            case ChildState.BACKING_OFF:
                self.restart_count += 1
                return self._start(now_ms)
            case ChildState.STARTING | ChildState.RECOVERING:
                seconds = self._policy.start_timeout_ms / 1000
                return [
                    Report(f"was not ready within {seconds:g} s: killing it", EventKind.FAILURE),
                    Signal(signal.SIGKILL),
                ]
            case ChildState.STOPPING:
                seconds = self._policy.stop_timeout_ms / 1000
                return [
                    Report(f"did not stop within {seconds:g} s: killing it", EventKind.FAILURE),
                    Signal(signal.SIGKILL),
                ]
            case _:
                return []

    def on_stop_ordered(self, now_ms: MonotonicMs) -> list[Effect]:
        """Stop it cleanly and keep it stopped."""
        if not self.is_alive:
            self.state = ChildState.STOPPED
            self._deadline_ms = None
            return []
        return self._stop(_Then.STOPPED, now_ms)

    def on_restart_ordered(self, now_ms: MonotonicMs) -> list[Effect]:
        """Stop it cleanly, even if it is paused, and start it immediately; start it if it
        is down.
        """
        if not self.is_alive:
            self.restart_count += 1
            return self.on_start_ordered(now_ms)
        self.restart_count += 1
        return self._stop(_Then.START, now_ms)

    def on_kill_ordered(self, number: int, *, stay_down: bool, now_ms: MonotonicMs) -> list[Effect]:
        """Send a signal that the user requested. Raises UserError if there is no process.

        If the process dies of it, the initial back-off applies and the death does not count as
        early.
        """
        if stay_down and self.state in (ChildState.BACKING_OFF, ChildState.FAILED):
            self.state = ChildState.HELD
            self._deadline_ms = None
            return []
        if not self.is_alive:
            raise UserError(f"is {self.state.value}: there is no process to signal")
        if number == signal.SIGSTOP:
            if self.state is ChildState.RUNNING:
                self.state = ChildState.PAUSED
            return [Signal(number)]
        if number == signal.SIGCONT:
            if self.state is ChildState.PAUSED:
                self.state = ChildState.RUNNING
            return [Signal(number)]
        wake_up = self._wake_up() if number != signal.SIGKILL else []
        if stay_down:
            self.state = ChildState.STOPPING
            self._then = _Then.HELD
            self._deadline_ms = now_ms + self._policy.stop_timeout_ms
            return [*wake_up, Signal(number), WakeAt(self._deadline_ms)]
        self._killed_by_order = True
        return [*wake_up, Signal(number)]

    def _start(self, now_ms: MonotonicMs) -> list[Effect]:
        self.state = ChildState.STARTING
        self._ready_at_ms = None
        self._killed_by_order = False
        self._deadline_ms = now_ms + self._policy.start_timeout_ms
        return [Fork(), WakeAt(self._deadline_ms)]

    def _stop(self, then: _Then, now_ms: MonotonicMs) -> list[Effect]:
        wake_up = self._wake_up()
        self.state = ChildState.STOPPING
        self._then = then
        self._deadline_ms = now_ms + self._policy.stop_timeout_ms
        return [*wake_up, Signal(signal.SIGTERM), WakeAt(self._deadline_ms)]

    def _wake_up(self) -> list[Effect]:
        """SIGCONT for a paused process, which handles no other signal until then."""
        if self.state is not ChildState.PAUSED:
            return []
        self.state = ChildState.RUNNING
        return [Signal(signal.SIGCONT)]

    def _stopped(self, now_ms: MonotonicMs) -> list[Effect]:
        self._deadline_ms = None
        match self._then:
            case _Then.START:
                return [CloseSession(), *self._start(now_ms)]
            case _Then.HELD:
                self.state = ChildState.HELD
            case _Then.STOPPED:
                self.state = ChildState.STOPPED
        return [CloseSession()]

    def _back_off(self, how: str, now_ms: MonotonicMs) -> list[Effect]:
        lived_ms = 0 if self._ready_at_ms is None else now_ms - self._ready_at_ms
        if lived_ms >= self._policy.stable_after_ms:
            self._early_deaths = 0
        if self._killed_by_order:
            delay_ms = self._policy.backoff_ms
        else:
            self._early_deaths += 1
            delay_ms = min(
                self._policy.backoff_ms << (self._early_deaths - 1), self._policy.backoff_max_ms
            )
        if self._early_deaths > self._policy.early_deaths_max:
            self.state = ChildState.FAILED
            self._deadline_ms = None
            return [
                Report(
                    f"{how} and is given up after {self._early_deaths} early deaths in a row:"
                    " see its log, then start it with `restart`",
                    EventKind.FAILURE,
                )
            ]
        self.state = ChildState.BACKING_OFF
        self._deadline_ms = now_ms + delay_ms
        return [
            Report(f"{how}; starting it again in {delay_ms / 1000:g} s", EventKind.DEATH),
            WakeAt(self._deadline_ms),
        ]
