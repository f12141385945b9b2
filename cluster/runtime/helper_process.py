"""A helper process for a long computation, started by a broker and connected to its loop.

It is a new interpreter rather than a fork, because a broker has threads. Its module has one
function, `work(message, send)`, which is called for each message in turn (see `helper_side`).
Messages are dictionaries that JSON can encode. The helper ends when its parent ends, because its
end of the pipe closes.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from cluster.runtime.json_lines import LineBuffer, line
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop

Message = Mapping[str, Any]
OnMessage = Callable[[Message], None]
OnEnd = Callable[[str], None]

NICENESS: Final = 10
"""Of helpers: clients of the broker come first wherever processors are scarce."""
_READ_BYTES: Final = 1 << 16
_REAP_MS: Final = 20
_ROOT: Final = str(Path(__file__).parents[2])
_SIDE: Final = "cluster.runtime.helper_side"


class HelperFailed(Exception):
    """A helper process cannot be started; the text gives the reason in one line."""


class HelperPort(Protocol):
    """A helper, as its owner uses it."""

    def send(self, message: Message) -> None:
        """Send a message to process; does nothing once the helper has ended."""
        ...

    def close(self, *, waits: bool = True) -> None:
        """End the helper at once; it delivers no more messages. May be called twice.

        Without `waits` it may take a few more milliseconds to end.
        """
        ...


HelperStarter = Callable[[str, OnMessage, OnEnd], HelperPort]
"""Starts a helper that runs the function `work` of the module named. Messages and the end are
reported later, on the loop's thread. Raises HelperFailed."""


class HelperProcess:
    """A running helper. Owned by the loop's thread, which never waits for the helper.

    Lifecycle: construction starts it; then any number of `send`, then `close`. If it ends by
    itself, `on_end` is called once with the reason.
    """

    def __init__(self, loop: EventLoop, module: str, on_message: OnMessage, on_end: OnEnd) -> None:
        self._loop = loop
        self._on_message = on_message
        self._on_end = on_end
        self._lines = LineBuffer()
        self._unsent = bytearray()
        inherited = os.environ.get("PYTHONPATH")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _SIDE, module, str(NICENESS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{_ROOT}:{inherited}" if inherited else _ROOT,
                    # Helpers may rely on unpredictable hashes.
                    "PYTHONHASHSEED": "random",
                },
                process_group=0,  # the supervisor forwards Ctrl-C
            )
        except OSError as error:
            raise HelperFailed(f"cannot start {module}: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._is_waiting_to_write = False
        self._is_open = True
        loop.watch(self._stdout, READABLE, self._on_readable)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message) -> None:
        if self._is_open:
            self._unsent += line(message)
            if not self._is_waiting_to_write:
                self._write()

    def close(self, *, waits: bool = True) -> None:
        if self._is_open:
            self._release()
            self._process.kill()
            if waits:
                self._process.wait()
            else:
                self._reap()

    def _reap(self) -> None:
        # A process of low priority may take long to end on a busy machine.
        if self._process.poll() is None:
            self._loop.call_after(_REAP_MS, self._reap)

    def _write(self) -> None:
        unsent = self._unsent
        try:
            while unsent:
                del unsent[: os.write(self._stdin.fileno(), unsent)]
        except BlockingIOError:
            if not self._is_waiting_to_write:
                self._is_waiting_to_write = True
                self._loop.watch(self._stdin, WRITABLE, self._on_writable)
            return
        except BrokenPipeError:
            unsent.clear()  # the end of its messages, read next, reports that it ended
        if self._is_waiting_to_write:
            self._is_waiting_to_write = False
            self._loop.unwatch(self._stdin)

    def _on_writable(self, _events: int) -> None:
        self._write()

    def _on_readable(self, _events: int) -> None:
        try:
            received = os.read(self._stdout.fileno(), _READ_BYTES)
        except BlockingIOError:
            return
        for message in self._lines.feed(received):
            self._on_message(message)
            if not self._is_open:
                return
        if not received:
            self._release()
            self._process.kill()  # it may have closed only its output
            self._report_end()

    def _report_end(self) -> None:
        status = self._process.poll()
        if status is None:
            self._loop.call_after(_REAP_MS, self._report_end)
        else:
            self._on_end(f"ended by signal {-status}" if status < 0 else f"ended ({status})")

    def _release(self) -> None:
        self._is_open = False
        self._loop.unwatch(self._stdout)
        if self._is_waiting_to_write:
            self._loop.unwatch(self._stdin)
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
