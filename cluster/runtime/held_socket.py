"""A listening socket that the supervisor holds for a child.

Connections wait in its listen queue until the child runs, and while it restarts.
"""

import errno
import logging
import socket
from typing import Final

from cluster.model.errors import UserError

log = logging.getLogger(__name__)

_BACKLOG: Final = 128


class HeldSocket:
    """The supervisor opens it before publishing the address; its child inherits it."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._socket: socket.socket | None = None

    def open(self) -> None:
        """Listen, unless it already does. If that fails, the child reports the reason."""
        if self._socket is None:
            try:
                self._socket = listen(self._host, self._port)
            except UserError as problem:
                log.warning("%s", problem)

    def close(self) -> None:
        """Stop listening; in another child, close the inherited copy."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def taken(self) -> socket.socket:
        """The listening socket in the child. Raises UserError if it cannot listen."""
        return self._socket or listen(self._host, self._port)


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free one. Raises UserError."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as problem:
        listening.close()
        hint = ": choose another --dashboard-port" if problem.errno == errno.EADDRINUSE else ""
        raise UserError(f"cannot listen on {host}:{port}: {problem.strerror}{hint}") from None
    return listening
