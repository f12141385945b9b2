"""All connections of the registry: their memory, and the events that the loop waits for.

Knows bytes and sockets; records and replies are interpreted by the driver.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from cluster.coordinator.registry.server.client_connection import ClientConnection
from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.runtime.acceptor import Accepted
from cluster.runtime.heap_trim import HeapTrim
from cluster.runtime.logs import of_peer
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop
from cluster.runtime.receive_ledger import ReceiveLedger
from cluster.runtime.unsent_ledger import UnsentLedger

_logger = logging.getLogger(__name__)

RECEIVE_BYTES: Final = 64 << 10
"""The maximal number of bytes received from one connection in a turn."""
PAUSE_READING_BYTES: Final = 256 << 10
"""A client with this many unsent bytes is not read until it has taken its replies."""
UNCLAIMED_BYTES: Final = 16 << 10
"""Incomplete records below this size are not counted: every connection may hold as much."""
MAX_UNSENT_BYTES: Final = 64 << 20
"""A client with this many unsent bytes is disconnected."""
GREETING_TIMEOUT_MS: Final = 10_000
"""A connection without a session is closed after this time; so is one that does not take its last
replies.
"""


class Connections:
    """Owned by the loop's thread.

    Invariant: a connection is in here until its transport is closed; then `on_gone` is called with
    its id and host.
    """

    def __init__(
        self,
        loop: EventLoop,
        options: RegistryOptions,
        on_ready: Callable[[ClientConnection, int], None],
        on_gone: Callable[[ClientConnection], None],
    ) -> None:
        """`on_ready` is called with a connection's events and may close the connection."""
        self._loop = loop
        self._max_record_bytes = options.jute_max_buffer_bytes
        self._on_ready = on_ready
        self._on_gone = on_gone
        self._scratch = memoryview(bytearray(RECEIVE_BYTES))
        self._receiving = ReceiveLedger[int](options.receiving_max_bytes)
        self._unsent = UnsentLedger[int](options.unsent_max_bytes)
        self._heap_trim = HeapTrim()
        self._by_id: dict[int, ClientConnection] = {}
        self._next_id = 1

    @property
    def receiving_bytes(self) -> int:
        """Bytes of incomplete records, including memory reserved for the bytes that arrive next."""
        return self._receiving.held_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes of replies and notifications that their clients have not taken."""
        return self._unsent.held_bytes

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._by_id.values()))

    def get(self, connection_id: int) -> ClientConnection | None:
        """None if the connection is closed."""
        return self._by_id.get(connection_id)

    def adopt(self, accepted: Accepted) -> ClientConnection:
        """Start reading a new connection."""
        connection = ClientConnection(
            accepted, self._next_id, self._max_record_bytes, self._loop.now_ms
        )
        self._next_id += 1
        self._by_id[connection.connection_id] = connection
        self._watch(connection)
        return connection

    def receive(self, connection: ClientConnection) -> bool:
        """Receive available bytes; False if the connection is closed afterwards."""
        received = connection.receive(self._scratch)
        if received is None:
            self.drop(connection)
            return False
        connection.last_read_ms = self._loop.now_ms
        connection.frames.receive(received)
        return True

    def send(self, connection: ClientConnection, content: bytes) -> bool:
        """Send bytes, or keep them until the client takes them; False if the connection is closed
        afterwards.
        """
        offered_bytes = len(connection.unsent) + len(content)
        if not connection.send(content) or (connection.is_closing and not connection.unsent):
            self.drop(connection)
            return False
        unsent_bytes = len(connection.unsent)
        if unsent_bytes > MAX_UNSENT_BYTES:
            self._cut_off(connection, "it takes no replies")
            return False
        if unsent_bytes or connection.watched_events & WRITABLE:
            has_taken = unsent_bytes < offered_bytes
            self._unsent.note(connection.connection_id, unsent_bytes, has_taken=has_taken)
            self._watch(connection)
            while self._unsent.is_full:
                silent = self._by_id[self._unsent.longest_silent()]
                self._cut_off(silent, "it takes no replies, and too many bytes wait for such")
        return connection.connection_id in self._by_id

    def close_after_sending(self, connection: ClientConnection, content: bytes = b"") -> None:
        """Stop reading the connection, and close it once it has taken everything."""
        self._receiving.release(connection.connection_id)
        connection.is_closing = True
        connection.awaited_since_ms = self._loop.now_ms
        self.send(connection, content)

    def close_later(self, connection: ClientConnection, content: bytes, delay_ms: int) -> None:
        """Stop reading the connection; send `content` after the delay, and close it once that is
        taken.
        """

        def end() -> None:
            if connection.connection_id in self._by_id:
                self.close_after_sending(connection, content)

        self._receiving.release(connection.connection_id)
        connection.is_refused = True
        self._watch(connection)
        self._loop.call_after(delay_ms, end)

    def drop(self, connection: ClientConnection) -> None:
        """Close the connection now."""
        del self._by_id[connection.connection_id]
        self._receiving.release(connection.connection_id)
        self._unsent.forget(connection.connection_id)
        if connection.watched_events:
            self._loop.unwatch(connection.transport)
            connection.watched_events = 0
        connection.transport.close()
        self._on_gone(connection)

    def claim_memory(self, connection: ClientConnection) -> None:
        """Continue to read only if there is memory for the rest of the record."""
        pending_bytes = len(connection.frames.pending)
        if pending_bytes <= UNCLAIMED_BYTES:
            self._receiving.release(connection.connection_id)
        elif not self._receiving.claim(
            connection.connection_id, pending_bytes + RECEIVE_BYTES, self._loop.now_ms
        ):
            connection.is_waiting_for_memory = True
            self._watch(connection)

    def admit(self) -> None:
        """Resume reading connections for whose records there is memory now."""
        for connection_id in self._receiving.admit(self._loop.now_ms):
            connection = self._by_id[connection_id]
            connection.is_waiting_for_memory = False
            self._watch(connection)

    def tick(self) -> None:
        """Close connections that have been idle for too long, and return memory to the system."""
        now_ms = self._loop.now_ms
        for connection in self:
            is_overdue = now_ms - connection.awaited_since_ms > GREETING_TIMEOUT_MS
            if is_overdue and (connection.is_closing or not connection.is_greeted):
                self.drop(connection)
        by_id = self._by_id
        for connection_id in self._receiving.overdue(now_ms, lambda each: by_id[each].last_read_ms):
            reason = "its request does not arrive, and others wait for the memory"
            self._cut_off(by_id[connection_id], reason)
        peak_bytes = self._receiving.take_peak() + self._unsent.take_peak()
        self._heap_trim.look(peak_bytes, self._receiving.held_bytes + self._unsent.held_bytes)

    def close(self) -> None:
        """Close all connections."""
        for connection in self:
            self.drop(connection)

    def _cut_off(self, connection: ClientConnection, reason: str) -> None:
        _logger.warning("closing %s: %s", connection.peer, reason, extra=of_peer(connection.host))
        self.drop(connection)

    def _watch(self, connection: ClientConnection) -> None:
        """Update the events that the loop waits for: writable while anything is unsent; readable
        unless the connection is ending, has too many unsent bytes or waits for memory.
        """
        unsent_bytes = len(connection.unsent)
        is_at_its_end = connection.is_closing or connection.is_refused
        connection.is_reading_paused = is_at_its_end or unsent_bytes > PAUSE_READING_BYTES
        events = WRITABLE if unsent_bytes else 0
        if not connection.is_reading_paused and not connection.is_waiting_for_memory:
            events |= READABLE
        if events == connection.watched_events:
            return
        if events == 0:
            self._loop.unwatch(connection.transport)
        else:
            change = self._loop.rewatch if connection.watched_events else self._loop.watch
            change(connection.transport, events, partial(self._on_ready, connection))
        connection.watched_events = events
