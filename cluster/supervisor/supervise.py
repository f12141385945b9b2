"""Assembles a supervisor in this process: event loop, signals, control socket, callbacks."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cluster.datadir.paths import DataDir
from cluster.datadir.removal import remove_data
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.runtime import logs
from cluster.runtime.clock import SystemClock
from cluster.runtime.installation import shown
from cluster.runtime.lifeline import Lifeline
from cluster.runtime.log_file import rotate_if_large
from cluster.runtime.loop import EventLoop
from cluster.runtime.process_title import name_process
from cluster.supervisor.child import RestartPolicy
from cluster.supervisor.commands import Commands
from cluster.supervisor.console import Console
from cluster.supervisor.control_socket import ControlSocket
from cluster.supervisor.dead_sessions import close_dead_session
from cluster.supervisor.directory_watch import DirectoryWatch
from cluster.supervisor.plan import ChildSpec, ClusterPlan
from cluster.supervisor.signal_pipe import SignalPipe
from cluster.supervisor.supervisor import Outside, Supervisor

_LOOK_MS: Final = 1_000
"""The interval of the checks that the data directory still exists."""


def supervise(
    plan: ClusterPlan,
    lock: int,
    began_ms: int,
    *,
    on_up: Callable[[], None] | None = None,
    after_up: Callable[[], None] | None = None,
    policy: RestartPolicy | None = None,
    lifeline: int | None = None,
) -> int:
    """Run the cluster in this process until it has stopped. Returns the exit status.

    `lock` is a descriptor that holds the data directory's lock. With `on_up` this process is a
    daemon: `on_up` is called when the cluster is ready, and nothing is printed afterwards.
    `after_up` is called then, too. `lifeline` is the pipe of a program without which the cluster
    stops and is removed. Raises UserError.
    """
    files = DataDir(plan.data_dir)
    _begin_log(files)
    name_process("supervisor", files.path)
    clock = SystemClock()
    loop = EventLoop(clock)
    console = Console(loop)

    def now_up() -> None:
        if plan.security is not None:
            with suppress(OSError):  # a file that remains is stored again, to no effect
                plan.security.confirm()
        if on_up is not None:
            console.mute()
            on_up()
        if after_up is not None:
            after_up()

    def close_session(spec: ChildSpec) -> None:
        if spec.broker_id is not None:
            close_dead_session(
                files.session(spec.broker_id), plan.registry_address, plan.registry_access
            )

    def close_inherited(spec: ChildSpec) -> None:
        if spec.held is None and held is not None:
            held.close()
        control.close_inherited()
        signals.close_inherited()
        console.close_inherited()
        program.close_inherited()
        loop.close()
        os.close(lock)

    held = None if plan.dashboard is None else plan.dashboard.held
    if held is not None:
        held.open()
    outside = Outside(close_session, now_up, close_inherited)
    supervisor = Supervisor(plan, loop, clock, console, outside, policy)
    answer = Commands(supervisor, loop, clock).answer
    try:
        control = ControlSocket(files.control_socket, loop, answer)
    except OSError as problem:
        raise UserError(f"cannot use {files.control_socket}: {problem.strerror}") from None
    program = Lifeline(lifeline, loop, supervisor.stop_in_order)
    watch = DirectoryWatch(files)

    def look() -> None:
        lost = watch.lost()
        if lost is not None:
            supervisor.abandon(
                f"{shown(lost)} was removed while the cluster was running: stopping it"
            )
        elif not files.state_file.exists():
            supervisor.write_state()

    loop.call_every(_LOOK_MS, look)
    signals = SignalPipe(
        loop,
        {
            signal.SIGINT: supervisor.stop,
            signal.SIGTERM: supervisor.stop,
            # A closing terminal causes two SIGHUPs, from the kernel and from the shell, and a
            # second `stop` would kill.
            signal.SIGHUP: supervisor.stop_in_order,
            signal.SIGCHLD: supervisor.reap,
        },
    )
    try:
        return supervisor.run(MonotonicMs(began_ms), foreground=on_up is None)
    finally:
        signals.close()
        control.close()
        if held is not None:
            held.close()
        _end_with(program, files)
        os.close(lock)  # before `finish`, which may block on the terminal's reader
        console.finish()
        loop.close()


def _end_with(program: Lifeline, files: DataDir) -> None:
    program.close()
    if program.removes_data:
        with suppress(OSError, UserError):  # what cannot be removed stays, and nobody can be told
            remove_data(files)


def _begin_log(files: DataDir) -> None:
    log_file = files.log("supervisor")
    rotate_if_large(log_file, logs.max_log_bytes())
    try:
        logs.configure(log_file)
    except OSError as problem:
        raise UserError(f"cannot write {log_file}: {problem.strerror}") from None
