"""The registry as a process: kazoo, its recipes, kill -9, and clients that are not clients."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.recipe.watchers import ChildrenWatch, DataWatch
from kazoo.security import make_digest_acl

from cluster.coordinator.registry.client.session_close import close_session
from tests.integration.registry_process import DEADLINE_SECONDS, RegistryProcess, wait_until


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path / "registry") as process:
        yield process


def go_silent(client: KazooClient) -> None:
    """End a client without a goodbye, as kill -9 of its process would."""
    client._stopped.set()  # noqa: SLF001 - kazoo itself cannot vanish
    with contextlib.suppress(OSError):
        client._connection._socket.shutdown(socket.SHUT_RDWR)  # noqa: SLF001
    assert client._connection.connection_stopped.wait(DEADLINE_SECONDS)  # noqa: SLF001
    client.handler.stop()


def is_gone(client: KazooClient, path: str) -> bool:
    return client.exists(path) is None


def test_ephemeral_nodes_are_deleted_when_their_session_is_closed(
    registry: RegistryProcess,
) -> None:
    owner, other = registry.client(), registry.client()
    gone = threading.Event()
    owner.create("/e", b"", ephemeral=True)
    with pytest.raises(NodeExistsError):
        other.create("/e", b"", ephemeral=True)
    assert other.exists("/e", watch=lambda _: gone.set())
    owner.stop()
    assert gone.wait(DEADLINE_SECONDS)
    assert is_gone(other, "/e")


def test_ephemeral_nodes_are_deleted_when_their_session_expires_and_not_before(
    registry: RegistryProcess,
) -> None:
    owner, other = registry.client(timeout=4.0), registry.client()
    gone = threading.Event()
    owner.create("/e", b"", ephemeral=True)
    assert other.exists("/e", watch=lambda _: gone.set())
    go_silent(owner)  # which last spoke a third of the timeout ago, or later
    assert not gone.wait(0.5), "it may come back within its timeout"
    assert gone.wait(DEADLINE_SECONDS)


def test_the_supervisor_closes_the_session_of_a_dead_broker(registry: RegistryProcess) -> None:
    owner, other = registry.client(timeout=3.0), registry.client()
    owner.create("/e", b"", ephemeral=True)
    session_id, password = owner.client_id
    go_silent(owner)
    assert not close_session("127.0.0.1", registry.port, session_id, b"x" * 16, 2_000)
    assert other.exists("/e")
    assert close_session("127.0.0.1", registry.port, session_id, password, 2_000)
    assert is_gone(other, "/e")
    assert not close_session("127.0.0.1", registry.port, session_id, password, 2_000)
    registry.stop()
    with pytest.raises(OSError, match="refused"):
        close_session("127.0.0.1", registry.port, session_id, password, 2_000)


def test_sequential_nodes_get_increasing_names(registry: RegistryProcess) -> None:
    client = registry.client()
    names = [client.create("/q/n-", b"", sequence=True, makepath=True) for _ in range(3)]
    assert names == [f"/q/n-{number:010d}" for number in range(3)]


def test_multi_is_applied_as_a_whole_or_not_at_all(registry: RegistryProcess) -> None:
    client = registry.client()
    transaction = client.transaction()
    transaction.create("/a", b"1")
    transaction.delete("/none")
    results = transaction.commit()
    assert isinstance(results[1], NoNodeError)
    assert is_gone(client, "/a")
    transaction = client.transaction()
    transaction.create("/a", b"1")
    transaction.check("/a", 0)
    transaction.set_data("/a", b"2")
    assert transaction.commit()[:2] == ["/a", True]
    assert client.get("/a")[0] == b"2"


def test_watcher_is_notified_before_it_can_read_the_change(registry: RegistryProcess) -> None:
    writer, reader = registry.client(), registry.client()
    writer.create("/a", b"0")
    heard: list[WatchedEvent] = []
    for value in range(1, 50):
        read = reader.get("/a", watch=heard.append)
        assert read[0] == str(value - 1).encode()
        written = writer.set_async("/a", str(value).encode())
        wait_until(lambda value=value: reader.get("/a")[0] == str(value).encode(), "the write")
        assert len(reader.handler.callback_queue.queue) + len(heard) >= value
        written.get(DEADLINE_SECONDS)
    wait_until(lambda: len(heard) == 49, "the last notification")


def test_kazoos_data_and_children_watches_see_every_change(registry: RegistryProcess) -> None:
    writer, reader = registry.client(), registry.client()
    values: list[bytes | None] = []
    children: list[list[str]] = []
    writer.create("/a", b"0")
    DataWatch(reader, "/a", lambda data, _: values.append(data))
    ChildrenWatch(reader, "/a", lambda names: children.append(sorted(names)))
    writer.set("/a", b"1")
    wait_until(lambda: values == [b"0", b"1"], "the second value")
    writer.create("/a/x", b"")
    wait_until(lambda: children[-1] == ["x"], "the child")
    writer.delete("/a", recursive=True)
    wait_until(lambda: values[-1] is None, "the deletion")


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_client_keeps_its_session_over_a_restart(
    registry: RegistryProcess, is_killed: bool
) -> None:
    client, other = registry.client(), registry.client()
    states: list[KazooState] = []
    changed = threading.Event()
    client.add_listener(states.append)
    client.create("/e", b"", ephemeral=True)
    client.create("/p", b"1")
    session_id = client.client_id[0]
    client.exists("/watched", watch=lambda _: changed.set())
    if is_killed:
        registry.kill()
    else:
        assert registry.stop() == 0
    wait_until(lambda: KazooState.SUSPENDED in states, "the lost connection")
    registry.start()
    wait_until(lambda: client.connected and other.connected, "the connections")
    assert KazooState.LOST not in states
    assert client.client_id[0] == session_id
    assert other.exists("/e").ephemeralOwner == session_id
    assert client.get("/p")[0] == b"1"
    client.stop()
    wait_until(lambda: is_gone(other, "/e"), "the end of the session")


def test_session_that_is_not_resumed_after_a_restart_expires(registry: RegistryProcess) -> None:
    owner = registry.client(timeout=1.0)
    owner.create("/e", b"", ephemeral=True)
    registry.kill()
    go_silent(owner)
    registry.start()
    other = registry.client()
    assert other.exists("/e"), "its time restarts"
    gone = threading.Event()
    if other.exists("/e", watch=lambda _: gone.set()):
        assert gone.wait(DEADLINE_SECONDS)
    assert is_gone(other, "/e")


def test_kazoos_locks_exclude_each_other(registry: RegistryProcess) -> None:
    clients = [registry.client() for _ in range(3)]
    inside: list[int] = []
    entered: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with clients[number].Lock("/lock", str(number)):
                inside.append(number)
                assert len(inside) == 1
                entered.append(number)
                inside.remove(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(DEADLINE_SECONDS)
    assert sorted(entered) == sorted([0, 1, 2] * 5)


def test_an_election_of_kazoo_passes_on_when_the_leader_dies(registry: RegistryProcess) -> None:
    clients = [registry.client(timeout=1.0) for _ in range(2)]
    leaders: list[str] = []
    finish = threading.Event()

    def lead(name: str) -> None:
        leaders.append(name)
        finish.wait(DEADLINE_SECONDS)

    elections = [client.Election("/election", str(one)) for one, client in enumerate(clients)]

    def stand(one: int) -> None:
        with contextlib.suppress(KazooException):  # the dead leader cannot say that it resigns
            elections[one].run(lead, str(one))

    workers = [threading.Thread(target=stand, args=(one,)) for one in range(2)]
    workers[0].start()
    wait_until(lambda: leaders == ["0"], "the first leader")
    workers[1].start()
    wait_until(lambda: len(elections[1].contenders()) == 2, "the second candidate")
    session_id, password = clients[0].client_id
    go_silent(clients[0])
    assert close_session("127.0.0.1", registry.port, session_id, password, 2_000)
    wait_until(lambda: leaders == ["0", "1"], "the second leader")
    finish.set()
    for worker in workers:
        worker.join(DEADLINE_SECONDS)


def test_digest_identity_protects_znodes(registry: RegistryProcess) -> None:
    alice, other = registry.client(auth="alice:secret"), registry.client()
    alice.create("/own", b"1", acl=[make_digest_acl("alice", "secret", all=True)])
    assert alice.get("/own")[0] == b"1"
    with pytest.raises(NoAuthError):
        other.get("/own")


def connect_plainly(registry: RegistryProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", registry.port), timeout=DEADLINE_SECONDS)


def read_to_the_end(connection: socket.socket) -> bytes:
    received = bytearray()
    while chunk := connection.recv(65_536):
        received += chunk
    return bytes(received)


CONNECT = struct.pack(">iiqiqi", 45, 0, 0, 10_000, 0, 16) + bytes(17)


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
        (struct.pack(">i", 0xF_FFFF + 1), "a frame of 1048576 bytes"),
        (struct.pack(">i", 3) + b"abc", "bytes wanted"),
        (CONNECT + struct.pack(">i", 0xF_FFFF + 1), "a frame of 1048576 bytes"),
        (CONNECT + struct.pack(">i", 2) + b"ab", "bytes wanted"),
    ],
)
def test_garbage_closes_its_connection_with_one_log_line_and_harms_nobody(
    registry: RegistryProcess, sent: bytes, logged: str
) -> None:
    client = registry.client()
    with connect_plainly(registry) as connection:
        peer = "{}:{}".format(*connection.getsockname())
        connection.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            read_to_the_end(connection)
    assert client.exists("/") is not None
    [line] = registry.log().splitlines()
    assert peer in line
    assert logged in line


def test_half_a_frame_waits_and_harms_nobody(registry: RegistryProcess) -> None:
    with connect_plainly(registry) as connection:
        connection.sendall(CONNECT[:20])
        client = registry.client()
        assert client.create("/a", b"") == "/a"
        connection.sendall(CONNECT[20:])
        (length,) = struct.unpack(">i", connection.recv(4))
        assert length == 37


def test_a_client_that_takes_no_replies_holds_up_nobody(registry: RegistryProcess) -> None:
    client = registry.client()
    client.create("/big", bytes(500_000))
    request = struct.pack(">ii", 1, 4) + struct.pack(">i", 4) + b"/big\0"
    frames = (struct.pack(">i", len(request)) + request) * 5_000
    with connect_plainly(registry) as connection:
        connection.settimeout(0.5)
        connection.sendall(CONNECT)
        with contextlib.suppress(TimeoutError):
            connection.sendall(frames)
        assert client.get("/big")[0] == bytes(500_000)


def test_four_letter_words_are_answered(registry: RegistryProcess) -> None:
    client = registry.client()
    assert client.command(b"ruok") == "imok"
    assert client.command(b"isro") == "rw"
    assert "Mode: standalone" in client.command(b"srvr")
    assert "Clients:" in client.command(b"stat")
    assert "zk_znode_count\t5" in client.command(b"mntr")
    assert client.server_version() == (3, 8, 0)


def test_words_that_are_not_chosen_are_refused(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", words="srvr") as registry:
        client = registry.client()
        for word in (b"conf", b"cons", b"crst", b"dump", b"mntr", b"ruok", b"stat", b"wchc"):
            refused = f"{word.decode()} is not executed because it is not in the whitelist.\n"
            assert client.command(word) == refused
        assert "Mode: standalone" in client.command(b"srvr")


def test_the_number_of_connections_of_one_address_is_bounded(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", max_connections=2) as registry:
        first, second = connect_plainly(registry), connect_plainly(registry)
        with connect_plainly(registry) as third:
            assert third.recv(1) == b""
        first.close()
        second.close()
        assert registry.client().exists("/")


def test_many_clients_share_fsyncs_and_keep_their_order(registry: RegistryProcess) -> None:
    clients = [registry.client() for _ in range(4)]
    pending = [
        [client.create_async(f"/c{number}-", b"", sequence=True) for _ in range(200)]
        for number, client in enumerate(clients)
    ]
    for ours in pending:
        names = [one.get(DEADLINE_SECONDS) for one in ours]
        assert names == sorted(names)
    assert clients[0].exists("/").numChildren == 801


def test_second_registry_on_the_same_directory_or_port_is_refused(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="is used by another process"):
        RegistryProcess(registry.directory).start()
    other = RegistryProcess(tmp_path / "other")
    other.port = registry.port
    with pytest.raises(AssertionError, match="cannot listen on"):
        other.start()
