"""The registry without sockets and disk: turns clients' records into an Outbox of work. Pure.

Every write takes the next zxid, so all writes are in one total order. The driver processes an
Outbox in its order: it journals to disk first, and only then sends frames and closes connections.
Source of behavior: ZooKeeper 3.8, `ZooKeeperServer` and its request processors.
"""

from collections.abc import Callable, Sequence
from typing import Final

from cluster.coordinator.registry.server.acl import Identity, digest_identity
from cluster.coordinator.registry.server.audience import notifications_of
from cluster.coordinator.registry.server.latency import Latency
from cluster.coordinator.registry.server.logins import Logins
from cluster.coordinator.registry.server.planning import Caller
from cluster.coordinator.registry.server.reads import Reader
from cluster.coordinator.registry.server.replies import (
    PASSWORD_BYTES,
    encode_connect_reply,
    encode_identities,
    encode_multi,
    encode_notification,
    encode_reply,
)
from cluster.coordinator.registry.server.requests import (
    AddWatchRequest,
    AuthRequest,
    ConnectRequest,
    DeleteContainerRequest,
    EmptyRequest,
    MultiRequest,
    PathRequest,
    Request,
    SaslRequest,
    SetWatchesRequest,
    WatchableRequest,
    WatchesRequest,
    WriteRequest,
    decode_connect,
    decode_request,
)
from cluster.coordinator.registry.server.room import Room, takes_little
from cluster.coordinator.registry.server.sessions import ConnectionId, Session
from cluster.coordinator.registry.server.state import RegistryState
from cluster.coordinator.registry.server.transactions import (
    Change,
    NodeDeleted,
    SessionClosed,
    SessionOpened,
    Transaction,
    encode_transaction,
)
from cluster.coordinator.registry.server.watch_requests import (
    add_watch,
    check_watches,
    remove_watches,
    restore_watches,
)
from cluster.coordinator.registry.server.watches import Notification, WatchTable
from cluster.coordinator.registry.server.writes import execute, execute_all
from cluster.coordinator.registry.wire.codes import (
    PING_XID,
    WRITES,
    Operation,
    OperationRefused,
    RegistryError,
)
from cluster.coordinator.registry.wire.digest_md5 import DigestExchange
from cluster.coordinator.registry.wire.jute import MalformedRecord, RecordReader, encode_buffer
from cluster.model.clocks import Moment
from cluster.model.errors import PeerError

CONTAINER_CHECK_INTERVAL_MS: Final = 60_000
"""The interval of checks of containers and TTL nodes (`znode.container.checkIntervalMs`)."""
NO_PASSWORD: Final = bytes(PASSWORD_BYTES)
_WITHOUT_ZXID: Final = frozenset(
    {
        RegistryError.OK,
        RegistryError.NOT_READ_ONLY,
        RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH,
    }
)
"""Errors of a write without a zxid of its own: it has one already, or the request was not looked
at.
"""


class Outbox:
    """Work in this order: journal all transactions, send all frames, close connections.

    `refusals` are answers to failed logins, sent later to connections that are closed with them.
    """

    __slots__ = (
        "closings",
        "frame_bytes",
        "frames",
        "refusals",
        "transaction_bytes",
        "transactions",
    )

    def __init__(self) -> None:
        self.transactions: list[bytes] = []
        self.transaction_bytes = 0
        self.frames: list[tuple[ConnectionId, bytes]] = []
        self.frame_bytes = 0
        self.closings: list[ConnectionId] = []
        self.refusals: list[tuple[ConnectionId, bytes]] = []

    def __bool__(self) -> bool:
        return bool(self.transactions or self.frames or self.closings or self.refusals)


class Connection:
    """One client's connection; `session` is None until its connect request was granted."""

    __slots__ = (
        "address",
        "connected_ms",
        "connected_wall_ms",
        "connection_id",
        "exchange",
        "identities",
        "last_operation",
        "last_reply_ms",
        "last_xid",
        "last_zxid",
        "latency",
        "received_count",
        "sent_count",
        "session",
    )

    def __init__(self, connection_id: ConnectionId, host: str, port: int, now: Moment) -> None:
        self.connection_id = connection_id
        self.address = f"{host}:{port}"
        self.session: Session | None = None
        self.identities: tuple[Identity, ...] = (Identity("ip", host),)
        self.exchange: DigestExchange | None = None
        self.connected_ms, self.connected_wall_ms = now
        self.last_operation, self.last_xid, self.last_zxid = 0, 0, 0
        self.forget_figures()

    def forget_figures(self) -> None:
        """Reset the figures (`crst`)."""
        self.latency = Latency()
        self.last_reply_ms = 0
        self.received_count = 0
        self.sent_count = 0


class RegistryServer:
    """Connections, and the effects of their requests on the state.

    Invariant: a notification is in the outbox before any reply that lets its receiver see the new
    state; replies of one connection are in the order of its requests.
    """

    def __init__(
        self,
        state: RegistryState,
        tick_time_ms: int,
        new_password: Callable[[], bytes],
        logins: Logins,
    ) -> None:
        self.state = state
        self.watches = WatchTable()
        self.connections: dict[ConnectionId, Connection] = {}
        self._reader = Reader(state.tree, self.watches)
        self._tick_time_ms = tick_time_ms
        self._new_password = new_password
        self._logins = logins
        self.received_count = 0
        self.sent_count = 0
        self.room = Room.ENOUGH
        """Which writes the disk has space for; set before every round."""
        self._outbox = Outbox()
        self._last_tick_ms: int | None = None
        self._next_container_check_ms: int | None = None

    @property
    def ordered_bytes(self) -> int:
        """Size of the frames ordered since the last `take_outbox`."""
        return self._outbox.frame_bytes

    @property
    def unjournaled_bytes(self) -> int:
        """Size of the transactions made since the last `take_outbox`."""
        return self._outbox.transaction_bytes

    def take_outbox(self) -> Outbox:
        """All work since the last call."""
        outbox, self._outbox = self._outbox, Outbox()
        return outbox

    def on_connected(self, connection_id: ConnectionId, host: str, port: int, now: Moment) -> None:
        """A client's connection was accepted."""
        self.connections[connection_id] = Connection(connection_id, host, port, now)

    def identify(self, connection_id: ConnectionId, subject: str) -> None:
        """The client has presented a certificate of that X.500 name
        (`X509AuthenticationProvider`).
        """
        self.connections[connection_id].identities += (Identity("x509", subject),)

    def on_disconnected(self, connection_id: ConnectionId) -> None:
        """A connection is closed; its session goes on until it expires."""
        connection = self.connections.pop(connection_id, None)
        if connection is None:
            return
        self.watches.remove_connection(connection_id)
        if connection.session is not None:
            self.state.sessions.detach(connection.session.session_id, connection_id)

    def on_record(self, connection_id: ConnectionId, record: bytes, now: Moment) -> None:
        """A whole record arrived. Raises PeerError when it is not of this protocol."""
        connection = self.connections.get(connection_id)
        if connection is None:
            return
        connection.received_count += 1
        self.received_count += 1
        try:
            if connection.session is None:
                self._connect(connection, decode_connect(record), now)
                return
            reader = RecordReader(record)
            xid, operation = reader.read_int(), reader.read_int()
        except MalformedRecord as malformed:
            raise PeerError(str(malformed)) from malformed
        self.state.sessions.touch(connection.session, now.monotonic_ms)
        self._request(connection, connection.session, xid, operation, reader, now)

    def on_tick(self, now: Moment) -> None:
        """Close expired sessions and periodically remove empty containers and expired TTL nodes.

        After a pause of more than two ticks every session gets its full time again, since
        heartbeats may have arrived unread.
        """
        last_tick_ms, self._last_tick_ms = self._last_tick_ms, now.monotonic_ms
        if last_tick_ms is not None and now.monotonic_ms - last_tick_ms > 3 * self._tick_time_ms:
            self.state.sessions.touch_all(now.monotonic_ms)
        for session in self.state.sessions.expired(now.monotonic_ms):
            self._close_session(session, now)
            if session.connection_id is not None:
                self._close(session.connection_id)
        if self._next_container_check_ms is None:
            self._next_container_check_ms = now.monotonic_ms + CONTAINER_CHECK_INTERVAL_MS
        elif now.monotonic_ms >= self._next_container_check_ms:
            self._next_container_check_ms = now.monotonic_ms + CONTAINER_CHECK_INTERVAL_MS
            self.remove_outlived(now)

    def remove_outlived(self, now: Moment) -> None:
        """Remove empty containers and expired TTL nodes."""
        nobody = Caller(0, ())
        for path in self.state.tree.removable(now.wall_ms):
            request = DeleteContainerRequest(path)
            self._write(Operation.DELETE_CONTAINER, request, nobody, now)

    def _connect(self, connection: Connection, request: ConnectRequest, now: Moment) -> None:
        sessions = self.state.sessions
        if request.last_zxid_seen > self.state.last_zxid:
            raise PeerError(
                f"it has seen zxid {request.last_zxid_seen:#x}, this registry's last is "
                f"{self.state.last_zxid:#x}: was its data directory replaced?"
            )
        session_id = request.session_id
        password = request.password
        timeout_ms = sessions.negotiate_timeout(request.timeout_ms)
        if session_id == 0:
            if self.room is Room.NONE:
                raise PeerError("no session for it, the disk is full")
            session_id, password = sessions.choose_id(now.wall_ms), self._new_password()
            self._commit([SessionOpened(session_id, timeout_ms, password)], now, apply=True)
        attached = sessions.attach(
            session_id, password, timeout_ms, connection.connection_id, now.monotonic_ms
        )
        if attached is None:
            session_id, timeout_ms, password = 0, 0, NO_PASSWORD
        else:
            connection.session, previous = attached
            if previous is not None:
                self._close(previous)
        reply = encode_connect_reply(
            session_id, timeout_ms, password, with_read_only=request.read_only is not None
        )
        self._send(connection, reply)
        if attached is None:
            self._close(connection.connection_id)

    def _request(
        self,
        connection: Connection,
        session: Session,
        xid: int,
        operation: int,
        reader: RecordReader,
        now: Moment,
    ) -> None:
        error, record = RegistryError.OK, b""
        is_refused = self.room is Room.NONE and operation in WRITES
        try:
            self._logins.require_login(connection, operation)
            if is_refused:
                raise OperationRefused(RegistryError.NOT_READ_ONLY)
            request = decode_request(operation, reader)
            if request is None:
                error = RegistryError.UNIMPLEMENTED
            elif (
                operation in WRITES
                and self.room is Room.LITTLE
                and not takes_little(request, self.state.tree)
            ):
                error = RegistryError.NOT_READ_ONLY
            else:
                record = self._answer(connection, session, Operation(operation), request, now)
        except MalformedRecord:
            error = RegistryError.MARSHALLING_ERROR
        except OperationRefused as refused:
            error = refused.code
        if error not in _WITHOUT_ZXID and operation in WRITES:
            self._commit([], now)  # a refused write takes a zxid too
        if operation == Operation.PING:
            xid = PING_XID
        is_login = operation in (Operation.AUTH, Operation.SASL)
        is_cut_off = error is RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH
        zxid = 0 if is_login or is_cut_off else self.state.last_zxid
        if error is RegistryError.UNIMPLEMENTED:
            zxid = -1
        frame = encode_reply(xid, zxid, error, record)
        connection.last_operation, connection.last_xid, connection.last_zxid = operation, xid, zxid
        if is_login and error is not RegistryError.OK:
            self._refuse(connection.connection_id, frame)
            return
        self._send(connection, frame)
        is_over = operation == Operation.CLOSE_SESSION or error is RegistryError.UNIMPLEMENTED
        if is_over or is_cut_off:
            self._close(connection.connection_id)

    def _answer(
        self,
        connection: Connection,
        session: Session,
        operation: Operation,
        request: Request,
        now: Moment,
    ) -> bytes:
        caller = Caller(session.session_id, connection.identities)
        connection_id = connection.connection_id
        match request:
            case WatchableRequest():
                return self._reader.read_watchable(operation, request, caller, connection_id)
            case PathRequest():
                return self._reader.read_path(operation, request, caller)
            case EmptyRequest():
                return self._answer_empty(connection, session, operation, now)
            case MultiRequest() if operation is Operation.MULTI_READ:
                return encode_multi(self._reader.read_multi(request, caller, connection_id))
            case MultiRequest():
                return self._write_all(request, caller, now)
            case SetWatchesRequest():
                self._notify(restore_watches(self.state.tree, self.watches, request, connection_id))
                return b""
            case AddWatchRequest():
                add_watch(self.watches, request, connection_id)
                return b"\0\0\0\0"  # ErrorResponse {int err}
            case WatchesRequest():
                act = check_watches if operation is Operation.CHECK_WATCHES else remove_watches
                act(self.watches, request, connection_id)
                return b""
            case AuthRequest():
                self._authenticate(connection, request)
                return b""
            case SaslRequest(token):
                return encode_buffer(self._logins.answer(connection, token))
            case _:
                return self._write(operation, request, caller, now)

    def _answer_empty(
        self, connection: Connection, session: Session, operation: Operation, now: Moment
    ) -> bytes:
        if operation is Operation.WHO_AM_I:
            return encode_identities(connection.identities)
        if operation is Operation.CLOSE_SESSION:
            self._close_session(session, now)
        elif operation is Operation.RECONFIG:
            raise OperationRefused(RegistryError.RECONFIG_DISABLED)  # one server, as it is
        return b""

    @staticmethod
    def _authenticate(connection: Connection, request: AuthRequest) -> None:
        if request.scheme == "digest":
            proved = digest_identity(request.credentials)
        elif request.scheme == "ip":
            return
        else:
            raise OperationRefused(RegistryError.AUTH_FAILED)
        if proved not in connection.identities:
            connection.identities = (*connection.identities, proved)

    def _write(
        self, operation: Operation, request: WriteRequest, caller: Caller, now: Moment
    ) -> bytes:
        change, record = execute(
            self.state.tree, operation, request, caller, self.state.last_zxid + 1, now.wall_ms
        )
        self._commit([] if change is None else [change], now)
        return record

    def _write_all(self, request: MultiRequest, caller: Caller, now: Moment) -> bytes:
        changes, results = execute_all(
            self.state.tree, request.steps, caller, self.state.last_zxid + 1, now.wall_ms
        )
        self._commit(changes, now)
        return encode_multi(results)

    def _close_session(self, session: Session, now: Moment) -> None:
        """Close a session in one transaction with the deletion of its ephemeral nodes."""
        changes: list[Change] = [
            NodeDeleted(path, self.state.tree.get(path).acl)
            for path in self.state.tree.ephemerals_of(session.session_id)
        ]
        changes.append(SessionClosed(session.session_id))
        self._commit(changes, now, apply=True)

    def _commit(self, changes: Sequence[Change], now: Moment, *, apply: bool = False) -> None:
        """Commit changes with the next zxid and notify watchers; `apply`: they are not in the state
        yet.
        """
        transaction = Transaction(self.state.last_zxid + 1, now.wall_ms, tuple(changes))
        if apply:
            self.state.apply(transaction, now.monotonic_ms)
        self.state.last_zxid = transaction.zxid
        encoded = encode_transaction(transaction)
        self._outbox.transactions.append(encoded)
        self._outbox.transaction_bytes += len(encoded)
        if self.watches.count:
            self._notify(
                notifications_of(changes, self.watches, self.state.tree, self._identities_of)
            )

    def _identities_of(self, connection_id: ConnectionId) -> tuple[Identity, ...]:
        return self.connections[connection_id].identities

    def _notify(self, notifications: Sequence[Notification]) -> None:
        for connection_id, event_type, path in notifications:
            self._send(self.connections[connection_id], encode_notification(event_type, path))

    def _send(self, connection: Connection, frame: bytes) -> None:
        connection.sent_count += 1
        self.sent_count += 1
        self._outbox.frames.append((connection.connection_id, frame))
        self._outbox.frame_bytes += len(frame)

    def _refuse(self, connection_id: ConnectionId, frame: bytes) -> None:
        """Close a connection with a last frame that is delayed, which slows down guessing of
        passwords.
        """
        self.on_disconnected(connection_id)
        self.sent_count += 1
        self._outbox.refusals.append((connection_id, frame))

    def _close(self, connection_id: ConnectionId) -> None:
        """Close a connection once the outbox so far is sent; nothing more is read from it or sent
        to it.
        """
        self.on_disconnected(connection_id)
        self._outbox.closings.append(connection_id)
