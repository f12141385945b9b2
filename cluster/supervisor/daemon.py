"""Runs something in the background and waits until it is up: `start --detach`."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

OnUp = Callable[[], None]


def run_in_background(run: Callable[[OnUp], int], output: Path) -> int:
    """Fork `run` away from the terminal; return once it has called its argument, or has ended.

    Until then it writes to this terminal, afterwards to `output`. Returns 0 when it is up, else
    its exit status. Twice forked, so it is nobody's child and no terminal's foreground.
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
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read(1)
    return answer[0] if answer else 1


def _run_and_exit(run: Callable[[OnUp], int], writer: int, output: Path) -> None:
    def on_up() -> None:
        sys.stdout.flush()
        _redirect(output)
        os.write(writer, b"\0")
        os.close(writer)

    status = 1
    try:
        status = run(on_up)
        os.write(writer, bytes([status]))
    except OSError:
        pass  # it was up before, and the pipe is closed
    finally:
        sys.stdout.flush()
        os._exit(status)


def _redirect(output: Path) -> None:
    null_fd = os.open(os.devnull, os.O_RDONLY)
    log_fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null_fd, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, target)
    os.close(null_fd)
    os.close(log_fd)
