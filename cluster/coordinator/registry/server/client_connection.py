"""A client's connection with its buffers of received and unsent bytes. Knows no loop."""

from cluster.coordinator.registry.wire.framing import FrameReader
from cluster.model.clocks import MonotonicMs
from cluster.runtime.acceptor import Accepted


class ClientConnection:
    """A client's transport and its buffers.

    Invariant: `unsent` has the bytes that the kernel did not accept. Once `is_closing`, nothing
    more is read, and the transport is closed as soon as `unsent` is empty. Once `is_refused`,
    nothing more is read either, but the last answer is sent later.
    """

    __slots__ = (
        "awaited_since_ms",
        "connection_id",
        "frames",
        "host",
        "is_closing",
        "is_greeted",
        "is_reading_paused",
        "is_refused",
        "is_waiting_for_memory",
        "last_read_ms",
        "listener_name",
        "port",
        "transport",
        "unsent",
        "watched_events",
    )

    def __init__(
        self, accepted: Accepted, connection_id: int, max_record_bytes: int, now_ms: MonotonicMs
    ) -> None:
        self.transport = accepted.transport
        self.connection_id = connection_id
        self.host = accepted.host
        self.port = accepted.port
        self.listener_name = accepted.listener_name
        self.frames = FrameReader(max_record_bytes)
        self.unsent = bytearray()
        self.awaited_since_ms = now_ms
        """When the connection was accepted, or since when it is closing."""
        self.last_read_ms = now_ms
        self.is_closing = False
        self.is_greeted = False
        self.is_reading_paused = False
        self.is_refused = False
        self.is_waiting_for_memory = False
        self.watched_events = 0
        """The events that the loop waits for; 0 while the transport is not watched."""

    @property
    def peer(self) -> str:
        """The address and port for the log."""
        return f"{self.host}:{self.port}"

    def receive(self, scratch: memoryview) -> memoryview | None:
        """Received bytes in `scratch`, empty if there are none; None when the connection has
        ended.
        """
        try:
            size_bytes = self.transport.receive_into(scratch)
        except (BlockingIOError, InterruptedError):
            return scratch[:0]
        except OSError:
            return None
        return scratch[:size_bytes] if size_bytes else None

    def send(self, content: bytes) -> bool:
        """Send the bytes that the kernel accepts and keep the rest in `unsent`; False: the
        connection is lost.
        """
        self.unsent += content
        try:
            while self.unsent:
                del self.unsent[: self.transport.send_buffers([self.unsent])]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            return False
        return True
