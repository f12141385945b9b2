"""Assembles a supervisor in this process: loop, signals, control socket, what it does outside."""

import os
import signal
from collections.abc import Callable
from typing import Final

from cluster.runtime import logs
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.supervisor.child import RestartPolicy
from cluster.supervisor.commands import Commands
from cluster.supervisor.console import Console
from cluster.supervisor.control_socket import ControlSocket
from cluster.supervisor.dead_sessions import close_dead_session
from cluster.supervisor.plan import ChildSpec, ClusterPlan, DataDir
from cluster.supervisor.readiness import View, ask_broker
from cluster.supervisor.signal_pipe import SignalPipe
from cluster.supervisor.supervisor import Outside, Supervisor

_LOOK_TIMEOUT_S: Final = 0.25
"""A broker of this machine answers Metadata in a millisecond, once it serves."""


def supervise(
    plan: ClusterPlan,
    lock: int,
    began_ms: int,
    *,
    on_up: Callable[[], None] | None = None,
    policy: RestartPolicy | None = None,
    look: Callable[[ChildSpec], View | None] | None = None,
) -> int:
    """Run the cluster in this process until it has stopped. Returns the exit status.

    `lock` is the held lock of the data directory. With `on_up` this process is in the background:
    nothing more is printed once it was called.
    """
    files = DataDir(plan.data_dir)
    logs.configure(files.log("supervisor"))
    console = Console()
    clock = SystemClock()
    loop = EventLoop(clock)

    def now_up() -> None:
        if on_up is not None:
            console.mute()
            on_up()

    def close_session(spec: ChildSpec) -> None:
        if spec.broker_id is not None:
            close_dead_session(files.session(spec.broker_id), plan.registry_address)

    def close_inherited() -> None:
        control.close_inherited()
        signals.close_inherited()
        loop.close()
        os.close(lock)

    outside = Outside(look or _look, close_session, now_up, close_inherited)
    supervisor = Supervisor(plan, loop, clock, console, outside, policy)
    control = ControlSocket(files.control_socket, loop, Commands(supervisor, loop, clock).answer)
    signals = SignalPipe(
        loop,
        {
            signal.SIGINT: supervisor.stop,
            signal.SIGTERM: supervisor.stop,
            signal.SIGHUP: supervisor.stop,
            signal.SIGCHLD: supervisor.reap,
        },
    )
    try:
        return supervisor.run(began_ms, foreground=on_up is None)
    finally:
        signals.close()
        control.close()
        loop.close()
        os.close(lock)


def _look(spec: ChildSpec) -> View | None:
    return ask_broker(spec.host, spec.port, _LOOK_TIMEOUT_S)
