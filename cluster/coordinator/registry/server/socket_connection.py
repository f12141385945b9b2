"""One accepted socket: what was received and not yet read, what is to be sent and not yet taken."""

import socket

from cluster.coordinator.registry.wire.framing import FrameReader

RECEIVE_BYTES = 64 * 1024


class SocketConnection:
    """A client's socket and its buffers.

    Invariant: `unsent` is what the kernel did not take; once `is_closing`, nothing more is read and
    the socket is closed as soon as `unsent` is empty.
    """

    __slots__ = (
        "awaited_since_ms",
        "connection_id",
        "frames",
        "host",
        "is_closing",
        "is_greeted",
        "is_reading_paused",
        "is_waiting_for_memory",
        "last_read_ms",
        "peer",
        "socket",
        "unsent",
        "watched_events",
    )

    def __init__(
        self,
        accepted: socket.socket,
        connection_id: int,
        address: tuple[str, int],
        max_record_bytes: int,
        now_ms: int,
    ) -> None:
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = accepted
        self.connection_id = connection_id
        self.host = address[0]
        self.peer = f"{address[0]}:{address[1]}"
        self.frames = FrameReader(max_record_bytes)
        self.unsent = bytearray()
        self.awaited_since_ms = now_ms
        """When it was accepted, or since when it has been closing."""
        self.last_read_ms = now_ms
        self.is_closing = False
        self.is_greeted = False
        self.is_reading_paused = False
        self.is_waiting_for_memory = False
        self.watched_events = 0
        """What the selector waits for; 0 while the socket is not registered there."""

    def receive(self) -> bytes | None:
        """What has arrived, b"" if nothing has; None when the peer is gone."""
        try:
            return self.socket.recv(RECEIVE_BYTES) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def send(self, content: bytes) -> bool:
        """Send what the kernel takes, keep the rest in `unsent`; False: the peer is gone."""
        self.unsent += content
        try:
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True
