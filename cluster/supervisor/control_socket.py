"""Serves the supervisor's Unix socket: one JSON line per connection as request, one as reply.

The socket file has mode 0600, because anybody who can connect can stop the cluster.
`datadir.supervisor_socket.py` is the other side.
"""

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cluster.datadir.supervisor_socket import short_address
from cluster.model.errors import UserError
from cluster.runtime.loop import READABLE, EventLoop

Answer = Callable[[dict[str, Any]], dict[str, Any]]

_LINE_MAX_BYTES: Final = 1 << 20


class ControlSocket:
    """Listens as long as the supervisor lives; answers each request within one loop iteration."""

    def __init__(self, path: Path, loop: EventLoop, answer: Answer) -> None:
        """Bind and listen, replacing the socket file of a dead supervisor. Raises OSError."""
        self._path = path
        self._loop = loop
        self._answer = answer
        self._connections: set[socket.socket] = set()
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_address(path) as address:
            self._listener.bind(address)
        path.chmod(0o600)
        self._inode = path.stat().st_ino
        self._listener.listen(16)
        self._listener.setblocking(False)
        loop.watch(self._listener, READABLE, self._on_connection)

    def close(self) -> None:
        """Stop listening and remove the file, unless it already belongs to another supervisor."""
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
        for connection in list(self._connections):
            self._drop(connection)
        self._loop.unwatch(self._listener)
        self._listener.close()

    def close_inherited(self) -> None:
        """In a forked child: close the descriptors, without touching the file or the loop."""
        for connection in self._connections:
            connection.close()
        self._listener.close()

    def _on_connection(self, _events: int) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._connections.add(connection)
            received = bytearray()
            self._loop.watch(
                connection, READABLE, lambda _events: self._on_readable(connection, received)
            )

    def _on_readable(self, connection: socket.socket, received: bytearray) -> None:
        try:
            part = connection.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        received += part
        if received.endswith(b"\n"):
            reply = json.dumps(self._reply_to(bytes(received))).encode() + b"\n"
            with suppress(OSError):
                connection.setblocking(True)
                connection.settimeout(1.0)  # an answer fits the socket's buffer
                connection.sendall(reply)
            self._drop(connection)
        elif not part or len(received) > _LINE_MAX_BYTES:
            self._drop(connection)

    def _reply_to(self, line: bytes) -> dict[str, Any]:
        try:
            return {"ok": True, **self._answer(json.loads(line))}
        except UserError as problem:
            return {"ok": False, "error": str(problem)}
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            return {"ok": False, "error": f"cannot understand the request: {problem!r}"}

    def _drop(self, connection: socket.socket) -> None:
        self._connections.discard(connection)
        self._loop.unwatch(connection)
        connection.close()
