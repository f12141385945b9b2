"""Connections between processes of one machine: Unix sockets that keep message boundaries.

A message of some bytes costs a send, a wake-up and a receive, some 5 us of each side's CPU where
ZeroMQ takes 40, because no thread and no queue stands between. Both ends must belong to the same
user. The address is an abstract name of Linux: it needs no file, ends with its process, and is
visible in one network namespace only. Elsewhere there are no local connections.
"""

import hashlib
import logging
import os
import socket
import struct
from typing import Final

from cluster.runtime.loop import READABLE, EventLoop
from cluster.runtime.peer_sockets import OnLocalClosed, OnLocalMessage

log = logging.getLogger(__name__)

MESSAGE_MAX_BYTES: Final = 16 * 1024
"""A longer message is cut off when it is received."""
_CONNECTIONS_MAX: Final = 1_024
_BACKLOG: Final = 64
_RECEIVED_MAX: Final = 4
"""More messages than one follower has under way."""
_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a peer."""


def local_address(endpoint: str) -> str:
    """The abstract name that belongs to an endpoint between brokers.

    Of a secure cluster it is as secret as the endpoint, which contains a key.
    """
    return f"\0milena-{hashlib.sha256(endpoint.encode()).hexdigest()[:32]}"


class UnixConnection:
    """One end of a connection, watched by the loop."""

    def __init__(
        self,
        loop: EventLoop,
        connected: socket.socket,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> None:
        """`on_message` must not keep the view; `on_closed` is called when the peer has gone."""
        connected.setblocking(False)
        self._loop = loop
        self._socket = connected
        self._on_message = on_message
        self._on_closed = on_closed
        self._buffer = bytearray(MESSAGE_MAX_BYTES)
        self._view = memoryview(self._buffer).toreadonly()
        self.is_open = True
        loop.watch(connected, READABLE, self._on_ready)

    def send(self, message: bytes) -> bool:
        """Send at once; False if the peer has gone or does not receive."""
        if not self.is_open:
            return False
        try:
            self._socket.send(message)
        except OSError:
            return False  # if the peer has gone, the loop reports it
        return True

    def receive(self) -> bool:
        """Receive one message if there is one; returns whether there was."""
        if not self.is_open:
            return False
        try:
            count = self._socket.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            count = 0
        if count == 0:
            self._lose()
            return False
        self._on_message(self, self._view[:count])
        return True

    def close(self) -> None:
        """Close this end without a call of `on_closed`."""
        if self.is_open:
            self.is_open = False
            self._loop.unwatch(self._socket)
            self._socket.close()

    def _on_ready(self, _events: int) -> None:
        self.receive()

    def _lose(self) -> None:
        self.close()
        self._on_closed(self)


class UnixListener:
    """Accepts the local connections of this user's processes to one address."""

    def __init__(
        self,
        loop: EventLoop,
        listening: socket.socket,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> None:
        self._loop = loop
        self._socket = listening
        self._on_message = on_message
        self._on_closed = on_closed
        self._connections: set[UnixConnection] = set()
        """Those that were open when the last one was accepted."""
        loop.watch(listening, READABLE, self._on_ready)

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._loop.unwatch(self._socket)
        self._socket.close()
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def receive_all(self) -> None:
        """Receive what has been sent so far by every connection, also by those to be accepted.

        At most some messages of each, so that no peer can hold up the loop.
        """
        for _ in range(_BACKLOG):
            if not self._accept():
                break
        for connection in list(self._connections):
            for _ in range(_RECEIVED_MAX):
                if not connection.receive():
                    break

    def _on_ready(self, _events: int) -> None:
        self._accept()

    def _accept(self) -> bool:
        """Accept a connection if one waits; returns whether one did."""
        try:
            accepted, _ = self._socket.accept()
        except BlockingIOError:
            return False
        except OSError as problem:
            log.warning("cannot accept a local connection: %s", problem)
            return False
        self._connections = {one for one in self._connections if one.is_open}
        if len(self._connections) >= _CONNECTIONS_MAX or not _is_of_this_user(accepted):
            accepted.close()
            return True
        connection = UnixConnection(self._loop, accepted, self._on_message, self._on_closed)
        self._connections.add(connection)
        return True


class UnixSockets:
    """Makes local connections by Unix sockets."""

    def listen(
        self,
        loop: EventLoop,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> UnixListener | None:
        """Listen at a local address; None if that is impossible, which is logged."""
        try:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                listening.setblocking(False)
                listening.bind(address)
                listening.listen(_BACKLOG)
            except OSError:
                listening.close()
                raise
        except OSError as problem:
            log.info("brokers of this machine reach this one by ZeroMQ only: %s", problem)
            return None
        return UnixListener(loop, listening, on_message, on_closed)

    def connect(
        self,
        loop: EventLoop,
        address: str,
        on_message: OnLocalMessage,
        on_closed: OnLocalClosed,
    ) -> UnixConnection | None:
        """Connect to a local address; None if nobody of this user listens there."""
        try:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                connected.setblocking(False)
                connected.connect(address)
            except OSError:
                connected.close()
                raise
        except OSError:
            return None
        if not _is_of_this_user(connected):
            connected.close()
            return None
        return UnixConnection(loop, connected, on_message, on_closed)


def _is_of_this_user(connected: socket.socket) -> bool:
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.getuid())
