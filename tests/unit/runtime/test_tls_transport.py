"""The transport between a loop and OpenSSL, over socket pairs: no byte is lost or repeated."""

import itertools
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import PeerError
from cluster.runtime.arrived_bytes import arrived_bytes
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import READABLE, EventLoop
from cluster.runtime.tls_context import server_context
from cluster.runtime.tls_transport import RECORD_BYTES, TlsScratch, TlsTransport
from tests.support.tls import client_context, server_options
from tests.support.turning import turn_until
from tests.support.waiting import DEADLINE_S, is_readable, wait_until

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
FILE_BYTES = 3_000_000
SCRATCH = TlsScratch()


@pytest.fixture(scope="module")
def server():
    return server_context(server_options()).context


@pytest.fixture(scope="module")
def large_file():
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(FILE_BYTES))
        file.flush()
        yield file


class Client:
    """The other end, an SSLObject too, so that the test decides when its bytes are sent."""

    def __init__(self, connection: socket.socket, version: ssl.TLSVersion) -> None:
        context = client_context(minimum_version=version, maximum_version=version)
        self.socket = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.stream = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def send(self, data: bytes) -> None:
        while data:
            data = data[self.stream.write(data) :]
        self.socket.sendall(self.outgoing.read())

    def receive(self) -> bytes:
        """Decrypt the received bytes; b"" if there are none."""
        with suppress(BlockingIOError):
            while encrypted := self.socket.recv(1 << 16, socket.MSG_DONTWAIT):
                self.incoming.write(encrypted)
        parts = []
        with suppress(ssl.SSLWantReadError):
            while part := self.stream.read(1 << 20):
                parts.append(part)
        return b"".join(parts)


class Pair:
    """A transport on a loop, and its client, after their handshake."""

    def __init__(
        self,
        server: ssl.SSLContext,
        version: ssl.TLSVersion,
        ahead: bytes = b"",
        sockets: Callable[[], tuple[socket.socket, socket.socket]] = socket.socketpair,
    ) -> None:
        near, far = sockets()
        near.setblocking(False)
        self.loop = EventLoop(SystemClock())
        self.client = client = Client(far, version)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        stream = server.wrap_bio(incoming, outgoing, server_side=True)
        sides = [(client.stream, client.outgoing, incoming), (stream, outgoing, client.incoming)]
        is_done = [False, False]
        while not all(is_done):
            for index, (side, mine, other) in enumerate(sides):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                    is_done[index] = True
                other.write(mine.read())
        if ahead:
            client.stream.write(ahead)
            incoming.write(client.outgoing.read())
        self.transport = TlsTransport(near, stream, incoming, outgoing, self.loop, SCRATCH)

    def received(self, size: int, buffer_bytes: int) -> bytes:
        """Receive through the loop's callback up to `size` bytes."""
        got = bytearray()

        def on_ready(_events: int) -> None:
            buffer = memoryview(bytearray(buffer_bytes))
            with suppress(BlockingIOError):
                got.extend(buffer[: self.transport.receive_into(buffer)])

        self.loop.watch(self.transport, READABLE, on_ready)
        for _ in range(100_000):
            if len(got) >= size:
                break
            self.loop.run_once(0)
        self.loop.unwatch(self.transport)
        return bytes(got)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """A TCP pair over the loopback interface, for kernel behavior that only TCP has."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname(), 10)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening.accept()[0], far


@contextmanager
def pair_of(
    server, version=ssl.TLSVersion.TLSv1_3, ahead=b"", sockets=socket.socketpair
) -> Iterator[Pair]:
    pair = Pair(server, version, ahead, sockets)
    try:
        yield pair
    finally:
        pair.transport.close()
        pair.client.socket.close()
        pair.loop.close()


def sent_all(pair: Pair, buffers: list[bytes]) -> bytes:
    """Send like an owner: bytes that were not taken are offered again while the client reads."""
    data = b"".join(buffers)
    position, got = 0, bytearray()
    while position < len(data):
        rest = [data[position:][:100_000], data[position:][100_000:]]
        with suppress(BlockingIOError):
            position += pair.transport.send_buffers([each for each in rest if each], more=False)
        got += pair.client.receive()
    return bytes(got + pair.client.receive())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("buffer_bytes", [1, 5, 1000, RECORD_BYTES, 1 << 18])
def test_bytes_arrive_whatever_the_size_of_the_buffer(server, version, buffer_bytes):
    data = os.urandom(min(60_000, buffer_bytes * 3_000))
    with pair_of(server, version) as pair:
        pair.client.send(data)
        assert pair.received(len(data), buffer_bytes) == data


def test_data_sent_with_the_handshake_is_received(server):
    with pair_of(server, ahead=b"a request that came early") as pair:
        assert pair.received(25, 10) == b"a request that came early"


@pytest.mark.parametrize("version", VERSIONS)
def test_more_than_the_socket_takes_is_sent_once(server, version):
    data = os.urandom(5_000_000)
    with pair_of(server, version) as pair:
        assert sent_all(pair, [data]) == data
        assert pair.transport.unsent_bytes == 0


def test_encrypted_bytes_that_wait_are_counted_and_bounded(server):
    with pair_of(server) as pair:
        sent = 0
        with suppress(BlockingIOError):
            while True:
                sent += pair.transport.send_buffers([bytes(1_000_000)])
        waiting = pair.transport.unsent_bytes
        assert 0 < waiting < 70_000
        with pytest.raises(BlockingIOError):
            pair.transport.send_buffers([bytes(1_000_000)])
        assert pair.transport.unsent_bytes == waiting


def test_a_large_file_arrives_whole(server, large_file):
    with pair_of(server) as pair:
        got, position = bytearray(), 1_000
        while position < FILE_BYTES:
            with suppress(BlockingIOError):
                position += pair.transport.send_file(large_file, position, FILE_BYTES - position)
            got += pair.client.receive()
        got += pair.client.receive()
        large_file.seek(1_000)
        assert got == large_file.read()


def test_send_file_returns_0_at_the_end_of_the_file(server, large_file):
    with pair_of(server) as pair:
        assert pair.transport.send_file(large_file, FILE_BYTES, 100) == 0


def test_one_call_sends_no_more_than_its_share(server, large_file):
    with pair_of(server) as pair:
        pair.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        assert pair.transport.send_file(large_file, 0, FILE_BYTES) <= 256 * 1024
        with suppress(BlockingIOError):
            assert pair.transport.send_buffers([bytes(FILE_BYTES)]) <= 512 * 1024


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["buffers", "file"]), st.integers(1, 300_000)), max_size=6
    ),
    reads=st.integers(1, 5),
)
def test_buffers_and_files_arrive_in_order(server, large_file, parts, reads):
    expected, got = bytearray(), bytearray()
    with pair_of(server) as pair:
        for index, (kind, size) in enumerate(parts):
            data = os.pread(large_file.fileno(), size, index)
            expected += data
            position = turn = 0
            while position < size:
                with suppress(BlockingIOError):
                    if kind == "file":
                        position += pair.transport.send_file(
                            large_file, index + position, size - position
                        )
                    else:
                        rest = memoryview(data)[position:]
                        position += pair.transport.send_buffers([rest[:10], rest[10:]])
                turn += 1
                if turn % reads == 0:
                    got += pair.client.receive()
        got += pair.client.receive()
    assert got == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_a_close_notify_is_the_end_of_the_stream(server, version):
    with pair_of(server, version) as pair:
        pair.client.send(b"last words")
        with suppress(ssl.SSLWantReadError):
            pair.client.stream.unwrap()
        pair.client.socket.sendall(pair.client.outgoing.read())
        buffer = memoryview(bytearray(100))
        assert pair.transport.receive_into(buffer) == 10
        assert pair.transport.receive_into(buffer) == 0


def test_the_end_of_the_connection_is_the_end_of_the_stream(server):
    with pair_of(server) as pair:
        pair.client.socket.shutdown(socket.SHUT_WR)
        assert pair.transport.receive_into(memoryview(bytearray(100))) == 0
        assert sent_all(pair, [b"an answer"]) == b"an answer"


def test_close_sends_a_close_notify(server):
    with pair_of(server) as pair:
        pair.transport.close()
        assert is_readable(pair.client.socket, 10)
        pair.client.incoming.write(pair.client.socket.recv(1000))
        with suppress(ssl.SSLZeroReturnError):
            assert pair.client.stream.read(10) == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_record_is_named(server, version):
    with pair_of(server, version) as pair:
        pair.client.stream.write(b"a request")
        damaged = bytearray(pair.client.outgoing.read())
        damaged[-1] ^= 1
        pair.client.socket.sendall(damaged)
        with pytest.raises(PeerError, match="bad record mac"):
            pair.transport.receive_into(memoryview(bytearray(100)))


def test_half_a_record_is_nothing_yet(server):
    with pair_of(server) as pair:
        pair.client.stream.write(b"a request")
        record = pair.client.outgoing.read()
        pair.client.socket.sendall(record[:10])
        with pytest.raises(BlockingIOError):
            pair.transport.receive_into(memoryview(bytearray(100)))
        pair.client.socket.sendall(record[10:])
        assert pair.transport.receive_into(memoryview(bytearray(100))) == 9


def test_a_muted_connection_with_bytes_inside_does_not_keep_the_loop_busy(server):
    with pair_of(server) as pair:
        pair.client.send(b"0123456789")
        buffer = memoryview(bytearray(4))
        calls = []
        pair.loop.watch(pair.transport, READABLE, calls.append)
        assert pair.transport.receive_into(buffer) == 4
        pair.loop.unwatch(pair.transport)
        pair.loop.call_after(5, lambda: None)
        pair.loop.run_once()
        assert not calls
        assert pair.received(6, 4) == b"456789"


def test_the_rest_of_a_request_wakes_up_the_loop_when_much_of_it_has_come(server):
    with pair_of(server, sockets=tcp_pair) as pair:
        near = pair.transport.fileno()
        pair.transport.expect(100_000)
        for _ in range(20):
            pair.client.send(b"x" * 1_000)
        wait_until(lambda: arrived_bytes(near) > 20_000, "the first part")
        assert not is_readable(near, 0)
        for _ in range(80):
            pair.client.send(b"x" * 1_000)
        assert len(pair.received(100_000, 1 << 18)) == 100_000
        pair.client.send(b"y")
        assert is_readable(near, DEADLINE_S)  # no more bytes are expected


def test_expectation_ends_when_the_next_request_arrives_with_the_last_bytes(server):
    with pair_of(server, sockets=tcp_pair) as pair:
        pair.transport.expect(20_000)
        pair.client.send(b"x" * 10_000)
        wait_until(lambda: arrived_bytes(pair.transport.fileno()) > 10_000, "the first half")
        assert pair.transport.receive_into(memoryview(bytearray(20_000))) == 10_000
        pair.client.send(b"x" * 10_000 + b"small")
        assert pair.received(10_005, 1_000) == b"x" * 10_000 + b"small"
        pair.client.send(b"y")
        assert is_readable(pair.transport, DEADLINE_S)


def test_arrived_bytes_of_a_request_are_received_without_a_loop_event(server):
    with pair_of(server, sockets=tcp_pair) as pair:
        pair.transport.expect(100_000)
        pair.client.send(b"x" * 1_000)
        buffer = memoryview(bytearray(2_000))
        wait_until(lambda: arrived_bytes(pair.transport.fileno()) > 1_000, "the record")
        assert pair.transport.receive_into(buffer) == 1_000


def test_the_end_of_the_connection_wakes_up_the_loop_whatever_is_expected(server):
    with pair_of(server, sockets=tcp_pair) as pair:
        pair.transport.expect(100_000)
        pair.client.socket.shutdown(socket.SHUT_WR)
        assert is_readable(pair.transport, DEADLINE_S)


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_every_request_arrives_whole_whatever_is_expected(server, version, data):
    """The owner expects the rest of each request, like a channel; records are cut anywhere."""
    sizes = data.draw(st.lists(st.integers(1, 80_000), min_size=1, max_size=4), "sizes of requests")
    records = data.draw(st.lists(st.integers(1, 40_000), min_size=1, max_size=5), "of records")
    pieces = data.draw(st.lists(st.integers(1, 60_000), min_size=1, max_size=5), "of pieces")
    room = data.draw(st.sampled_from([1_000, RECORD_BYTES, 1 << 18]), "of the buffer")
    with pair_of(server, version, sockets=tcp_pair) as pair:
        requests = Requests(pair, sizes, room)
        for record in cut(bytes(sum(sizes)), records):
            while record:
                record = record[pair.client.stream.write(record) :]
        for piece in cut(pair.client.outgoing.read(), pieces):
            pair.client.socket.sendall(piece)
            pair.loop.run_once(0)
        turn_until(pair.loop, lambda: not requests.sizes, "the last request")
        pair.loop.unwatch(pair.transport)


def cut(data: bytes, sizes: list[int]) -> Iterator[memoryview]:
    """Pieces of these sizes in turn, a hundred at most, and the rest."""
    rest = memoryview(data)
    for size in itertools.islice(itertools.cycle(sizes), 100):
        yield rest[:size]
        rest = rest[size:]
    yield rest


class Requests:
    """Receives requests of these sizes and announces the rest of each once."""

    def __init__(self, pair: Pair, sizes: list[int], buffer_bytes: int) -> None:
        self.transport = pair.transport
        self.sizes = list(sizes)
        self.filled = 0
        self.is_told = False
        self.buffer = memoryview(bytearray(buffer_bytes))
        pair.loop.watch(self.transport, READABLE, self.on_ready)

    def on_ready(self, _events: int) -> None:
        with suppress(BlockingIOError):
            self.filled += self.transport.receive_into(self.buffer)
        while self.sizes and self.filled >= self.sizes[0]:
            self.filled -= self.sizes.pop(0)
            self.is_told = False
        if self.filled and not self.is_told:
            self.is_told = True
            self.transport.expect(self.sizes[0] - self.filled)
