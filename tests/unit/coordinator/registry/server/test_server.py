"""The pure server, talked to in bytes; kazoo's records are the second opinion on the encoding."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.protocol import serialization as kazoo_records
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, make_digest_acl

from cluster.coordinator.registry.server.logins import Logins
from cluster.coordinator.registry.server.options import LoginOptions
from cluster.coordinator.registry.server.server import RegistryServer
from cluster.coordinator.registry.server.state import RegistryState
from cluster.coordinator.registry.server.transactions import decode_transaction
from cluster.coordinator.registry.wire.codes import Operation, RegistryError
from cluster.coordinator.registry.wire.jute import (
    encode_bool,
    encode_buffer,
    encode_int,
    encode_long,
    encode_string,
    encode_strings,
)
from cluster.model.clocks import Moment, MonotonicMs, WallMs
from cluster.model.errors import PeerError

TICK_MS = 2_000
PASSWORD = b"p" * 16
Reply = tuple[int, int, int, bytes]


class Registry:
    """A server core, a clock in the test's hand, and what it ordered."""

    def __init__(
        self, state: RegistryState | None = None, logins: LoginOptions | None = None
    ) -> None:
        self.refusals: list[tuple[str, str]] = []
        self.core = RegistryServer(
            state or RegistryState(TICK_MS),
            TICK_MS,
            lambda: PASSWORD,
            Logins(
                logins or LoginOptions(), lambda: "nonce", lambda *one: self.refusals.append(one)
            ),
        )
        self.now_ms = MonotonicMs(0)
        self.journal: list[bytes] = []
        self.frames: dict[int, list[bytes]] = {}
        self.closed: list[int] = []
        self.refused: list[tuple[int, bytes]] = []

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, WallMs(1_700_000_000_000 + self.now_ms))

    def perform(self) -> None:
        outbox = self.core.take_outbox()
        self.journal += outbox.transactions
        for connection_id, frame in outbox.frames:
            assert len(frame) == 4 + struct.unpack_from(">i", frame)[0]
            self.frames.setdefault(connection_id, []).append(frame[4:])
        self.closed += outbox.closings
        self.refused += outbox.refusals

    def tick(self, now_ms: int) -> None:
        self.now_ms = MonotonicMs(now_ms)
        self.core.on_tick(self.moment)
        self.perform()


class Client:
    """One connection."""

    def __init__(self, registry: Registry, connection_id: int) -> None:
        self.registry = registry
        self.connection_id = connection_id
        self.xid = 0
        registry.core.on_connected(
            connection_id, "127.0.0.1", 50_000 + connection_id, registry.moment
        )

    def send(self, record: bytes) -> None:
        self.registry.core.on_record(self.connection_id, record, self.registry.moment)
        self.registry.perform()

    def received(self) -> list[bytes]:
        return self.registry.frames.pop(self.connection_id, [])

    def connect(
        self,
        session_id: int = 0,
        password: bytes = b"\0" * 16,
        timeout_ms: int = 10_000,
        last_zxid: int = 0,
        read_only: bool = False,
    ) -> tuple[int, int, bytes]:
        request = kazoo_records.Connect(0, last_zxid, timeout_ms, session_id, password, read_only)
        self.send(bytes(request.serialize()))
        [reply] = self.received()
        answer, end = kazoo_records.Connect.deserialize(reply, 0)
        assert end == len(reply)
        return answer.session_id, answer.time_out, answer.passwd

    def ask(self, operation: int, body: bytes, xid: int | None = None) -> Reply:
        """Send one request; its reply, which must be the last thing received."""
        if xid is None:
            self.xid += 1
            xid = self.xid
        self.send(struct.pack(">ii", xid, operation) + body)
        *self.notifications, reply = self.received()
        reply_xid, zxid, error = struct.unpack_from(">iqi", reply)
        assert reply_xid == xid
        return reply_xid, zxid, error, reply[16:]

    def call(self, request: Any) -> Any:
        """A kazoo request; its decoded answer, or the RegistryError."""
        _, _, error, record = self.ask(request.type, bytes(request.serialize()))
        if error:
            assert record == b""
            return RegistryError(error)
        return request.deserialize(record, 0) if hasattr(request, "deserialize") else None

    def create(self, path: str, data: bytes = b"", flags: int = 0) -> Any:
        return self.call(kazoo_records.Create(path, data, OPEN_ACL_UNSAFE, flags))

    def events(self) -> list[tuple[int, int, str]]:
        """Notifications received, before the last reply or since."""
        frames, self.notifications = [*self.notifications, *self.received()], []
        events = []
        for frame in frames:
            assert struct.unpack_from(">iqi", frame) == (-1, -1, 0)
            watch, end = kazoo_records.Watch.deserialize(frame, 16)
            assert end == len(frame)
            events.append(tuple(watch))
        return events

    notifications: list[bytes] = []  # noqa: RUF012 - replaced by each call of ask


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def clients(registry: Registry) -> Iterator[Client]:
    def connected() -> Iterator[Client]:
        connection_id = 0
        while True:
            connection_id += 1
            client = Client(registry, connection_id)
            client.connect()
            yield client

    return connected()


def test_a_session_is_journaled_and_granted_a_timeout_in_bounds(registry: Registry) -> None:
    session_id, timeout_ms, password = Client(registry, 1).connect(timeout_ms=1)
    assert session_id > 0
    assert timeout_ms == 4_000
    assert password == PASSWORD
    assert [decode_transaction(one).zxid for one in registry.journal] == [1]


def test_the_read_only_byte_is_answered_only_to_who_sent_it(registry: Registry) -> None:
    client = Client(registry, 1)
    request = kazoo_records.Connect(0, 0, 10_000, 0, b"\0" * 16, False)
    client.send(bytes(request.serialize())[:-1])
    [reply] = client.received()
    assert len(reply) == 4 + 4 + 8 + 4 + 16


def test_client_with_a_newer_zxid_is_refused(registry: Registry) -> None:
    with pytest.raises(PeerError, match="0x9"):
        Client(registry, 1).connect(last_zxid=9)


def test_an_unknown_session_or_password_gets_id_0_and_is_closed(registry: Registry) -> None:
    session_id, _, password = Client(registry, 1).connect()
    assert Client(registry, 2).connect(77, password) == (0, 0, b"\0" * 16)
    assert Client(registry, 3).connect(session_id, b"x" * 16) == (0, 0, b"\0" * 16)
    assert registry.closed == [2, 3]


def test_a_session_moves_and_its_old_connection_is_closed(registry: Registry) -> None:
    first, second = Client(registry, 1), Client(registry, 2)
    session_id, _, password = first.connect()
    first.create("/e", flags=1)
    assert second.connect(session_id, password) == (session_id, 10_000, password)
    assert registry.closed == [1]
    first.send(struct.pack(">ii", 1, Operation.PING))
    assert first.received() == [], "a closed connection is not heard"
    registry.core.on_disconnected(1)
    registry.tick(20_000)
    assert registry.core.state.tree.find("/e") is None


def test_pings_keep_a_session_and_silence_ends_it(
    registry: Registry, clients: Iterator[Client]
) -> None:
    alive, silent = next(clients), next(clients)
    alive.create("/alive", flags=1)
    silent.create("/silent", flags=1)
    alive.call(kazoo_records.Exists("/silent", True))
    for now_ms in range(2_000, 14_000, 2_000):
        registry.tick(now_ms)
        assert alive.ask(Operation.PING, b"", xid=-2)[2] == 0
    tree = registry.core.state.tree
    assert tree.find("/alive") is not None
    assert tree.find("/silent") is None
    assert registry.closed == [silent.connection_id]
    assert alive.events() == [(2, 3, "/silent")]


def test_expiry_tells_the_watchers(registry: Registry, clients: Iterator[Client]) -> None:
    watcher, dying = next(clients), next(clients)
    dying.create("/e", flags=1)
    watcher.call(kazoo_records.GetData("/e", True))
    registry.core.on_disconnected(dying.connection_id)
    for now_ms in range(2_000, 12_000, 2_000):
        registry.tick(now_ms)
        watcher.ask(Operation.PING, b"", xid=-2)
    registry.tick(12_000)
    assert watcher.events() == [(2, 3, "/e")]


def test_after_a_pause_of_the_registry_sessions_get_their_time_again(
    registry: Registry, clients: Iterator[Client]
) -> None:
    client = next(clients)
    registry.tick(2_000)
    registry.tick(600_000)
    assert client.connection_id not in registry.closed
    for now_ms in range(602_000, 614_000, 2_000):
        registry.tick(now_ms)
    assert registry.closed == [client.connection_id]


def test_closing_a_session_removes_its_nodes_in_one_transaction(
    registry: Registry, clients: Iterator[Client]
) -> None:
    client, watcher = next(clients), next(clients)
    client.create("/e1", flags=1)
    client.create("/e2", flags=1)
    client.create("/p")
    watcher.call(kazoo_records.GetChildren("/", True))
    journaled = len(registry.journal)
    _, zxid, error, record = client.ask(Operation.CLOSE_SESSION, b"")
    assert (error, record) == (0, b"")
    assert len(registry.journal) == journaled + 1
    assert decode_transaction(registry.journal[-1]).zxid == zxid
    assert registry.closed == [client.connection_id]
    assert watcher.events() == [(4, 3, "/")]
    assert watcher.call(kazoo_records.GetChildren("/", False)) == ["zookeeper", "p"]


def test_reads_and_writes_as_kazoo_reads_them(clients: Iterator[Client]) -> None:
    client = next(clients)
    assert client.create("/a", b"1") == "/a"
    assert client.create("/a", b"1") is RegistryError.NODE_EXISTS
    path, stat = client.call(kazoo_records.Create2("/a/s-", b"22", OPEN_ACL_UNSAFE, 3))
    assert path == "/a/s-0000000000"
    assert stat.ephemeralOwner > 0
    assert client.call(kazoo_records.GetData(path, False)) == (b"22", stat)
    assert client.call(kazoo_records.Exists("/a", False)).numChildren == 1
    assert client.call(kazoo_records.Exists("/b", False)) is RegistryError.NO_NODE
    names, stat = client.call(kazoo_records.GetChildren2("/a", False))
    assert names == ["s-0000000000"]
    assert stat.cversion == 1
    stat = client.call(kazoo_records.SetData("/a", b"333", 0))
    assert (stat.version, stat.dataLength) == (1, 3)
    assert client.call(kazoo_records.SetData("/a", b"", 0)) is RegistryError.BAD_VERSION
    assert client.call(kazoo_records.GetACL("/a")) == (OPEN_ACL_UNSAFE, stat)
    assert client.call(kazoo_records.Sync("/a")) == "/a"
    assert client.call(kazoo_records.Delete("/a", -1)) is RegistryError.NOT_EMPTY
    assert client.call(kazoo_records.Delete(path, -1)) is True


def test_null_data_stays_null(clients: Iterator[Client]) -> None:
    client = next(clients)
    client.call(kazoo_records.Create("/null", None, OPEN_ACL_UNSAFE, 0))
    data, stat = client.call(kazoo_records.GetData("/null", False))
    assert data is None
    assert stat.dataLength == 0


def test_write_replies_carry_their_zxid_and_reads_the_last(clients: Iterator[Client]) -> None:
    client = next(clients)
    body = bytes(kazoo_records.Create("/a", b"", OPEN_ACL_UNSAFE, 0).serialize())
    assert client.ask(Operation.CREATE, body)[1] == 2
    assert client.ask(Operation.CREATE, body)[1] == 3, "a refused write takes a zxid too"
    exists = bytes(kazoo_records.Exists("/a", False).serialize())
    assert client.ask(Operation.EXISTS, exists)[1] == 3


def test_notifications_come_before_the_reply_that_shows_the_new_state(
    clients: Iterator[Client],
) -> None:
    client, writer = next(clients), next(clients)
    client.call(kazoo_records.Exists("/a", True))
    writer.create("/a")
    client.call(kazoo_records.GetData("/a", True))
    assert client.events() == [(1, 3, "/a")]
    client.call(kazoo_records.SetData("/a", b"own", -1))
    assert client.events() == [(3, 3, "/a")], "also to the writer itself, before its reply"


def test_only_exists_leaves_a_watch_on_what_is_not_there(clients: Iterator[Client]) -> None:
    client = next(clients)
    assert client.call(kazoo_records.GetData("/a", True)) is RegistryError.NO_NODE
    assert client.call(kazoo_records.GetChildren("/a", True)) is RegistryError.NO_NODE
    client.create("/a")
    assert client.events() == []


def set_watches2(relative_zxid: int, *kinds: list[str]) -> bytes:
    return encode_long(relative_zxid) + b"".join(encode_strings(paths) for paths in kinds)


def test_restored_watches_report_missed_events(clients: Iterator[Client]) -> None:
    writer = next(clients)
    for path in ("/same", "/changed", "/parent", "/quiet"):
        writer.create(path)
    seen_zxid = writer.ask(Operation.PING, b"", xid=-2)[1]
    writer.call(kazoo_records.SetData("/changed", b"", -1))
    writer.create("/parent/child")
    writer.create("/appeared")
    client = next(clients)
    body = set_watches2(
        seen_zxid,
        ["/same", "/changed", "/gone"],
        ["/appeared", "/absent"],
        ["/parent", "/quiet", "/gone"],
        ["/persistent"],
        ["/quiet"],
    )
    assert client.ask(Operation.SET_WATCHES2, body, xid=-8)[2] == 0
    assert client.events() == [
        (3, 3, "/changed"),
        (2, 3, "/gone"),
        (1, 3, "/appeared"),
        (4, 3, "/parent"),
        (2, 3, "/gone"),
    ]
    writer.call(kazoo_records.SetData("/same", b"", -1))
    writer.create("/absent")
    writer.create("/quiet/child")
    writer.create("/persistent")
    assert client.events() == [
        (3, 3, "/same"),
        (1, 3, "/absent"),
        (1, 3, "/quiet/child"),
        (4, 3, "/quiet"),
        (1, 3, "/persistent"),
    ]


def test_set_watches_is_the_same_without_the_lasting_kinds(clients: Iterator[Client]) -> None:
    writer, client = next(clients), next(clients)
    client.ask(Operation.SET_WATCHES, set_watches2(0, [], ["/a"], ["/"]), xid=-8)
    writer.create("/a")
    assert client.events() == [(1, 3, "/a"), (4, 3, "/")]


def test_lasting_watches_are_added_checked_and_removed(clients: Iterator[Client]) -> None:
    client, writer = next(clients), next(clients)
    reply = client.ask(Operation.ADD_WATCH, encode_string("/a") + encode_int(1))
    assert reply[2:] == (0, encode_int(0)), "ErrorResponse"
    bad = client.ask(Operation.ADD_WATCH, encode_string("/a") + encode_int(2))
    assert bad[2] == RegistryError.MARSHALLING_ERROR
    writer.create("/a")
    writer.create("/a/b")
    assert client.events() == [(1, 3, "/a"), (1, 3, "/a/b")]
    any_watch = encode_string("/a") + encode_int(3)
    assert client.ask(Operation.CHECK_WATCHES, any_watch)[2:] == (0, b"")
    assert client.ask(Operation.REMOVE_WATCHES, any_watch)[2:] == (0, b"")
    assert client.ask(Operation.REMOVE_WATCHES, any_watch)[2] == RegistryError.NO_WATCHER
    assert client.ask(Operation.CHECK_WATCHES, any_watch)[2] == RegistryError.NO_WATCHER
    writer.create("/a/c")
    assert client.events() == []


def test_persistent_watch_notifies_only_permitted_readers(clients: Iterator[Client]) -> None:
    """CVE-2024-23944."""
    owner, other = next(clients), next(clients)
    for client in (owner, other):
        credentials = b"owner:x" if client is owner else b"other:x"
        body = encode_int(0) + encode_string("digest") + encode_buffer(credentials)
        assert client.ask(Operation.AUTH, body)[2] == 0
        client.ask(Operation.ADD_WATCH, encode_string("/a") + encode_int(1))
    acl = [make_digest_acl("owner", "x", all=True)]
    for kind, request in (
        (1, kazoo_records.Create("/a", b"", acl, 0)),
        (3, kazoo_records.SetData("/a", b"1", -1)),
        (2, kazoo_records.Delete("/a", -1)),
    ):
        owner.call(request)
        assert owner.events() == [(kind, 3, "/a")]
        assert other.events() == []


def test_a_client_deletes_a_container_only_where_it_may_delete(clients: Iterator[Client]) -> None:
    owner, other = next(clients), next(clients)
    credentials = encode_int(0) + encode_string("digest") + encode_buffer(b"owner:x")
    owner.ask(Operation.AUTH, credentials)
    acl = [make_digest_acl("owner", "x", all=True)]
    owner.call(kazoo_records.Create("/a", b"", acl, 0))
    body = bytes(kazoo_records.Create("/a/c", b"", OPEN_ACL_UNSAFE, 4).serialize())
    assert owner.ask(Operation.CREATE_CONTAINER, body)[2] == 0
    path = encode_string("/a/c")
    assert other.ask(Operation.DELETE_CONTAINER, path)[2] == RegistryError.NO_AUTH
    assert owner.ask(Operation.DELETE_CONTAINER, path)[2] == 0


def test_multi_as_kazoo_reads_it(registry: Registry, clients: Iterator[Client]) -> None:
    client = next(clients)
    client.create("/a")
    good = kazoo_records.Transaction(
        [
            kazoo_records.Create("/b", b"1", OPEN_ACL_UNSAFE, 0),
            kazoo_records.CheckVersion("/a", 0),
            kazoo_records.SetData("/b", b"2", 0),
            kazoo_records.Delete("/a", 0),
        ]
    )
    journaled = len(registry.journal)
    _, zxid, error, record = client.ask(Operation.MULTI, bytes(good.serialize()))
    assert error == 0
    path, checked, stat, deleted = kazoo_records.Transaction.deserialize(record, 0)
    assert (path, checked, stat.version, deleted) == ("/b", True, 1, True)
    assert stat.mzxid == zxid
    assert len(registry.journal) == journaled + 1
    _, _, error, record = client.ask(Operation.MULTI, bytes(good.serialize()))
    results = kazoo_records.Transaction.deserialize(record, 0)
    assert error == 0
    assert [result.code for result in results] == [-110, -2, -2, -2]
    assert len(registry.journal) == journaled + 2
    refused = decode_transaction(registry.journal[-1])
    assert refused.changes == ()


def test_multi_read_answers_each_step_for_itself(clients: Iterator[Client]) -> None:
    client = next(clients)
    client.create("/a", b"1")
    header = kazoo_records.MultiHeader
    body = (
        bytes(header(4, False, -1).serialize())
        + bytes(kazoo_records.GetData("/a", False).serialize())
        + bytes(header(8, False, -1).serialize())
        + bytes(kazoo_records.GetChildren("/none", False).serialize())
        + bytes(header(-1, True, -1).serialize())
    )
    _, _, error, record = client.ask(Operation.MULTI_READ, body)
    assert error == 0
    first, position = header.deserialize(record, 0)
    assert first == header(4, False, 0)
    data, _ = kazoo_records.GetData.deserialize(record, position)
    assert data == b"1"
    position += 4 + 1 + 68
    second, position = header.deserialize(record, position)
    assert second == header(-1, False, -101)
    assert record[position : position + 4] == encode_int(-101)
    last, position = header.deserialize(record, position + 4)
    assert last == header(-1, True, -1)
    assert position == len(record)


def test_container_ttl_and_their_removal(registry: Registry, clients: Iterator[Client]) -> None:
    client = next(clients)
    acl = encode_int(1) + encode_int(31) + encode_string("world") + encode_string("anyone")
    container = encode_string("/c") + encode_buffer(b"") + acl + encode_int(4)
    _, _, error, record = client.ask(Operation.CREATE_CONTAINER, container)
    assert (error, len(record)) == (0, 4 + 2 + 68)
    client.create("/c/child")
    client.call(kazoo_records.Delete("/c/child", -1))
    ttl = encode_string("/t") + encode_buffer(b"") + acl + encode_int(5) + encode_long(1_000)
    assert client.ask(Operation.CREATE_TTL, ttl)[2] == 0
    registry.tick(0)
    for now_ms in range(2_000, 60_001, 2_000):
        registry.tick(now_ms)
        client.ask(Operation.PING, b"", xid=-2)
    assert client.call(kazoo_records.GetChildren("/", False)) == ["zookeeper"]
    own = encode_string("/c")
    assert client.ask(Operation.DELETE_CONTAINER, own)[2] == RegistryError.NO_NODE


def test_small_reads(clients: Iterator[Client]) -> None:
    client = next(clients)
    client.create("/a")
    client.create("/a/e", flags=1)
    client.create("/f", flags=1)
    reply = client.ask(Operation.GET_EPHEMERALS, encode_string("/a"))
    assert reply[2:] == (0, encode_strings(["/a/e"]))
    reply = client.ask(Operation.GET_ALL_CHILDREN_NUMBER, encode_string("/a"))
    assert reply[2:] == (0, encode_int(1))
    reply = client.ask(Operation.WHO_AM_I, b"")
    assert reply[2:] == (0, encode_int(1) + encode_string("ip") + encode_string("127.0.0.1"))


def test_digest_auth_opens_what_it_protects(clients: Iterator[Client]) -> None:
    alice, other = next(clients), next(clients)
    own = [make_digest_acl("alice", "secret", all=True)]
    alice.call(kazoo_records.Create("/own", b"", own, 0))
    assert alice.call(kazoo_records.GetData("/own", False)) is RegistryError.NO_AUTH
    auth = bytes(kazoo_records.Auth(0, "digest", "alice:secret").serialize())
    assert alice.ask(Operation.AUTH, auth, xid=-4)[2:] == (0, b"")
    assert alice.call(kazoo_records.GetData("/own", False))[0] == b""
    assert other.call(kazoo_records.GetData("/own", False)) is RegistryError.NO_AUTH
    assert other.call(kazoo_records.SetACL("/own", OPEN_ACL_UNSAFE, -1)) is RegistryError.NO_AUTH
    readable = [*own, ACL(1, Id("world", "anyone"))]
    assert alice.call(kazoo_records.SetACL("/own", readable, 0)).aversion == 1
    shown, _ = other.call(kazoo_records.GetACL("/own"))
    assert shown[0].id.id == "alice:x"
    by_auth = [ACL(31, Id("auth", ""))]
    assert other.call(kazoo_records.SetACL("/own", by_auth, -1)) is RegistryError.INVALID_ACL
    who = alice.ask(Operation.WHO_AM_I, b"")[3]
    assert who.endswith(encode_string("digest") + encode_string("alice"))


def test_a_failed_auth_is_answered_and_closed(
    registry: Registry, clients: Iterator[Client]
) -> None:
    client = next(clients)
    auth = bytes(kazoo_records.Auth(0, "kerberos", "x").serialize())
    client.send(struct.pack(">ii", -4, Operation.AUTH) + auth)
    [(connection_id, frame)] = registry.refused
    assert connection_id == client.connection_id
    assert struct.unpack_from(">iqi", frame, 4) == (-4, 0, RegistryError.AUTH_FAILED)
    client.send(struct.pack(">ii", 1, Operation.PING))
    assert client.received() == []
    assert registry.closed == []


def test_invalid_requests_are_refused(registry: Registry, clients: Iterator[Client]) -> None:
    client, other = next(clients), next(clients)
    assert client.ask(Operation.RECONFIG, b"")[2] == RegistryError.RECONFIG_DISABLED
    assert other.ask(4711, b"x")[1:3] == (-1, RegistryError.UNIMPLEMENTED)
    assert registry.closed == [other.connection_id]
    assert client.ask(Operation.CREATE, b"\0\0")[2] == RegistryError.MARSHALLING_ERROR
    multi = encode_int(Operation.SET_ACL) + encode_bool(False) + encode_int(-1)
    assert client.ask(Operation.MULTI, multi)[2] == RegistryError.MARSHALLING_ERROR
    with pytest.raises(PeerError):
        client.send(b"\0\0\0")


@pytest.mark.parametrize("record", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 20])
def test_garbage_instead_of_a_connect_request(registry: Registry, record: bytes) -> None:
    with pytest.raises(PeerError):
        Client(registry, 1).send(record)


def test_the_journal_gives_the_same_state(registry: Registry, clients: Iterator[Client]) -> None:
    client, leaving = next(clients), next(clients)
    client.create("/a", b"1")
    client.create("/a/e", flags=1)
    leaving.create("/a/l-", flags=3)
    client.call(kazoo_records.SetData("/a", b"2", 0))
    client.call(kazoo_records.SetACL("/a", [ACL(31, Id("ip", "127.0.0.1"))], 0))
    leaving.ask(Operation.CLOSE_SESSION, b"")
    replayed = RegistryState(TICK_MS)
    for payload in registry.journal:
        replayed.apply(decode_transaction(payload), MonotonicMs(0))
    living = registry.core.state
    assert replayed.last_zxid == living.last_zxid
    assert [one.session_id for one in replayed.sessions] == [
        one.session_id for one in living.sessions
    ]
    assert {
        path: (node.data, node.acl, node.encode_stat()) for path, node in living.tree.items()
    } == {path: (node.data, node.acl, node.encode_stat()) for path, node in replayed.tree.items()}
