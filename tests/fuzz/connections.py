"""TCP connections that send whatever they are given, a frame at a time."""

import contextlib
import socket
from random import Random

from tests.support.running_cluster import Address
from tests.support.waiting import is_readable

_PATIENCE_S = 0.005
"""For an answer: a frame that announces more than it holds gets none."""


class Connections:
    """Some at a time, each opened again when the server has closed it; answers are thrown away."""

    def __init__(self, address: Address, count: int, greeting: bytes = b"") -> None:
        """What each says first is the greeting, though not always."""
        self._address = address
        self._greeting = greeting
        self._open: list[socket.socket | None] = [None] * count
        self.closed_count = 0
        self.answered_count = 0

    def send(self, random: Random, frame: bytes) -> None:
        """On one of them, once the frame before has had its effect, or a while to have it."""
        slot = random.randrange(len(self._open))
        connection = self._open[slot]
        if connection is not None:
            connection = self._settled(connection)
        if connection is None:
            connection = socket.create_connection(self._address, 30.0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            if random.random() < 0.95:
                frame = self._greeting + frame
        self._open[slot] = connection
        with contextlib.suppress(OSError):  # full, or closed: seen when it is looked at next
            connection.sendall(frame)

    def close(self) -> None:
        """Close all of them."""
        for connection in filter(None, self._open):
            connection.close()

    def _settled(self, connection: socket.socket) -> socket.socket | None:
        """The connection after its answer, None where the server has closed it."""
        is_readable(connection, _PATIENCE_S)
        try:
            while connection.recv(1 << 16):
                self.answered_count += 1
        except BlockingIOError:
            return connection
        except OSError:
            pass
        connection.close()
        self.closed_count += 1
        return None
