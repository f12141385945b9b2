"""Owner of the channels: connection limits, total memory, idle connections.

The limits are Kafka's. `max.connections`, of the broker and of each listener, leaves new
connections in the listen queue; `max.connections.per.ip` closes them; `connections.max.idle.ms`
closes idle ones. `queued.max.request.bytes` bounds the memory of incomplete requests: the newest
channel is muted, the oldest always continues. A quarter of it bounds unsent answers.
"""

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cluster.brokers.network.buffer_pool import BufferPool, capacity_for
from cluster.brokers.network.channel import BACKLOG_MAX_BYTES, Channel
from cluster.brokers.network.connection import MuteReason
from cluster.model.errors import PeerError
from cluster.runtime.acceptor import (
    Accepted,
    AcceptOptions,
    Acceptor,
    AcceptRates,
    Listener,
    ListeningSocket,
    Securing,
    listen,
)
from cluster.runtime.heap_trim import HeapTrim
from cluster.runtime.host_addresses import addresses_of
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import EventLoop
from cluster.runtime.receive_ledger import ReceiveLedger
from cluster.runtime.unsent_ledger import UnsentLedger

log = logging.getLogger(__name__)

_SCRATCH_BYTES: Final = 256 * 1024
"""The shared receive buffer: what one channel may process in one turn, which keeps turns fair."""
_SCARCE_SCRATCH_BYTES: Final = 2 * BACKLOG_MAX_BYTES
"""The part of it that is used while channels hold much that they received and cannot hand over."""
_OVERDUE_CHECK_MS: Final = 1_000
_TRIM_CHECK_MS: Final = 5_000
_DELETED_CHECK_MS: Final = 5_000
"""A client may go on reading a deleted segment for once or twice as long. Kafka ends it at once."""


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Limits of the server; a negative idle time or number of queued bytes means no limit.

    The queued bytes bound incomplete requests. A quarter as many bound the bytes received behind
    requests in progress, and another quarter the unsent answers.
    """

    max_frame_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_idle_ms: int
    queued_max_request_bytes: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    listen_backlog: int
    max_connections_of_hosts: Mapping[str, int] = field(default_factory=dict)
    """In place of that of every address, for some names of hosts or addresses."""
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """By the listener's name, besides that of the broker."""


class SocketServer:
    """All client connections of one broker; implements `ChannelOwner`."""

    def __init__(
        self,
        loop: EventLoop,
        options: NetworkOptions,
        listen: Callable[[Listener, AcceptOptions], ListeningSocket] = listen,
    ) -> None:
        self.loop = loop
        self.max_frame_bytes = options.max_frame_bytes
        self._options = options
        self.on_frame: Callable[[Channel, memoryview], None] = _refuse
        """Takes each request."""
        self.may_go_ahead: Callable[[Channel, memoryview], bool] = _never
        """Whether a request may be taken while answers to earlier ones are pending."""
        self._on_gone: Callable[[Channel], None] = _ignore
        self._on_connected: Callable[[Channel], None] = _ignore
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._acceptor = Acceptor(loop, _accept_options(options), listen)
        self._channels: dict[Channel, str] = {}
        self.accepted_count = 0
        """Connections since the start."""
        self.failed_count = 0
        """Connections that were closed because of what came, or did not come, through them."""
        self._buffers = BufferPool()
        queued_bytes = options.queued_max_request_bytes
        limit_bytes = None if queued_bytes < 0 else queued_bytes
        self._receiving = ReceiveLedger[Channel](limit_bytes)
        self._unsent = UnsentLedger[Channel](None if limit_bytes is None else limit_bytes // 4)
        self.backlog_bytes = 0
        self.pending_weight = 0
        """The partitions in all pending answers (`pending_answers`)."""
        self._receiving_max_bytes = sys.maxsize if limit_bytes is None else limit_bytes
        self._backlog_max_bytes = sys.maxsize if limit_bytes is None else limit_bytes // 4
        self._admission_is_deferred = False
        self._is_checking_overdue = False
        self._heap_trim = HeapTrim()
        self._reading_deleted: frozenset[Channel] = frozenset()
        """Which channels had deleted files to send when that was looked at last."""
        loop.call_every(_TRIM_CHECK_MS, self._trim_heap)
        loop.call_every(_DELETED_CHECK_MS, self._close_files)
        if options.max_idle_ms >= 0:
            loop.call_every(max(100, min(options.max_idle_ms // 4, 10_000)), self._close_idle)

    def bind(self, listener: Listener, securing: Securing | None = None) -> int:
        """Listen without accepting yet; returns the port. Raises UserError if the address is
        taken."""
        return self._acceptor.bind(listener, securing)

    def serve(
        self,
        on_frame: Callable[[Channel, memoryview], None],
        on_gone: "Callable[[Channel], None] | None" = None,
        on_connected: "Callable[[Channel], None] | None" = None,
        may_go_ahead: "Callable[[Channel, memoryview], bool] | None" = None,
    ) -> None:
        """Begin to accept connections and pass their requests to `on_frame`.

        `on_connected` and `on_gone` are called when a connection begins and ends. `may_go_ahead`
        decides, from a request's first bytes, whether it is passed on while earlier ones wait for
        their answers.
        """
        self.on_frame = on_frame
        if may_go_ahead is not None:
            self.may_go_ahead = may_go_ahead
        if on_gone is not None:
            self._on_gone = on_gone
        if on_connected is not None:
            self._on_connected = on_connected
        self._acceptor.start(self._admit)

    def limit_connections(self, options: NetworkOptions) -> None:
        """Change the connection limits; other options stay as they were at the start.

        Connections above the broker's limit are closed, longest idle first (Kafka:
        `Processor.closeExcessConnections`); other limits apply to new connections only.
        """
        max_of_addresses = {
            address: count
            for host, count in options.max_connections_of_hosts.items()
            for address in addresses_of(host)
        }
        self._acceptor.change_limits(
            options.max_connections,
            options.max_connections_per_ip,
            max_of_addresses,
            options.max_connections_of_listeners,
        )
        excess = len(self._channels) - options.max_connections
        if excess > 0:
            log.warning("closing %d connections above the new limit (max.connections)", excess)
            for channel in sorted(self._channels, key=lambda each: each.last_active_ms)[:excess]:
                channel.close(None)

    def limit_rates(self, rates: AcceptRates) -> None:
        """Apply these rates to new connections; call this before `serve`."""
        self._acceptor.rates = rates

    def close(self) -> None:
        """Close all connections and listening sockets."""
        self._acceptor.close()
        for channel in list(self._channels):
            channel.close(None)

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return len(self._channels)

    def muted_count(self, reason: int) -> int:
        """The number of connections muted for this reason."""
        return sum(1 for channel in self._channels if reason & channel.mute_reasons)

    @property
    def receiving_bytes(self) -> int:
        """Total size of the buffers of incomplete requests."""
        return self._receiving.held_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers in memory that clients have not read."""
        return self._unsent.held_bytes

    # -- callbacks of channels
    # ----------------------------------------------------------------------

    def scratch(self) -> memoryview:
        """The shared receive buffer, or a small part of it while too much memory is held.

        A large request does not fit into the small part and has to claim its memory.
        """
        if (
            self.backlog_bytes < self._backlog_max_bytes
            and self._receiving.held_bytes < self._receiving_max_bytes
        ):
            return self._scratch
        return self._scratch[:_SCARCE_SCRATCH_BYTES]

    def on_closed(self, channel: Channel, reason: str | None) -> None:
        """Forget a channel; logs one line if the peer was at fault."""
        self._unsent.forget(channel)
        self._receiving.release(channel)
        self._admit_later()
        host = self._channels.pop(channel)
        self._acceptor.release(host, channel.listener_name)
        self._on_gone(channel)
        if reason is not None:
            self.failed_count += 1
            log.warning("closed connection from %s: %s", channel.peer, reason, extra=of_peer(host))

    def take_buffer(
        self, channel: Channel, size_bytes: int, arrived_bytes: int
    ) -> bytearray | None:
        """A buffer for an incomplete frame; mutes the channel if too much memory is held."""
        capacity_bytes = self._claim(channel, size_bytes, arrived_bytes)
        return None if capacity_bytes is None else self._buffers.take(capacity_bytes)

    def grow_buffer(
        self, channel: Channel, buffer: bytearray, filled_bytes: int, size_bytes: int
    ) -> bytearray | None:
        """A larger buffer, under the same rule."""
        capacity_bytes = self._claim(channel, size_bytes, filled_bytes)
        if capacity_bytes is None:
            return None
        return self._buffers.grow(buffer, filled_bytes, capacity_bytes)

    def give_back(self, channel: Channel, buffer: bytearray) -> None:
        """Keep a buffer for another frame; channels that wait for memory continue soon."""
        if not channel.holds_request:
            self.let_go(channel)
        self._buffers.give_back(buffer)

    def hold(self, channel: Channel, size_bytes: int) -> None:
        """Count a request in progress, so that others wait; closes the channel above the limit."""
        if not self._receiving.hold(channel, size_bytes, self.loop.now_ms):
            channel.close(
                "its request cannot be held until there is an answer, it takes too much memory"
                " (queued.max.request.bytes)"
            )

    def let_go(self, channel: Channel) -> None:
        """The held request has no memory any more."""
        self._receiving.release(channel)
        self._admit_later()

    def on_unsent(self, channel: Channel, size_bytes: int) -> None:
        """Count unsent answers; channels above the limit are closed at the end of the turn."""
        self._unsent.note(channel, size_bytes, has_taken=True)
        if self._unsent.is_full:
            self.loop.defer(self._cut_off_silent)

    # -- memory ----------------------------------------------------------------------------------

    def _claim(self, channel: Channel, size_bytes: int, arrived_bytes: int) -> int | None:
        capacity_bytes = capacity_for(size_bytes, arrived_bytes)
        if self._receiving.claim(channel, capacity_bytes, self.loop.now_ms):
            return capacity_bytes
        channel.mute_reasons |= MuteReason.MEMORY
        if not self._is_checking_overdue:
            self._is_checking_overdue = True
            self.loop.call_after(_OVERDUE_CHECK_MS, self._close_overdue)
        return None

    def _admit_later(self) -> None:
        if self._receiving.waiting_count and not self._admission_is_deferred:
            self._admission_is_deferred = True
            self.loop.defer(self._admit_waiting)

    def _admit_waiting(self) -> None:
        self._admission_is_deferred = False
        for channel in self._receiving.admit(self.loop.now_ms):
            channel.unmute(MuteReason.MEMORY)

    def _close_overdue(self) -> None:
        """Close peers that stop in the middle of a request and so block others."""
        for channel in self._overdue():
            channel.take_arrived()
        for channel in self._overdue():
            channel.close(
                "its request does not arrive, or its answer is not due, while others wait for"
                " memory (queued.max.request.bytes)"
            )
        self._is_checking_overdue = self._receiving.waiting_count > 0
        if self._is_checking_overdue:
            self.loop.call_after(_OVERDUE_CHECK_MS, self._close_overdue)

    def _overdue(self) -> list[Channel]:
        found = self._receiving.overdue(self.loop.now_ms, lambda each: each.last_active_ms)
        return [channel for channel in found if not channel.is_worked_on]

    def _trim_heap(self) -> None:
        peak_bytes = self._receiving.take_peak() + self._unsent.take_peak()
        self._heap_trim.look(peak_bytes, self._receiving.held_bytes + self._unsent.held_bytes)

    def _close_files(self) -> None:
        """Close clients that do not read and so hold the disk space of deleted segments."""
        reading = frozenset(channel for channel in self._channels if channel.holds_deleted_file)
        before, self._reading_deleted = self._reading_deleted, reading - self._reading_deleted
        for channel in reading & before:
            channel.close("it reads too slowly: the segment that it was being sent is deleted")

    def _cut_off_silent(self) -> None:
        while self._unsent.is_full:
            self._unsent.longest_silent().close(
                "it does not read its answers, and too many bytes wait for such clients"
                " (queued.max.request.bytes)"
            )

    # -- connections -----------------------------------------------------------------------------

    def _admit(self, accepted: Accepted) -> None:
        self.accepted_count += 1
        peer = f"{accepted.host}:{accepted.port}"
        channel = Channel(accepted.transport, peer, accepted.listener_name, self)
        if accepted.principal is not None:
            channel.principal = accepted.principal
        self._channels[channel] = accepted.host
        self._on_connected(channel)

    def _close_idle(self) -> None:
        idle_since_ms = self.loop.now_ms - self._options.max_idle_ms
        idle = [item for item in self._channels.items() if item[0].last_active_ms < idle_since_ms]
        for channel, host in idle:
            is_in_use = channel.mute_reasons or channel.pending_count
            if not is_in_use and not channel.take_arrived():
                log.info("closing idle connection from %s", channel.peer, extra=of_peer(host))
                channel.close(None)


def _accept_options(options: NetworkOptions) -> AcceptOptions:
    return AcceptOptions(
        max_connections=options.max_connections,
        max_connections_setting="max.connections",
        max_per_host=options.max_connections_per_ip,
        max_per_host_setting="max.connections.per.ip",
        backlog=options.listen_backlog,
        send_buffer_bytes=max(0, options.send_buffer_bytes),
        receive_buffer_bytes=max(0, options.receive_buffer_bytes),
    )


def _ignore(_channel: Channel) -> None:
    return


def _never(_channel: Channel, _frame: memoryview) -> bool:
    return False


def _refuse(_channel: Channel, _frame: memoryview) -> None:
    raise PeerError("not serving yet")
