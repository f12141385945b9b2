"""Acceptor and owner of the channels: listening sockets, connection limits, idle connections.

Limits are Kafka's: `max.connections` holds new connections back in the listen queue,
`max.connections.per.ip` closes them, `connections.max.idle.ms` closes silent ones,
`queued.max.request.bytes` mutes channels while the server holds too many request bytes.
"""

import logging
import socket
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster.brokers.network.buffer_pool import BufferPool
from cluster.brokers.network.channel import Channel, MuteReason
from cluster.model.errors import UserError
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import READABLE, EventLoop

log = logging.getLogger(__name__)

_SCRATCH_BYTES: Final = 256 * 1024
"""The shared receive buffer: what one channel may process in one turn, which keeps turns fair."""
_ACCEPTS_PER_TURN: Final = 64
_ACCEPT_RETRY_MS: Final = 1_000
"""When the process is out of descriptors: they may be files, so no connection need ever close."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address to listen on; port 0 asks the system for a free one."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Limits of the server; a negative idle time or number of queued bytes is no limit."""

    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_ms: int
    queued_max_request_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    listen_backlog: int


class SocketServer:
    """All client connections of one broker; implements what a channel needs of its owner."""

    def __init__(
        self,
        loop: EventLoop,
        options: NetworkOptions,
        on_frame: Callable[[Channel, memoryview], None],
    ) -> None:
        self.loop = loop
        self.max_frame_bytes = options.max_frame_bytes
        self._options = options
        self._on_frame = on_frame
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._listening: dict[str, socket.socket] = {}
        self._accepting = False
        self._channels: dict[Channel, str] = {}
        self._per_ip: Counter[str] = Counter()
        self._queued_bytes = 0
        self.failed_count = 0
        """Connections that were closed because of what came, or did not come, through them."""
        self._buffers = BufferPool()
        self._waiting_for_memory: deque[Channel] = deque()
        if options.max_idle_ms >= 0:
            loop.call_every(max(100, min(options.max_idle_ms // 4, 10_000)), self._close_idle)

    def bind(self, listener: Listener) -> int:
        """Listen, without accepting yet; the port. Raises UserError when the address is taken."""
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._options.receive_buffer_bytes > 0:
            listening.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, self._options.receive_buffer_bytes
            )
        try:
            listening.bind((listener.host, listener.port))
        except OSError as error:
            listening.close()
            raise UserError(
                f"cannot listen on {listener.host}:{listener.port} for {listener.name}:"
                f" {error.strerror}"
            ) from error
        listening.listen(self._options.listen_backlog)
        listening.setblocking(False)
        self._listening[listener.name] = listening
        port: int = listening.getsockname()[1]
        return port

    def start_accepting(self) -> None:
        """Serve what is in the listen queues, and from now on; nothing once closed."""
        if not self._accepting and self._listening:
            self._accepting = True
            for name, listening in self._listening.items():
                self.loop.watch(listening, READABLE, partial(self._accept, name))

    def stop_accepting(self) -> None:
        """Leave new connections in the listen queue."""
        if self._accepting:
            self._accepting = False
            for listening in self._listening.values():
                self.loop.unwatch(listening)

    def close(self) -> None:
        """Close every connection and listening socket."""
        self.stop_accepting()
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()  # a channel that closes must not start the accepting again
        for channel in list(self._channels):
            channel.close(None)

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._channels)

    def muted_count(self, reason: MuteReason) -> int:
        """How many connections are not read for this reason."""
        return sum(1 for channel in self._channels if reason & channel.mute_reasons)

    # -- what channels ask of their owner --------------------------------------------------------

    def scratch(self) -> memoryview:
        """The shared receive buffer."""
        return self._scratch

    def on_frame(self, channel: Channel, frame: memoryview) -> None:
        """Hand a frame to the request layer."""
        self._on_frame(channel, frame)

    def on_closed(self, channel: Channel, reason: str | None) -> None:
        """Forget the channel; one line in the log when the peer was at fault."""
        address = self._channels.pop(channel)
        self._per_ip[address] -= 1
        if self._per_ip[address] <= 0:
            del self._per_ip[address]
        if reason is not None:
            self.failed_count += 1
            log.warning(
                "closed connection from %s: %s", channel.peer, reason, extra=of_peer(address)
            )
        if not self._is_full():
            self.start_accepting()

    def take_buffer(self, channel: Channel, size_bytes: int) -> bytearray | None:
        """A buffer for a frame that is being received; mute the channel when too much is held.

        A single frame is always admitted when nothing else is held, so none can starve.
        """
        limit = self._options.queued_max_request_bytes
        if limit > 0 and self._queued_bytes > 0 and self._queued_bytes + size_bytes > limit:
            channel.mute_reasons |= MuteReason.MEMORY
            self._waiting_for_memory.append(channel)
            return None
        self._queued_bytes += size_bytes
        return self._buffers.take(size_bytes)

    def give_back(self, buffer: bytearray, size_bytes: int) -> None:
        """Keep the buffer for another frame; channels that wait for memory go on soon."""
        self._queued_bytes -= size_bytes
        self._buffers.give_back(buffer)
        if self._waiting_for_memory:
            self.loop.defer(self._admit_waiting)

    def _admit_waiting(self) -> None:
        for _ in range(len(self._waiting_for_memory)):
            self._waiting_for_memory.popleft().unmute(MuteReason.MEMORY)

    # -- accepting -------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        return len(self._channels) >= self._options.max_connections

    def _accept(self, listener_name: str, _events: int) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._is_full():
                log.warning(
                    "holding new connections back: %d are open (max.connections)",
                    len(self._channels),
                )
                self.stop_accepting()
                return
            try:
                connection, address = self._listening[listener_name].accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors: serve those we have, and try again.
                log.warning("cannot accept a connection: %s", error.strerror)
                self.stop_accepting()
                self.loop.call_after(_ACCEPT_RETRY_MS, self.start_accepting)
                return
            self._admit(connection, address[0], address[1], listener_name)

    def _admit(self, connection: socket.socket, host: str, port: int, listener_name: str) -> None:
        if self._per_ip[host] >= self._options.max_connections_per_ip:
            log.warning(
                "refused connection from %s:%d: %d are open from that address"
                " (max.connections.per.ip)",
                host,
                port,
                self._per_ip[host],
                extra=of_peer(host),
            )
            connection.close()
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._options.send_buffer_bytes > 0:
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, self._options.send_buffer_bytes
            )
        self._per_ip[host] += 1
        channel = Channel(connection, f"{host}:{port}", listener_name, self)
        self._channels[channel] = host

    def _close_idle(self) -> None:
        idle_since_ms = self.loop.now_ms - self._options.max_idle_ms
        idle = [item for item in self._channels.items() if item[0].last_active_ms < idle_since_ms]
        for channel, host in idle:
            if not channel.mute_reasons:
                log.info("closing idle connection from %s", channel.peer, extra=of_peer(host))
                channel.close(None)
