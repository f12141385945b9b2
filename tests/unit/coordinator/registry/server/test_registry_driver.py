"""The registry, turn by turn of its loop: real sockets and files, and a clock that tests set."""

import errno
import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cluster.coordinator.registry.server.connections import GREETING_TIMEOUT_MS, RECEIVE_BYTES
from cluster.coordinator.registry.server.journal_files import JournalFiles
from cluster.coordinator.registry.server.options import LoginOptions, RegistryOptions
from cluster.coordinator.registry.server.registry_driver import RegistryDriver
from cluster.coordinator.registry.server.registry_process import accept_options
from cluster.coordinator.registry.wire.codes import Operation, RegistryError
from cluster.coordinator.registry.wire.digest_md5 import client_response
from cluster.coordinator.registry.wire.jute import (
    encode_bool,
    encode_buffer,
    encode_int,
    encode_long,
    encode_string,
)
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import StorageFailed
from cluster.runtime.acceptor import OUT_OF_MEANS, RETRY_MS, Acceptor, Listener
from cluster.runtime.loop import EventLoop
from cluster.runtime.receive_ledger import PATIENCE_MS
from tests.support.fake_clock import FakeClock
from tests.support.waiting import is_readable, wait_until

TICK_MS = 2_000
CONNECT = encode_int(0) + encode_long(0) + encode_int(4_000) + encode_long(0)
CONNECT += encode_buffer(bytes(16)) + encode_bool(False)
OPEN_ACL = encode_int(1) + encode_int(31) + encode_string("world") + encode_string("anyone")


def frame(record: bytes) -> bytes:
    return encode_int(len(record)) + record


def create(path: str, content: bytes) -> bytes:
    header = encode_int(1) + encode_int(Operation.CREATE)
    record = encode_string(path) + encode_buffer(content) + OPEN_ACL + encode_int(0)
    return frame(header + record)


def sasl(token: bytes) -> bytes:
    return frame(encode_int(1) + encode_int(Operation.SASL) + encode_buffer(token))


def get(path: str) -> bytes:
    header = encode_int(1) + encode_int(Operation.GET_DATA)
    return frame(header + encode_string(path) + encode_bool(False))


class FlakyListener:
    """A listening socket whose accept may fail."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.failures: list[int] = []
        self.accept_count = 0

    def accept(self) -> Any:
        self.accept_count += 1
        if self.failures:
            raise OSError(self.failures.pop(0), "on purpose")
        return self._socket.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


class Stage:
    """One server; rounds are served while a test waits for something."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.listener = FlakyListener()
        self.options = RegistryOptions(directory, tick_time_ms=TICK_MS, **options)
        self.files, state = JournalFiles.open(directory, TICK_MS, MonotonicMs(0), fsync=False)
        acceptor = Acceptor(self.loop, accept_options(self.options), lambda *_: self.listener)
        port = acceptor.bind(Listener("test", "127.0.0.1", 0))
        self.driver = RegistryDriver(
            self.options, self.loop, acceptor, port, self.files, state, self.clock
        )
        self.driver.start()
        self.clients: list[socket.socket] = []

    def serve(self, count: int = 1) -> None:
        """Turns of the loop that do not wait for anything."""
        for _ in range(count):
            self.loop.run_once(max_wait_ms=0)

    def client(self, *, is_greeted: bool = True, receive_bytes: int | None = None) -> socket.socket:
        client = socket.socket()
        if receive_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.connect(self.listener.getsockname())
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.clients.append(client)
        self.serve(2)
        if is_greeted:
            client.send(frame(CONNECT))
            assert len(self.receive(client, 41)) == 41
        return client

    def send(self, client: socket.socket, content: bytes) -> None:
        """All of it, serving meanwhile."""
        while content:
            with suppress(BlockingIOError):
                content = content[client.send(content) :]
            self.serve()

    def receive(self, client: socket.socket, size: int) -> bytes:
        """So many bytes, or what came before the connection was closed."""
        received = bytearray()

        def is_over() -> bool:
            while len(received) < size:
                self.serve()
                if not is_readable(client, 0.05):
                    return False
                try:
                    chunk = client.recv(size - len(received))
                except ConnectionResetError:  # closed with something unread
                    break
                if not chunk:
                    break
                received.extend(chunk)
            return True

        wait_until(is_over, f"{size} bytes")
        return bytes(received)

    def error_of_reply(self, client: socket.socket) -> int:
        (length,) = struct.unpack(">i", self.receive(client, 4))
        error: int = struct.unpack_from(">i", self.receive(client, length), 12)[0]
        return error

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.driver.close(is_orderly=True)
        self.loop.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data", min_free_bytes=0)
    yield stage
    stage.close()


@pytest.mark.parametrize("number", sorted(OUT_OF_MEANS))
def test_failed_accept_is_retried_after_a_second(
    stage: Stage, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    stage.serve()
    stage.listener.failures = [number]
    client = socket.create_connection(stage.listener.getsockname())
    with caplog.at_level(logging.WARNING):
        stage.serve(3)
    assert stage.listener.accept_count == 1
    assert "cannot accept" in caplog.text
    stage.clock.pass_time(RETRY_MS)
    stage.serve(2)
    assert len(stage.driver.connections) == 1
    client.close()


def test_client_that_disconnects_before_accept_is_skipped(stage: Stage) -> None:
    stage.listener.failures = [errno.ECONNABORTED, errno.EPROTO]
    stage.client()
    assert len(stage.driver.connections) == 1


@pytest.mark.slow
def test_old_connection_gets_full_time_for_its_last_replies(stage: Stage) -> None:
    """Ten seconds from the end of the session, not from when it was accepted."""
    client = stage.client(receive_bytes=4_096)
    stage.send(client, create("/large", bytes(1_000_000)))
    assert stage.error_of_reply(client) == 0
    for _ in range(20):
        stage.clock.pass_time(1_000)
        client.send(frame(encode_int(-2) + encode_int(Operation.PING)))
        stage.receive(client, 20)
    replies = 8
    client.send(get("/large") * replies + frame(encode_int(2) + encode_int(-11)))
    stage.serve(30)
    stage.clock.pass_time(TICK_MS)
    stage.serve(2)
    size = replies * (20 + 4 + 1_000_000 + 68) + 20
    assert len(stage.receive(client, size)) == size


def test_client_that_does_not_take_its_last_replies_is_disconnected(stage: Stage) -> None:
    client = stage.client(receive_bytes=4_096)
    stage.send(client, create("/node", bytes(100_000)))
    assert stage.error_of_reply(client) == 0
    while stage.driver.connections.unsent_bytes == 0:
        client.send(get("/node"))
        stage.serve(2)
    client.send(frame(encode_int(2) + encode_int(-11)))
    stage.serve(30)
    assert len(stage.driver.connections) == 1
    stage.clock.pass_time(GREETING_TIMEOUT_MS + TICK_MS)
    stage.serve(2)
    assert len(stage.driver.connections) == 0


@pytest.mark.slow
def test_a_multi_read_beyond_all_bounds_closes_its_connection(stage: Stage) -> None:
    client = stage.client()
    stage.send(client, create("/large", bytes(1_000_000)))
    assert stage.error_of_reply(client) == 0
    step = encode_int(Operation.GET_DATA) + encode_bool(False) + encode_int(-1)
    step += encode_string("/large") + encode_bool(False)
    end = encode_int(-1) + encode_bool(True) + encode_int(-1)
    header = encode_int(3) + encode_int(Operation.MULTI_READ)
    stage.send(client, frame(header + step * 40_000 + end))
    assert stage.receive(client, 1) == b""
    stage.client()


@pytest.mark.parametrize("min_free_bytes", [0, 1_000_000])
def test_requests_of_one_turn_share_a_journal_write(tmp_path: Path, min_free_bytes: int) -> None:
    """Group commit: the number of syncs does not grow with the number of requests."""
    stage = Stage(tmp_path / "data", min_free_bytes=min_free_bytes)
    client = stage.client()
    written: list[int] = []
    append = stage.files.append

    def appended(payloads: list[bytes]) -> None:
        written.append(len(payloads))
        append(payloads)

    stage.files.append = appended  # type: ignore[assignment, method-assign]
    client.send(b"".join(create(f"/n{number}", b"x") for number in range(100)))
    errors = [stage.error_of_reply(client) for _ in range(100)]
    assert errors == [0] * 100
    assert sum(written) == 100
    assert len(written) <= 3  # one, unless the network has cut it
    stage.close()


def test_one_round_writes_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    """Room is looked for once a round; many clients may write in it at once."""
    stage = Stage(tmp_path / "data", min_free_bytes=1_000_000)
    free_bytes = 1_400_000
    written: list[int] = []
    append = stage.files.append

    def appended(payloads: list[bytes]) -> None:
        nonlocal free_bytes
        written.append(sum(map(len, payloads)))
        free_bytes -= written[-1]
        if free_bytes < 0:
            raise StorageFailed("no space left on the device")
        append(payloads)

    stage.files.append = appended  # type: ignore[assignment, method-assign]
    stage.files.free_bytes = lambda: free_bytes  # type: ignore[method-assign]
    clients = [stage.client() for _ in range(20)]
    records = [create(f"/n{number}", bytes(200_000)) for number in range(20)]
    for client, record in zip(clients, records, strict=True):
        stage.send(client, record[:-1])
    stage.serve(5)
    for client, record in zip(clients, records, strict=True):
        client.send(record[-1:])
    errors = [stage.error_of_reply(client) for client in clients]
    assert max(written) < 1_000_000
    assert set(errors) == {0, -119}
    assert errors.count(0) >= 2
    stage.close()


def half_a_record(size: int, part: int) -> bytes:
    return encode_int(size) + b"x" * part


def test_incomplete_records_are_bounded_and_other_connections_are_served(
    tmp_path: Path,
) -> None:
    limit, largest = 2_000_000, 1_000_000
    stage = Stage(tmp_path / "data", min_free_bytes=0, receiving_max_bytes=limit)
    for client in [stage.client() for _ in range(10)]:
        client.send(half_a_record(largest, 500_000))
    stage.serve(100)
    assert limit // 2 < stage.driver.connections.receiving_bytes <= limit + largest + RECEIVE_BYTES
    bystander = stage.client()
    bystander.send(create("/small", b"x"))
    assert stage.error_of_reply(bystander) == 0
    stage.close()


@pytest.mark.slow
def test_every_half_record_gets_its_turn(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "data", min_free_bytes=0, receiving_max_bytes=300_000)
    clients = [stage.client() for _ in range(5)]
    content = create("/large", bytes(900_000))
    sent = []
    for client in clients:
        sent.append(client.send(content[:500_000]))
        stage.serve(20)
    errors = []
    for client, position in zip(clients, sent, strict=True):
        stage.send(client, content[position:])
        errors.append(stage.error_of_reply(client))
    assert errors == [0, -110, -110, -110, -110]  # all but the first: it exists
    assert stage.driver.connections.receiving_bytes == 0
    stage.close()


@pytest.mark.slow
def test_stalled_incomplete_record_is_closed_when_others_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path / "data", min_free_bytes=0, receiving_max_bytes=300_000)
    silent, honest = stage.client(), stage.client()
    silent.send(half_a_record(1_000_000, 400_000))
    stage.serve(30)
    content = create("/large", bytes(900_000))
    position = honest.send(content[:400_000])
    stage.serve(30)
    assert len(stage.driver.connections) == 2
    stage.clock.pass_time(PATIENCE_MS + TICK_MS)
    stage.serve(5)
    assert stage.receive(silent, 1) == b""
    assert "its request does not arrive" in caplog.text
    stage.send(honest, content[position:])
    assert stage.error_of_reply(honest) == 0
    stage.close()


@pytest.mark.slow
def test_a_record_that_was_executed_leaves_no_memory_behind(stage: Stage) -> None:
    client = stage.client()
    stage.send(client, create("/large", bytes(1_000_000)))
    assert stage.error_of_reply(client) == 0
    assert stage.driver.connections.receiving_bytes == 0


@pytest.mark.slow
def test_clients_that_take_no_replies_are_disconnected_longest_silent_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limit = 2_000_000
    stage = Stage(tmp_path / "data", min_free_bytes=0, unsent_max_bytes=limit)
    reader = stage.client()
    stage.send(reader, create("/large", bytes(1_000_000)))
    assert stage.error_of_reply(reader) == 0
    silent = [stage.client(receive_bytes=4_096) for _ in range(6)]
    for client in silent:
        client.send(get("/large") * 20)
        stage.serve(30)
        assert stage.driver.connections.unsent_bytes <= limit
    assert len(stage.driver.connections) < 7
    assert "it takes no replies" in caplog.text
    stage.send(reader, get("/large"))
    assert stage.error_of_reply(reader) == 0
    stage.close()


@pytest.mark.slow
def test_untaken_replies_pause_the_reading_of_requests(stage: Stage) -> None:
    client = stage.client(receive_bytes=4_096)
    stage.send(client, create("/large", bytes(1_000_000)))
    assert stage.error_of_reply(client) == 0
    client.send(get("/large") * 100)
    stage.serve(200)
    assert stage.driver.connections.unsent_bytes < 3_000_000


@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.parametrize("is_required", [False, True])
def test_a_failed_login_is_answered_late_and_nothing_is_read_meanwhile(
    tmp_path: Path, user: str, is_required: bool
) -> None:
    logins = LoginOptions({"alice": "secret"}, is_required, failure_delay_ms=700)
    stage = Stage(tmp_path / "data", min_free_bytes=0, logins=logins)
    client, other = stage.client(), stage.client()
    client.send(sasl(b""))
    (length,) = struct.unpack(">i", stage.receive(client, 4))
    challenge = stage.receive(client, length)[20:]
    wrong = client_response(challenge, user, "guessed", "c0nce")
    client.send(sasl(wrong) + create("/strangers", b""))
    stage.serve(5)
    client.send(get("/"))
    stage.clock.pass_time(699)
    stage.serve(5)
    assert not is_readable(client, 0)
    assert len(stage.driver.connections) == 2
    other.send(sasl(b""))
    assert stage.error_of_reply(other) == 0  # who waits holds up nobody
    stage.clock.pass_time(1)
    code = RegistryError.AUTH_FAILED
    if is_required:
        code = RegistryError.SESSION_CLOSED_REQUIRE_SASL_AUTH
    assert stage.error_of_reply(client) == code
    assert stage.receive(client, 1) == b""
    assert len(stage.driver.connections) == 1
    stage.close()


def test_client_that_disconnects_before_a_login_failure_is_answered_leaves_no_state(
    tmp_path: Path,
) -> None:
    logins = LoginOptions({"alice": "secret"}, failure_delay_ms=700)
    stage = Stage(tmp_path / "data", min_free_bytes=0, logins=logins)
    client = stage.client()
    client.send(sasl(b"username=alice"))
    stage.serve(5)
    client.close()
    stage.clock.pass_time(700)

    def is_gone() -> bool:
        stage.serve()
        return len(stage.driver.connections) == 0

    wait_until(is_gone, "its end")
    stage.driver.close(is_orderly=True)
    stage.loop.close()
