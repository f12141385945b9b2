"""A worker's connection to the load test that started it: commands on stdin, messages on stdout.

The worker ends when either pipe closes, so it never outlives its parent.
"""

import os
import select
from typing import Any

from cluster.loadtest.worker_orders import Order, read_order
from cluster.runtime.json_lines import LineBuffer, line

_READ_BYTES = 65_536


class ParentGone(Exception):
    """The parent process has closed a pipe, so this worker must end."""


class ParentPipe:
    """The two pipes. Reading never waits, except for the first line."""

    def __init__(self, commands: int = 0, messages: int = 1) -> None:
        """`commands` and `messages`: the descriptors to read from and to write to."""
        self._commands = commands
        self._messages = messages
        self._poll = select.poll()
        self._poll.register(commands, select.POLLIN)
        self._lines = LineBuffer()
        self._backlog: list[dict[str, Any]] = []
        """Commands that arrived together with `go`."""

    def order(self) -> Order:
        """Wait for the first line, the order. Raises ParentGone."""
        text = bytearray()
        while not text.endswith(b"\n"):  # byte by byte, which leaves later commands in the pipe
            byte = os.read(self._commands, 1)
            if not byte:
                raise ParentGone
            text += byte
        return read_order(bytes(text))

    def commands(self, timeout_s: float = 0.0) -> list[dict[str, Any]]:
        """New commands; waits up to `timeout_s` for the first. Raises ParentGone."""
        if self._backlog:
            commands, self._backlog = self._backlog, []
            return commands
        if not self._poll.poll(timeout_s * 1000):
            return []
        received = os.read(self._commands, _READ_BYTES)
        if not received:
            raise ParentGone
        return self._lines.feed(received)

    def tell(self, kind: str, **document: Any) -> None:
        """Send one message. Raises ParentGone."""
        message = memoryview(line({"kind": kind, **document}))
        try:
            while message:
                message = message[os.write(self._messages, message) :]
        except BrokenPipeError:
            raise ParentGone from None

    def await_go(self) -> int | None:
        """Report `ready` and wait for `go`. Returns the start time in us, None to end at once."""
        self.tell("ready")
        while True:
            commands = self.commands(timeout_s=1.0)
            for number, command in enumerate(commands):
                if command["command"] == "go":
                    self._backlog = commands[number + 1 :]
                    start_us: int = command["start_us"]
                    return start_us
                if command["command"] == "stop":
                    return None
