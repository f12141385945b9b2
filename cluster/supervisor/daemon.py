"""Runs a function in the background and waits until it is ready: `start --detach`."""

import os
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster.model.errors import UserError

OnUp = Callable[[], None]

_PID: Final = struct.Struct("=q")
_INTERRUPTED: Final = 130


def run_in_background(run: Callable[[OnUp], int], output: Path) -> int:
    """Run `run` in a daemon process; return when it has called its argument, or has ended.

    Until then its output goes to this terminal, afterwards to the file `output`. Returns 0 if the
    daemon is ready, otherwise its exit status. The daemon is forked twice and has its own session,
    so the terminal does not send it Ctrl-C. During the start, Ctrl-C is passed on to it as SIGTERM.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        if os.fork():
            os._exit(0)
        _run_and_exit(run, writer, output)
    os.close(writer)
    try:
        return _outcome(reader)
    finally:
        os.close(reader)
        os.waitpid(pid, 0)


def _outcome(reader: int) -> int:
    """The daemon's exit status, or 0 once it is ready. `reader` first delivers its pid,
    then a byte.
    """
    told = bytearray()
    is_interrupted = False

    def on_interrupt(_number: int, _frame: object) -> None:
        # A KeyboardInterrupt could come after a read and lose the bytes read.
        nonlocal is_interrupted
        is_interrupted = True
        if len(told) >= _PID.size:
            _tell_to_stop(told)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        while len(told) <= _PID.size and (part := os.read(reader, _PID.size + 1)):
            was_unknown = len(told) < _PID.size
            told += part
            if is_interrupted and was_unknown and len(told) >= _PID.size:
                _tell_to_stop(told)
    finally:
        signal.signal(signal.SIGINT, before)
    if is_interrupted:
        return _INTERRUPTED
    return told[_PID.size] if len(told) > _PID.size else 1


def _tell_to_stop(told: bytearray) -> None:
    (pid,) = _PID.unpack_from(told)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _run_and_exit(run: Callable[[OnUp], int], writer: int, output: Path) -> None:
    def on_up() -> None:
        sys.stdout.flush()
        _redirect(output)
        with suppress(BrokenPipeError):  # the waiting process is gone
            os.write(writer, b"\0")
        os.close(writer)

    status = 1
    try:
        os.write(writer, _PID.pack(os.getpid()))
        status = run(on_up)
    except UserError as problem:
        sys.stderr.write(f"error: {problem}\n")
    except BaseException:  # noqa: BLE001 - a bug: the process ends and must report why
        traceback.print_exc()
    finally:
        with suppress(OSError):  # it had been ready, so the pipe is closed
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(writer, bytes([status]))
        os._exit(status)


def _redirect(output: Path) -> None:
    null_fd = os.open(os.devnull, os.O_RDONLY)
    log_fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null_fd, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, target)
    os.close(null_fd)
    os.close(log_fd)
