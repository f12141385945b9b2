"""Drives the registry: connections, clock and journal. One thread with one readiness loop.

Each turn of the loop reads everything that has arrived, journals all writes with one fsync, and
only then sends. So no client sees a state that a crash could revert, and many writers share one
fsync.
"""

import logging
import os
import secrets
from typing import Final

from cluster.coordinator.registry.server.client_connection import ClientConnection
from cluster.coordinator.registry.server.connections import Connections
from cluster.coordinator.registry.server.four_letter_listings import LISTINGS, brief
from cluster.coordinator.registry.server.four_letter_words import (
    RegistryFigures,
    answer,
    refusal,
)
from cluster.coordinator.registry.server.journal_files import JournalFiles
from cluster.coordinator.registry.server.latency import Latency
from cluster.coordinator.registry.server.logins import Logins
from cluster.coordinator.registry.server.options import RegistryOptions
from cluster.coordinator.registry.server.replies import PASSWORD_BYTES
from cluster.coordinator.registry.server.room import Room, reserve_bytes, stage
from cluster.coordinator.registry.server.server import RegistryServer
from cluster.coordinator.registry.server.state import RegistryState
from cluster.model.clocks import Moment
from cluster.model.errors import PeerError
from cluster.model.sizes import size_text
from cluster.runtime.acceptor import Accepted, Acceptor
from cluster.runtime.clock import Clock
from cluster.runtime.logs import of_peer, report_left_out
from cluster.runtime.loop import READABLE, WRITABLE, EventLoop

_logger = logging.getLogger(__name__)

LISTEN_BACKLOG: Final = 128
TURN_REPLY_BYTES: Final = 1 << 20
"""The limit on bytes of replies for one client's requests before other clients are served: a few
bytes of request can ask for a megabyte.
"""
ROUND_REPLY_BYTES: Final = 16 << 20
"""The limit on bytes of replies in a round before they are sent."""
ROUND_JOURNAL_BYTES: Final = 8 << 20
"""The limit on journaled bytes in a round; less if less than twice that is free."""
_NODE_BYTES: Final = 200
"""The size of a znode in a snapshot besides its path and data: 64 bytes of numbers, lengths, its
ACL.
"""


class RegistryDriver:
    """The journal, the core and the rounds; a round is the work of one turn of the loop.

    Lifecycle: `start`, turns of the loop, `close`. Owned by the loop's thread.

    Invariant: between rounds the outbox of the core is empty, so every answered request is in the
    journal.
    """

    def __init__(
        self,
        options: RegistryOptions,
        loop: EventLoop,
        acceptor: Acceptor,
        port: int,
        files: JournalFiles,
        state: RegistryState,
        clock: Clock,
    ) -> None:
        """`port` is the clients' port, as reported by the four-letter words."""
        self._options = options
        self._loop = loop
        self._acceptor = acceptor
        self._port = port
        self._files = files
        self._clock = clock
        logins = Logins(options.logins, lambda: secrets.token_hex(16), _report_refusal)
        self._core = RegistryServer(state, options.tick_time_ms, _new_password, logins)
        self.connections = Connections(loop, options, self._on_connection_ready, self._on_gone)
        self._backlog: dict[int, ClientConnection] = {}
        self._latency = Latency()
        self._started_ms = clock.monotonic_ms()
        self._now = Moment(self._started_ms, clock.wall_ms())
        self._is_in_round = False
        self._is_tick_due = False
        self._free_bytes = 0
        self._has_reserve = False

    def start(self) -> None:
        """Serve from the loop's next turn on. Turns of the loop may raise StorageFailed."""
        self._core.state.sessions.touch_all(self._clock.monotonic_ms())
        self._loop.call_after(0, self._on_tick_due)
        self._acceptor.start(self._on_accepted)

    def close(self, *, is_orderly: bool) -> None:
        """Close every connection and the files. After an orderly stop a snapshot speeds up the next
        start; after a failure only the journal is trusted, not memory.
        """
        self._acceptor.close()
        self.connections.close()
        is_worth_it = is_orderly and self._files.unsnapshotted_count > 0
        if is_worth_it and self._has_room_for_snapshot():
            self._files.write_snapshot(self._core.state)
        self._files.close()

    # -- rounds --------------------------------------------------------------------------------

    def _begin_round(self) -> None:
        """Called first in a turn to begin its round, which ends with the turn."""
        if not self._is_in_round:
            self._is_in_round = True
            self._now = Moment(self._loop.now_ms, self._clock.wall_ms())
            self._look_for_room()
            self._loop.defer(self._end_round)

    def _end_round(self) -> None:
        for connection in list(self._backlog.values()):
            is_here = connection.connection_id in self._backlog  # it may have been cut off
            if is_here and not connection.is_reading_paused:
                self._process(connection)
        if self._is_tick_due:
            self._tick()
        self._perform_outbox()
        self.connections.admit()
        self._is_in_round = False
        if any(not connection.is_reading_paused for connection in self._backlog.values()):
            self._loop.next_turn(self._begin_round)

    def _on_tick_due(self) -> None:
        tick_time_ms = self._options.tick_time_ms
        next_ms = (self._loop.now_ms // tick_time_ms + 1) * tick_time_ms
        self._loop.call_at(next_ms, self._on_tick_due)
        self._begin_round()
        self._is_tick_due = True  # after the backlog: it may hold a ping of an overdue session

    def _tick(self) -> None:
        self._is_tick_due = False
        self._core.on_tick(self._now)
        report_left_out()
        self.connections.tick()

    def _look_for_room(self) -> None:
        """Check the disk space before requests are executed: their transactions must fit in the
        journal.
        """
        least = self._options.min_free_bytes
        self._free_bytes = self._files.free_bytes()
        room = stage(self._free_bytes, least)
        if room is Room.NONE and self._files.release_reserve():
            _logger.warning(
                "%s of reserve are given back, as others have filled the disk of %s",
                size_text(reserve_bytes(least)),
                self._options.data_dir,
            )
            self._has_reserve = False
            self._free_bytes = self._files.free_bytes()
            room = stage(self._free_bytes, least)
        elif (
            least and not self._has_reserve and self._free_bytes >= least + 2 * reserve_bytes(least)
        ):
            self._files.keep_reserve(reserve_bytes(least))
            self._has_reserve = True
        if room is not self._core.room:
            self._core.room = room
            self._say_room(room)

    def _say_room(self, room: Room) -> None:
        directory, free = self._options.data_dir, size_text(self._free_bytes)
        match room:
            case Room.ENOUGH:
                _logger.warning("room for %s again (%s): taking writes", directory, free)
            case Room.LITTLE:
                _logger.error(
                    "%s free for %s, less than %s: refusing writes that need much, such as new"
                    " znodes, until space is free",
                    free,
                    directory,
                    size_text(self._options.min_free_bytes),
                )
            case Room.NONE:
                _logger.error("%s free for %s: refusing writes", free, directory)

    def _perform_outbox(self) -> None:
        outbox = self._core.take_outbox()
        if not outbox:
            return
        if outbox.transactions:
            self._files.append(outbox.transactions)
        by_connection: dict[int, list[bytes]] = {}
        for connection_id, frame in outbox.frames:
            by_connection.setdefault(connection_id, []).append(frame)
        for connection_id, frames in by_connection.items():
            connection = self.connections.get(connection_id)
            if connection is not None:
                self.connections.send(connection, b"".join(frames))
        done_ms = self._clock.monotonic_ms()
        began_ms = self._now.monotonic_ms
        for connection_id, frames in by_connection.items():
            client = self._core.connections.get(connection_id)
            if client is not None:
                client.latency.record(done_ms - began_ms, len(frames))
                client.last_reply_ms = done_ms
        for connection_id in outbox.closings:
            connection = self.connections.get(connection_id)
            if connection is not None:
                self._close_after_sending(connection)
        for connection_id, frame in outbox.refusals:
            connection = self.connections.get(connection_id)
            if connection is not None:
                self._forget(connection)
                self.connections.close_later(
                    connection, frame, self._options.logins.failure_delay_ms
                )
        self._latency.record(done_ms - began_ms, len(outbox.frames))
        due = max(self._options.snapshot_every_transactions, len(self._core.state.tree))
        if self._files.unsnapshotted_count >= due and self._has_room_for_snapshot():
            self._files.write_snapshot(self._core.state)

    def _has_room_for_snapshot(self) -> bool:
        """Whether a snapshot fits on the disk without using the reserve for the journal."""
        tree = self._core.state.tree
        snapshot_bytes = tree.approximate_data_bytes() + _NODE_BYTES * len(tree)
        return self._files.free_bytes() - self._options.min_free_bytes > snapshot_bytes

    # -- connections ---------------------------------------------------------------------------

    def _on_accepted(self, accepted: Accepted) -> None:
        self._begin_round()
        connection = self.connections.adopt(accepted)
        connection_id = connection.connection_id
        self._core.on_connected(connection_id, accepted.host, accepted.port, self._now)
        if accepted.principal is not None:
            self._core.identify(connection_id, accepted.principal)

    def _on_connection_ready(self, connection: ClientConnection, events: int) -> None:
        self._begin_round()
        if self.connections.get(connection.connection_id) is None:
            return  # closed earlier in this turn
        if events & WRITABLE and not self.connections.send(connection, b""):
            return
        has_turn_already = connection.connection_id in self._backlog
        if not events & READABLE or connection.is_closing or has_turn_already:
            return
        if not self.connections.receive(connection):
            return
        if connection.frames.word is not None:
            self._answer_word(connection, connection.frames.word)
        else:
            self._process(connection)

    def _process(self, connection: ClientConnection) -> None:
        """Process received requests as far as they fit into one round; the rest is backlog."""
        self._backlog.pop(connection.connection_id, None)
        self._backlog[connection.connection_id] = connection  # behind those that had no turn yet
        end_bytes = min(self._core.ordered_bytes + TURN_REPLY_BYTES, ROUND_REPLY_BYTES)
        # What one round writes must fit into the room that was found before it.
        journal_bytes = min(ROUND_JOURNAL_BYTES, self._free_bytes // 4)
        try:
            while (
                self._core.ordered_bytes < end_bytes
                and self._core.unjournaled_bytes <= journal_bytes
            ):
                record = connection.frames.next_record()
                if record is None:
                    del self._backlog[connection.connection_id]
                    self.connections.claim_memory(connection)
                    return
                connection.is_greeted = True
                self._core.on_record(connection.connection_id, record, self._now)
        except PeerError as error:
            _logger.warning(
                "closing %s: %s", connection.peer, error, extra=of_peer(connection.host)
            )
            self._close_after_sending(connection)

    def _close_after_sending(self, connection: ClientConnection, content: bytes = b"") -> None:
        self._forget(connection)
        self.connections.close_after_sending(connection, content)

    def _on_gone(self, connection: ClientConnection) -> None:
        self._acceptor.release(connection.host, connection.listener_name)
        self._forget(connection)

    def _forget(self, connection: ClientConnection) -> None:
        self._core.on_disconnected(connection.connection_id)
        self._backlog.pop(connection.connection_id, None)

    # -- four-letter words ---------------------------------------------------------------------

    def _answer_word(self, connection: ClientConnection, word: bytes) -> None:
        self._core.received_count += 1
        client = self._core.connections.get(connection.connection_id)
        if client is not None:
            client.received_count += 1
        if not self._options.four_letter_words & {"*", word.decode()}:
            self._core.sent_count += 1
            self._close_after_sending(connection, refusal(word).encode())
            return
        if word == b"crst":
            for one in self._core.connections.values():
                one.forget_figures()
        elif word == b"srst":
            self._core.received_count = self._core.sent_count = 0
            self._latency = Latency()
        listing = LISTINGS.get(word)
        text = answer(word, self._figures()) if listing is None else listing(self._core, self._now)
        self._core.sent_count += 1
        self._close_after_sending(connection, text.encode("utf-8"))

    def _figures(self) -> RegistryFigures:
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
            uptime_ms=self._now.monotonic_ms - self._started_ms,
            client_port=-1 if self._options.tls else self._port,
            secure_client_port=self._port if self._options.tls else -1,
            data_dir=str(self._options.data_dir),
            tick_time_ms=self._options.tick_time_ms,
            max_client_connections=self._options.max_client_connections,
            listen_backlog=LISTEN_BACKLOG,
        )


def _new_password() -> bytes:
    return os.urandom(PASSWORD_BYTES)


def _report_refusal(address: str, reason: str) -> None:
    host = address.rpartition(":")[0]
    _logger.warning("refused %s: %s", address, reason, extra=of_peer(host))
