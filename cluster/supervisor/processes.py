"""Forks one child and prepares it: own session, own log, default signals, death with its parent."""

import ctypes
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.model.errors import InvariantViolated, StorageFailed, UserError
from cluster.runtime import logs
from cluster.supervisor.plan import ChildSpec

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1
_RESET_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
)


class Forked(NamedTuple):
    """A new child: its pid, and the pipe on which it says that it is ready or why it is not."""

    pid: int
    report_fd: int


class ChildReport(NamedTuple):
    """What came through that pipe: facts of a ready child, or the reason of a failed one."""

    facts: dict[str, Any] | None
    failure: str | None


def fork_child(spec: ChildSpec, log_file: Path, close_inherited: Callable[[], None]) -> Forked:
    """Fork; in the child, run `spec.run` and never return. `close_inherited` runs in the child.

    Signals wait until the child has handlers of its own: through those it inherits, what is sent to
    it would arrive in its parent's signal pipe and stop the cluster.
    """
    reader, writer = os.pipe()
    parent_pid = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _RESET_SIGNALS)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writer)
        os.set_blocking(reader, False)
        return Forked(pid, reader)
    status = 1
    try:
        os.close(reader)
        close_inherited()
        _become_child(log_file, parent_pid)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        status = _run(spec, writer)
    finally:
        logging.shutdown()
        os._exit(status)


def wait_for(pid: int) -> str | None:
    """How the process ended, in words; None while it runs. Reaps it."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return "is gone"
    if not reaped:
        return None
    if os.WIFSIGNALED(status):
        return f"was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.waitstatus_to_exitcode(status)
    return f"ended with exit status {code}"


def send_signal(pid: int, number: int) -> None:
    """Signal a child that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        log.debug("pid %d is gone before signal %d", pid, number)


def read_report(report_fd: int) -> ChildReport | None:
    """What the child wrote; None for a pipe that it closed without a word."""
    text = os.read(report_fd, 65_536)
    if not text:
        return None
    message = json.loads(text)
    return ChildReport(message.get("ready"), message.get("failed"))


def _become_child(log_file: Path, parent_pid: int) -> None:
    os.setsid()  # Ctrl-C in the terminal is the supervisor's to answer, in order
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
    logs.configure()
    faulthandler.enable()
    gc.enable()


def _die_with_parent(parent_pid: int) -> None:
    """Linux: the kernel kills this process when its parent is gone, even by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died between fork and prctl
            os._exit(1)


def _run(spec: ChildSpec, report_fd: int) -> int:
    """Run the child. Returns its exit status."""

    def report(message: dict[str, Any]) -> None:
        os.write(report_fd, json.dumps(message).encode())

    log.info("%s starts, pid %d", spec.label, os.getpid())
    try:
        spec.run(lambda facts: report({"ready": facts}))
    except (UserError, StorageFailed) as problem:
        log.error("%s", problem)  # noqa: TRY400 - a person's mistake, not a bug of ours
        report({"failed": str(problem)})
        return 1
    except (Exception, InvariantViolated) as problem:
        log.exception("%s ends", spec.label)
        report({"failed": f"{type(problem).__name__}: {problem}"})
        return 1
    log.info("%s stopped", spec.label)
    return 0
