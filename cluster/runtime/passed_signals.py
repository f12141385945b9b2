"""Runs a command in the foreground and passes signals on to it."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_PASSED: Final = _ENDING | {signal.SIGUSR1, signal.SIGUSR2}
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
_BY_KERNEL: Final = 0x80
"""`si_code` on Linux of a signal that no process has sent, such as that of Ctrl-C."""
_NOT_EXECUTABLE: Final = 126
_NOT_FOUND: Final = 127


class Ended(NamedTuple):
    """How a command has ended."""

    status: int
    """Its exit status as a shell gives it: 128+N if signal N ended it, 127 if it was not found."""
    was_interrupted: bool
    """Whether a signal came here that ends programs."""
    problem: str | None = None
    """Why it could not be run."""


def run_passing_signals(words: Sequence[str], environment: Mapping[str, str]) -> Ended:
    """Run the command until it ends; it has the terminal, and this process group.

    Signals that this process gets go on to it, except those of the terminal, which it gets itself.
    """
    waited = {*_PASSED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        try:
            pid = os.posix_spawnp(
                words[0],
                list(words),
                environment,
                setsigmask=before,
                setsigdef=[*_IGNORED_BY_PYTHON, *_handled_here()],
            )
        except OSError as problem:
            is_missing = isinstance(problem, FileNotFoundError)
            status = _NOT_FOUND if is_missing else _NOT_EXECUTABLE
            return Ended(status, False, f"cannot run {words[0]}: {problem.strerror}")
        return _wait(pid, waited)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _handled_here() -> list[signal.Signals]:
    """Signals with a handler of Python, which a new program does not have."""
    return [number for number in _PASSED if callable(signal.getsignal(number))]


def _wait(pid: int, waited: set[signal.Signals]) -> Ended:
    was_interrupted = False
    while True:
        reaped, status = os.waitpid(pid, os.WNOHANG)
        if reaped:
            code = os.waitstatus_to_exitcode(status)
            return Ended(code if code >= 0 else 128 - code, was_interrupted)
        number, is_from_terminal = _next_signal(waited)
        if number == signal.SIGCHLD:
            continue
        was_interrupted = was_interrupted or number in _ENDING
        if not is_from_terminal:
            os.kill(pid, number)  # not reaped yet, so the number is still its own


def _next_signal(waited: set[signal.Signals]) -> tuple[int, bool]:
    """The next signal, and whether the terminal has sent it to the whole process group."""
    if hasattr(signal, "sigwaitinfo"):
        found = signal.sigwaitinfo(waited)
        return found.si_signo, found.si_code == _BY_KERNEL
    number = signal.sigwait(waited)  # macOS
    return number, number in (signal.SIGINT, signal.SIGQUIT) and sys.stdin.isatty()
