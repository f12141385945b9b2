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
from contextlib import suppress
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
_FAILURE_MAX_CHARACTERS: Final = 1_000
_REPORTS_MAX_BYTES: Final = 65_536
"""More than a child ever says: the pipe holds no more, and a reason is cut."""


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
    it would arrive in its parent's signal pipe and stop the cluster. Raises OSError where there is
    no room for one more process or descriptor.
    """
    parent_pid = os.getpid()
    with suppress(OSError):  # nobody may be reading
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
        except OSError as problem:
            _report(writer, {"failed": f"cannot write {log_file}: {problem.strerror}"})
            raise
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
        return f"was killed by {_signal_name(os.WTERMSIG(status))}"
    code = os.waitstatus_to_exitcode(status)
    return f"ended with exit status {code}"


def send_signal(pid: int, number: int) -> None:
    """Signal a child that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        log.debug("pid %d is gone before signal %d", pid, number)


def read_reports(report_fd: int) -> list[ChildReport] | None:
    """What the child has written since the last call; None for a pipe that it has closed."""
    try:
        text = os.read(report_fd, _REPORTS_MAX_BYTES)
    except BlockingIOError:
        return []
    return parse_reports(text) if text else None


def parse_reports(text: bytes) -> list[ChildReport]:
    """One report per line. What is none is logged and left out: a child may go wild."""
    reports = []
    for line in text.splitlines():
        try:
            message = json.loads(line)
            reports.append(ChildReport(message.get("ready"), message.get("failed")))
        except (ValueError, AttributeError, RecursionError):
            log.warning("a child's report is none: %r", line[:100])
    return reports


def _signal_name(number: int) -> str:
    """`SIGKILL`; real-time signals but the first and the last have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _become_child(log_file: Path, parent_pid: int) -> None:
    # Ctrl-C in the terminal is the supervisor's to answer, in order. Not a session of its own:
    # Linux shares a processor among sessions (sched_autogroup), and a process whose threads it has
    # spread over the processors then waited up to 0.45 s for its turn.
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
    """Linux: the kernel kills this process when its parent is gone, even by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died between fork and prctl
            os._exit(1)


def _report(report_fd: int, message: dict[str, Any]) -> None:
    os.write(report_fd, json.dumps(message).encode() + b"\n")


def _run(spec: ChildSpec, report_fd: int) -> int:
    """Run the child. Returns its exit status."""
    log.info("%s starts, pid %d", spec.label, os.getpid())
    try:
        spec.run(lambda facts: _report(report_fd, {"ready": facts}))
    except (UserError, StorageFailed) as problem:
        log.error("%s", problem)  # noqa: TRY400 - a person's mistake, not a bug of ours
        _report(report_fd, {"failed": str(problem)[:_FAILURE_MAX_CHARACTERS]})
        return 1
    except (Exception, InvariantViolated) as problem:
        log.exception("%s ends", spec.label)
        failure = f"{type(problem).__name__}: {problem}"
        _report(report_fd, {"failed": failure[:_FAILURE_MAX_CHARACTERS]})
        return 1
    log.info("%s stopped", spec.label)
    return 0
