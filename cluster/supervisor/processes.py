"""Forks one child with its own process group, log file and default signal handlers.

On Linux the child dies with its parent.
"""

import ctypes
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.model.cluster_view import ClusterView
from cluster.model.errors import InvariantViolated, StorageFailed, UserError
from cluster.model.recovery_progress import RecoveryProgress
from cluster.runtime import logs
from cluster.runtime.process_title import name_process
from cluster.supervisor.plan import ChildSpec, Reports

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1
_RESET_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
)
ENDED_CLEANLY: Final = "ended with exit status 0"
"""How a process has ended that stopped as it should."""
_FAILURE_MAX_CHARACTERS: Final = 1_000
_REPORTS_MAX_BYTES: Final = 65_536
"""More than a child ever writes: the capacity of a pipe on Linux. Reasons are truncated to fit."""


class Forked(NamedTuple):
    """A new child: its pid, and the pipe on which it reports that it is ready or why it failed."""

    pid: int
    report_fd: int


class ChildReport(NamedTuple):
    """One report from that pipe: facts about a ready child, the reason of a failed one, the
    progress of a starting one, or a broker's view of the cluster.
    """

    facts: dict[str, Any] | None
    failure: str | None
    progress: RecoveryProgress | None = None
    view: ClusterView | None = None


def fork_child(spec: ChildSpec, log_file: Path, close_inherited: Callable[[], None]) -> Forked:
    """Fork; in the child, run `spec.run` and never return. `close_inherited` runs in the child.

    Signals are blocked until the child has its own handlers: the inherited ones would write to its
    parent's signal pipe and stop the cluster. Raises OSError at a limit on processes or
    descriptors.
    """
    parent_pid = os.getpid()
    with suppress(OSError):  # the reader may be gone
        sys.stdout.flush()
        sys.stderr.flush()
    reader, writer = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _RESET_SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)
        os.close(writer)
        raise
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
        os.set_blocking(reader, False)
        return Forked(pid, reader)
    status = 1
    try:
        os.close(reader)
        close_inherited()
        try:
            _become_child(log_file, parent_pid)
            name_process(spec.label, log_file.parent.parent)
        except OSError as problem:
            _report(writer, {"failed": f"cannot write {log_file}: {problem.strerror}"})
            raise
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        status = _run(spec, writer)
    finally:
        logging.shutdown()
        os._exit(status)


def wait_for(pid: int) -> str | None:
    """How the process ended, as a verb phrase; None while it runs. Reaps it."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return "is gone"
    if not reaped:
        return None
    if os.WIFSIGNALED(status):
        return f"was killed by {_signal_name(os.WTERMSIG(status))}"
    code = os.waitstatus_to_exitcode(status)
    return f"ended with exit status {code}"


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a child; does nothing if it has already ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        log.debug("process %d ended before signal %d was sent", pid, number)


def read_reports(report_fd: int) -> list[ChildReport] | None:
    """The bytes that the child has written since the last call; None if it has closed the pipe."""
    try:
        text = os.read(report_fd, _REPORTS_MAX_BYTES)
    except BlockingIOError:
        return []
    return parse_reports(text) if text else None


def parse_reports(text: bytes) -> list[ChildReport]:
    """Parse one report per line. Malformed lines, which a broken child may write, are
    only logged.
    """
    reports = []
    for line in text.splitlines():
        try:
            message = json.loads(line)
            fields = message.get("progress")
            progress = None if fields is None else RecoveryProgress.from_json(fields)
            seen = message.get("view")
            view = None if seen is None else ClusterView.from_json(seen)
            reports.append(ChildReport(message.get("ready"), message.get("failed"), progress, view))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            log.warning("ignored a malformed report from a child process: %r", line[:100])
    return reports


def _signal_name(number: int) -> str:
    """A name such as `SIGKILL`; most real-time signals have no name and become `signal 40`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _become_child(log_file: Path, parent_pid: int) -> None:
    # A process group of its own, so that Ctrl-C reaches only the supervisor, which stops children
    # in order. Not a session of its own: Linux divides CPU time between sessions
    # (sched_autogroup), and processes with several threads then waited up to 0.45 s for the CPU.
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for number in _RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    _die_with_parent(parent_pid)
    log_fd = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null_fd = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null_fd, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, target)
    os.close(log_fd)
    os.close(null_fd)
    logs.configure(log_file)
    faulthandler.enable()
    gc.enable()


def _die_with_parent(parent_pid: int) -> None:
    """Linux: have the kernel kill this process when its parent dies, even of SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # the parent died between fork and prctl
            os._exit(1)


def _report(report_fd: int, message: dict[str, Any]) -> None:
    os.write(report_fd, json.dumps(message).encode() + b"\n")


def _run(spec: ChildSpec, report_fd: int) -> int:
    """Run the child. Returns its exit status."""
    log.info("%s is starting, pid %d", spec.label, os.getpid())
    try:
        spec.run(
            Reports(
                lambda facts: _report(report_fd, {"ready": facts}),
                lambda progress: _report(report_fd, {"progress": progress.to_json()}),
                lambda view: _report(report_fd, {"view": view.to_json()}),
            )
        )
    except (UserError, StorageFailed) as problem:
        log.error("%s", problem)  # noqa: TRY400 - a user error needs no traceback
        _report(report_fd, {"failed": str(problem)[:_FAILURE_MAX_CHARACTERS]})
        return 1
    except (Exception, InvariantViolated) as problem:
        log.exception("%s ends", spec.label)
        failure = f"{type(problem).__name__}: {problem}"
        _report(report_fd, {"failed": failure[:_FAILURE_MAX_CHARACTERS]})
        return 1
    log.info("%s stopped", spec.label)
    return 0
