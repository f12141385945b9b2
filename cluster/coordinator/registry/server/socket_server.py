"""Drives the registry: sockets, clock, journal, signals. One thread, one readiness loop.

Each round reads everything that has arrived, journals all its writes with one fsync, and only then
sends: so nobody sees a state that a crash could take back, and many writers share one fsync.
"""

import errno
import logging
import os
import selectors
import signal
import socket
from collections.abc import Callable
from typing import Final

from cluster.coordinator.registry.server.four_letter_listings import LISTINGS, brief
from cluster.coordinator.registry.server.four_letter_words import RegistryFigures, answer
from cluster.coordinator.registry.server.journal_files import JournalFiles
from cluster.coordinator.registry.server.latency import Latency
from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.coordinator.registry.server.replies import PASSWORD_BYTES
from cluster.coordinator.registry.server.server import Moment, RegistryServer
from cluster.coordinator.registry.server.socket_connection import RECEIVE_BYTES, SocketConnection
from cluster.coordinator.registry.server.state import RegistryState
from cluster.model.errors import PeerError, UserError
from cluster.runtime.clock import Clock, SystemClock
from cluster.runtime.heap_trim import HeapTrim
from cluster.runtime.logs import of_peer, report_left_out
from cluster.runtime.receive_ledger import ReceiveLedger
from cluster.runtime.unsent_ledger import UnsentLedger

_logger = logging.getLogger(__name__)

LISTEN_BACKLOG: Final = 128
_OUT_OF_MEANS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Accepting again at once would fail again."""
PAUSE_READING_BYTES: Final = 256 << 10
"""A client with so much unsent is not read until it has taken its replies."""
TURN_REPLY_BYTES: Final = 1 << 20
"""What one client's requests may bring forth before the others have their turn: a few bytes of
request can ask for a megabyte.
"""
ROUND_REPLY_BYTES: Final = 16 << 20
"""What all requests of a round may bring forth before replies are sent."""
UNCLAIMED_BYTES: Final = 16 << 10
"""Half a record of less is not counted: every connection may hold as much."""
ROUND_JOURNAL_BYTES: Final = 8 << 20
"""What one round writes at the most where no room is kept free; else half of that room."""
MAX_UNSENT_BYTES: Final = 64 << 20
"""A client that does not take its replies and notifications is cut off."""
_NODE_BYTES: Final = 200
"""What a znode takes in a snapshot beside path and data: 64 bytes of numbers, lengths, its ACL."""
GREETING_TIMEOUT_MS: Final = 10_000
"""A connection without a session is closed after this long; so is one that does not take its last
replies."""


def run_registry(options: RegistryOptions, on_ready: Callable[[int], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready(port)` is called once, when clients can connect.

    To be called on the main thread of a process of its own. Raises UserError when the address
    cannot be listened on, StorageFailed when the data directory cannot be used or stops working.
    """
    clock = SystemClock()
    listener = _listen(options.host, options.port)
    files, state = JournalFiles.open(
        options.data_dir, options.tick_time_ms, clock.monotonic_ms(), fsync=options.fsync
    )
    server = SocketServer(options, listener, files, state, clock)
    wake_read, wake_write = socket.socketpair()
    wake_write.setblocking(False)
    server.stop_when_readable(wake_read)
    signal.set_wakeup_fd(wake_write.fileno())
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop_signal, _leave_it_to_the_wakeup)
    on_ready(listener.getsockname()[1])
    try:
        server.serve()
    finally:
        signal.set_wakeup_fd(-1)
        server.close()
        wake_read.close()
        wake_write.close()


class SocketServer:
    """The loop and what it owns: the listener, every connection, the journal.

    Invariant: between rounds the outbox of the core is empty, so everything that was answered is
    in the journal.
    """

    def __init__(
        self,
        options: RegistryOptions,
        listener: socket.socket,
        files: JournalFiles,
        state: RegistryState,
        clock: Clock,
    ) -> None:
        self._options = options
        self._listener = listener
        self._files = files
        self._clock = clock
        self._receiving = ReceiveLedger[int](options.receiving_max_bytes)
        self._unsent = UnsentLedger[int](options.unsent_max_bytes)
        self._heap_trim = HeapTrim()
        self._core = RegistryServer(state, options.tick_time_ms, _new_password)
        self._connections: dict[int, SocketConnection] = {}
        self._backlog: dict[int, SocketConnection] = {}
        self._next_connection_id = 1
        self._latency = Latency()
        self._started_ms = clock.monotonic_ms()
        self._next_tick_ms = self._started_ms
        self._is_stopping = False
        self._selector = selectors.DefaultSelector()
        self._is_accepting = False
        listener.setblocking(False)
        self._accept_again()

    @property
    def receiving_bytes(self) -> int:
        """What is held, and may come next, of records that have not arrived whole."""
        return self._receiving.held_bytes

    @property
    def unsent_bytes(self) -> int:
        """Bytes of replies and notifications that their clients have not taken."""
        return self._unsent.held_bytes

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def stop_when_readable(self, wake: socket.socket) -> None:
        """End `serve` after the round in which something arrives here."""
        self._selector.register(wake, selectors.EVENT_READ, self._on_stop)

    def serve(self) -> None:
        """Loop until stopped. Raises StorageFailed."""
        self._core.state.sessions.touch_all(self._clock.monotonic_ms())
        while not self._is_stopping:
            self.serve_round()

    def serve_round(self) -> None:
        """Wait for something to do, do all of it, and answer. Raises StorageFailed."""
        ready = self._selector.select(self._patience_seconds())
        self._look_for_room()
        now = Moment(self._clock.monotonic_ms(), self._clock.wall_ms())
        for key, events in ready:
            if isinstance(key.data, SocketConnection):
                self._on_connection_ready(key.data, events, now)
            else:
                key.data(now)
        for connection in list(self._backlog.values()):
            is_here = connection.connection_id in self._backlog  # it may have been cut off
            if is_here and not connection.is_reading_paused:
                self._process(connection, now)
        for connection_id in self._receiving.admit(now.monotonic_ms):
            connection = self._connections[connection_id]
            connection.is_waiting_for_memory = False
            self._select_for(connection)
        if now.monotonic_ms >= self._next_tick_ms:
            self._tick(now)
        self._perform_outbox(now)

    def close(self) -> None:
        """Close every socket and the files. After an orderly stop a snapshot makes the next start
        quick; after a failure the journal is what counts, and memory is not trusted.
        """
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        is_worth_it = self._is_stopping and self._files.unsnapshotted_count > 0
        if is_worth_it and self._has_room_for_snapshot():
            self._files.write_snapshot(self._core.state)
        self._files.close()

    def _look_for_room(self) -> None:
        """Before anything is executed: what is executed must also find room in the journal."""
        is_full = self._files.free_bytes() < self._options.min_free_bytes
        if is_full and not self._core.is_read_only:
            _logger.error(
                "less than %d bytes free for %s: refusing writes until there is more room",
                self._options.min_free_bytes,
                self._options.data_dir,
            )
        elif self._core.is_read_only and not is_full:
            _logger.warning("room for %s again: taking writes", self._options.data_dir)
        self._core.is_read_only = is_full

    def _has_room_for_snapshot(self) -> bool:
        """The journal's reserve is not spent on it."""
        tree = self._core.state.tree
        snapshot_bytes = tree.approximate_data_bytes() + _NODE_BYTES * len(tree)
        return self._files.free_bytes() - self._options.min_free_bytes > snapshot_bytes

    def _patience_seconds(self) -> float:
        """How long the next round may wait for something to happen."""
        if any(not connection.is_reading_paused for connection in self._backlog.values()):
            return 0.0
        return max(0, self._next_tick_ms - self._clock.monotonic_ms()) / 1000

    def _on_stop(self, _now: Moment) -> None:
        self._is_stopping = True

    def _accept_again(self) -> None:
        if not self._is_accepting:
            self._selector.register(self._listener, selectors.EVENT_READ, self._on_acceptable)
            self._is_accepting = True

    def _on_acceptable(self, now: Moment) -> None:
        while True:
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_MEANS:
                    _logger.warning("cannot accept connections until the next tick: %s", error)
                    self._selector.unregister(self._listener)
                    self._is_accepting = False
                    return
                continue  # that client is gone already
            limit = self._options.max_client_connections
            if limit and limit <= sum(
                connection.host == address[0] for connection in self._connections.values()
            ):
                _logger.warning(
                    "refusing %s:%d: %d connections are open",
                    *address[:2],
                    limit,
                    extra=of_peer(address[0]),
                )
                accepted.close()
                continue
            self._adopt(accepted, (address[0], address[1]), now)

    def _adopt(self, accepted: socket.socket, address: tuple[str, int], now: Moment) -> None:
        try:
            connection = SocketConnection(
                accepted,
                self._next_connection_id,
                address,
                self._options.jute_max_buffer_bytes,
                now.monotonic_ms,
            )
        except OSError:  # macOS refuses options of a socket whose client is gone already
            accepted.close()
            return
        self._next_connection_id += 1
        self._connections[connection.connection_id] = connection
        self._select_for(connection)
        self._core.on_connected(connection.connection_id, *address, now)

    def _on_connection_ready(self, connection: SocketConnection, events: int, now: Moment) -> None:
        if connection.connection_id not in self._connections:
            return
        if events & selectors.EVENT_WRITE and not self._send(connection, b""):
            return
        has_turn_already = connection.connection_id in self._backlog
        if events & selectors.EVENT_READ and not connection.is_closing and not has_turn_already:
            self._read(connection, now)

    def _read(self, connection: SocketConnection, now: Moment) -> None:
        received = connection.receive()
        if received is None:
            self._drop(connection)
            return
        connection.last_read_ms = now.monotonic_ms
        connection.frames.receive(received)
        if connection.frames.word is not None:
            self._answer_word(connection, connection.frames.word, now)
            return
        self._process(connection, now)

    def _answer_word(self, connection: SocketConnection, word: bytes, now: Moment) -> None:
        self._core.received_count += 1
        client = self._core.connections.get(connection.connection_id)
        if client is not None:
            client.received_count += 1
        if word == b"crst":
            for one in self._core.connections.values():
                one.forget_figures()
        elif word == b"srst":
            self._core.received_count = self._core.sent_count = 0
            self._latency = Latency()
        listing = LISTINGS.get(word)
        text = answer(word, self._figures(now)) if listing is None else listing(self._core, now)
        self._core.sent_count += 1
        self._close_after_sending(connection, text.encode("utf-8"))

    def _process(self, connection: SocketConnection, now: Moment) -> None:
        """Hand over what has been received, as much as fits into one round; the rest is backlog."""
        self._backlog.pop(connection.connection_id, None)
        self._backlog[connection.connection_id] = connection  # behind those that had no turn yet
        end_bytes = min(self._core.ordered_bytes + TURN_REPLY_BYTES, ROUND_REPLY_BYTES)
        # What one round writes must fit into the room that was found before it.
        reserve_bytes = self._options.min_free_bytes
        journal_bytes = reserve_bytes // 2 if reserve_bytes else ROUND_JOURNAL_BYTES
        try:
            while (
                self._core.ordered_bytes < end_bytes
                and self._core.unjournaled_bytes <= journal_bytes
            ):
                record = connection.frames.next_record()
                if record is None:
                    del self._backlog[connection.connection_id]
                    self._claim_memory(connection, now)
                    return
                connection.is_greeted = True
                self._core.on_record(connection.connection_id, record, now)
        except PeerError as error:
            _logger.warning(
                "closing %s: %s", connection.peer, error, extra=of_peer(connection.host)
            )
            self._close_after_sending(connection)

    def _claim_memory(self, connection: SocketConnection, now: Moment) -> None:
        """Read on only if there is room for what the rest of the record may be."""
        pending_bytes = len(connection.frames.pending)
        if pending_bytes <= UNCLAIMED_BYTES:
            self._receiving.release(connection.connection_id)
        elif not self._receiving.claim(
            connection.connection_id, pending_bytes + RECEIVE_BYTES, now.monotonic_ms
        ):
            connection.is_waiting_for_memory = True
            self._select_for(connection)

    def _cut_off(self, connection: SocketConnection, reason: str) -> None:
        _logger.warning("closing %s: %s", connection.peer, reason, extra=of_peer(connection.host))
        self._drop(connection)

    def _tick(self, now: Moment) -> None:
        tick_time_ms = self._options.tick_time_ms
        self._next_tick_ms = (now.monotonic_ms // tick_time_ms + 1) * tick_time_ms
        self._core.on_tick(now)
        self._accept_again()
        report_left_out()
        for connection in list(self._connections.values()):
            is_overdue = now.monotonic_ms - connection.awaited_since_ms > GREETING_TIMEOUT_MS
            if is_overdue and (connection.is_closing or not connection.is_greeted):
                self._drop(connection)
        connections = self._connections
        for connection_id in self._receiving.overdue(
            now.monotonic_ms, lambda each: connections[each].last_read_ms
        ):
            reason = "its request does not arrive, and others wait for the memory"
            self._cut_off(self._connections[connection_id], reason)
        peak_bytes = self._receiving.take_peak() + self._unsent.take_peak()
        self._heap_trim.look(peak_bytes, self._receiving.held_bytes + self._unsent.held_bytes)

    def _perform_outbox(self, now: Moment) -> None:
        outbox = self._core.take_outbox()
        if not outbox:
            return
        if outbox.transactions:
            self._files.append(outbox.transactions)
        by_connection: dict[int, list[bytes]] = {}
        for connection_id, frame in outbox.frames:
            by_connection.setdefault(connection_id, []).append(frame)
        for connection_id, frames in by_connection.items():
            connection = self._connections.get(connection_id)
            if connection is not None:
                self._send(connection, b"".join(frames))
        done_ms = self._clock.monotonic_ms()
        for connection_id, frames in by_connection.items():
            client = self._core.connections.get(connection_id)
            if client is not None:
                client.latency.record(done_ms - now.monotonic_ms, len(frames))
                client.last_reply_ms = done_ms
        for connection_id in outbox.closings:
            connection = self._connections.get(connection_id)
            if connection is not None:
                self._close_after_sending(connection)
        self._latency.record(done_ms - now.monotonic_ms, len(outbox.frames))
        due = max(self._options.snapshot_every_transactions, len(self._core.state.tree))
        if self._files.unsnapshotted_count >= due and self._has_room_for_snapshot():
            self._files.write_snapshot(self._core.state)

    def _send(self, connection: SocketConnection, content: bytes) -> bool:
        """False when the connection is gone after it."""
        offered_bytes = len(connection.unsent) + len(content)
        if not connection.send(content) or (connection.is_closing and not connection.unsent):
            self._drop(connection)
            return False
        unsent_bytes = len(connection.unsent)
        if unsent_bytes > MAX_UNSENT_BYTES:
            self._cut_off(connection, "it takes no replies")
            return False
        if unsent_bytes or connection.watched_events & selectors.EVENT_WRITE:
            has_taken = unsent_bytes < offered_bytes
            self._unsent.note(connection.connection_id, unsent_bytes, has_taken=has_taken)
            self._select_for(connection)
            while self._unsent.is_full:
                silent = self._connections[self._unsent.longest_silent()]
                self._cut_off(silent, "it takes no replies, and too many bytes wait for such")
        return connection.connection_id in self._connections

    def _select_for(self, connection: SocketConnection) -> None:
        """Wait for what the connection needs next: writable while anything is unsent; readable
        unless it is closing, owes us too much reading or waits for memory.
        """
        unsent_bytes = len(connection.unsent)
        connection.is_reading_paused = connection.is_closing or unsent_bytes > PAUSE_READING_BYTES
        events = selectors.EVENT_WRITE if unsent_bytes else 0
        if not connection.is_reading_paused and not connection.is_waiting_for_memory:
            events |= selectors.EVENT_READ
        if events == connection.watched_events:
            return
        if connection.watched_events == 0:
            self._selector.register(connection.socket, events, connection)
        elif events == 0:
            self._selector.unregister(connection.socket)
        else:
            self._selector.modify(connection.socket, events, connection)
        connection.watched_events = events

    def _close_after_sending(self, connection: SocketConnection, content: bytes = b"") -> None:
        self._core.on_disconnected(connection.connection_id)
        self._backlog.pop(connection.connection_id, None)
        self._receiving.release(connection.connection_id)
        connection.is_closing = True
        connection.awaited_since_ms = self._clock.monotonic_ms()
        self._send(connection, content)

    def _drop(self, connection: SocketConnection) -> None:
        del self._connections[connection.connection_id]
        self._backlog.pop(connection.connection_id, None)
        self._receiving.release(connection.connection_id)
        self._unsent.forget(connection.connection_id)
        if connection.watched_events:
            self._selector.unregister(connection.socket)
        connection.socket.close()
        self._core.on_disconnected(connection.connection_id)

    def _figures(self, now: Moment) -> RegistryFigures:
        state, connections = self._core.state, self._core.connections.values()
        return RegistryFigures(
            clients=tuple(map(brief, connections)),
            latency_min_ms=self._latency.min_ms,
            latency_average_ms=self._latency.average_ms,
            latency_max_ms=self._latency.max_ms,
            received_count=self._core.received_count,
            sent_count=self._core.sent_count,
            zxid=state.last_zxid,
            node_count=len(state.tree) + 1,  # ZooKeeper counts the root twice
            watch_count=self._core.watches.count,
            ephemeral_count=state.tree.ephemeral_count,
            data_bytes=state.tree.approximate_data_bytes(),
            files_bytes=self._files.size_bytes(),
            session_count=len(state.sessions),
            uptime_ms=now.monotonic_ms - self._started_ms,
            client_port=self._listener.getsockname()[1],
            data_dir=str(self._options.data_dir),
            tick_time_ms=self._options.tick_time_ms,
            max_client_connections=self._options.max_client_connections,
            listen_backlog=LISTEN_BACKLOG,
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as error:
        raise UserError(f"the registry cannot listen on {host}:{port}: {error.strerror}") from error


def _new_password() -> bytes:
    return os.urandom(PASSWORD_BYTES)


def _leave_it_to_the_wakeup(_signal_number: int, _frame: object) -> None:
    """The wake-up descriptor tells the loop; without a handler the signal would end the process."""
