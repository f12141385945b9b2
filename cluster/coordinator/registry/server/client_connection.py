"""One client's connection, with its buffers of received and of unsent bytes. Knows no loop."""

from cluster.coordinator.registry.wire.framing import FrameReader
from cluster.model.clocks import MonotonicMs
from cluster.runtime.acceptor import Accepted


class ClientConnection:
    """A client's transport and its buffers.

    Invariant: `unsent` is what the kernel did not take; once `is_closing`, nothing more is read and
    the transport is closed as soon as `unsent` is empty. Once `is_refused`, nothing more is read
    either, but its last answer comes later.
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
        """When it was accepted; once it is closing, since when."""
        self.last_read_ms = now_ms
        self.is_closing = False
        self.is_greeted = False
        self.is_reading_paused = False
        self.is_refused = False
        self.is_waiting_for_memory = False
        self.watched_events = 0
        """What the loop waits for; 0 while the transport is not watched."""

    @property
    def peer(self) -> str:
        """Address and port, for the log."""
        return f"{self.host}:{self.port}"

    def receive(self, scratch: memoryview) -> memoryview | None:
        """What has arrived, in `scratch`, empty if nothing has; None when the connection ended."""
        try:
            size_bytes = self.transport.receive_into(scratch)
        except (BlockingIOError, InterruptedError):
            return scratch[:0]
        except OSError:
            return None
        return scratch[:size_bytes] if size_bytes else None

    def send(self, content: bytes) -> bool:
        """Send what the kernel takes, keep the rest in `unsent`; False: the connection is lost."""
        self.unsent += content
        try:
            while self.unsent:
                del self.unsent[: self.transport.send_buffers([self.unsent])]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            return False
        return True
