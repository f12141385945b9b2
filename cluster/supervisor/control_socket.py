"""The supervisor's Unix socket: per connection one JSON line as request and one as reply.

The file has mode 0600, because anybody who can connect can stop the cluster.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import launcher, shown
from cluster.runtime.loop import READABLE, EventLoop

Answer = Callable[[dict[str, Any]], dict[str, Any]]

_LINE_MAX_BYTES: Final = 1 << 20
_PATH_MAX_BYTES: Final = 100
"""`sun_path` holds 108 bytes on Linux, 104 on macOS."""


class ControlSocket:
    """Listens as long as the supervisor lives; answers each request within one turn of the loop."""

    def __init__(self, path: Path, loop: EventLoop, answer: Answer) -> None:
        """Bind and listen, replacing the socket file of a dead supervisor. Raises OSError."""
        self._path = path
        self._loop = loop
        self._answer = answer
        self._connections: set[socket.socket] = set()
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short(path) as address:
            self._listener.bind(address)
        path.chmod(0o600)
        self._inode = path.stat().st_ino
        self._listener.listen(16)
        self._listener.setblocking(False)
        loop.watch(self._listener, READABLE, self._on_connection)

    def close(self) -> None:
        """Stop listening and remove the file, unless it is another supervisor's by now."""
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


def ask_supervisor(path: Path, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """Send one request and return the reply.

    Raises UserError with the supervisor's refusal, or when it does not answer within `timeout_s`,
    and NotRunning when there is no supervisor.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            with _short(path) as address:
                connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline()
    except TimeoutError:
        raise UserError(f"the supervisor of {path.parent.parent} does not answer") from None
    except OSError:
        raise NotRunning(path.parent.parent) from None
    if not line:
        raise NotRunning(path.parent.parent)
    reply: dict[str, Any] = json.loads(line)
    if not reply.pop("ok"):
        raise UserError(reply["error"])
    return reply


class NotRunning(UserError):
    """No supervisor answers for this data directory."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(
            f"no cluster is running in {shown(data_dir)}:"
            f" start one with `{launcher(data_dir)} start`"
        )


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A socket address for a path of any length: long ones go through an open folder in /proc."""
    if len(os.fsencode(path)) <= _PATH_MAX_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
