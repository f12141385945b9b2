"""TLS requests of a client that carry no data: none of them blocks the loop."""

import socket
import ssl
from contextlib import suppress

import pytest

from cluster.model.errors import PeerError
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import READABLE, EventLoop
from cluster.runtime.tls_context import server_context
from cluster.runtime.tls_transport import BARREN_PER_TURN, TlsScratch, TlsTransport
from tests.support.tls import client_context, server_options
from tests.support.tls_records import APPLICATION_DATA, RecordWriter, client_secret

BUFFER = memoryview(bytearray(1 << 18))


class Attacked:
    """A transport, and a client that writes its records itself."""

    def __init__(self, tmp_path) -> None:
        context = client_context(minimum_version=ssl.TLSVersion.TLSv1_3)
        context.keylog_filename = str(tmp_path / "keys")
        near, self.client = socket.socketpair()
        near.setblocking(False)
        self.client.setblocking(False)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        answers, asked = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = server_context(server_options()).context
        stream = server.wrap_bio(incoming, outgoing, server_side=True)
        client = context.wrap_bio(answers, asked, server_hostname="localhost")
        for _ in range(3):
            for side, mine, other in ((client, asked, incoming), (stream, outgoing, answers)):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                other.write(mine.read())
        assert client.cipher()[0] == "TLS_AES_256_GCM_SHA384"
        self.records = RecordWriter(client_secret(tmp_path / "keys"))
        self.loop = EventLoop(SystemClock())
        self.transport = TlsTransport(near, stream, incoming, outgoing, self.loop, TlsScratch())

    def receive(self) -> bytes:
        return bytes(BUFFER[: self.transport.receive_into(BUFFER)])

    def close(self) -> None:
        self.transport.close()
        self.client.close()
        self.loop.close()


@pytest.fixture
def attacked(tmp_path):
    attacked = Attacked(tmp_path)
    yield attacked
    attacked.close()


def test_a_client_may_change_its_keys_and_ours(attacked):
    attacked.client.send(attacked.records.key_update(asks=True))
    with pytest.raises(BlockingIOError):
        attacked.receive()
    attacked.client.send(attacked.records.record(APPLICATION_DATA, b"a request"))
    assert attacked.receive() == b"a request"
    assert attacked.transport.send_buffers([b"an answer"]) == 9


def received(attacked, sent: bytes) -> tuple[bytes, int]:
    """Receive these bytes; returns the data and the number of calls. Raises PeerError."""
    got, calls = b"", 0
    while sent or got[-3:] != b"end":
        with suppress(BlockingIOError):
            sent = sent[attacked.client.send(sent) :]
        with suppress(BlockingIOError):
            calls += 1
            got += attacked.receive()
    return got, calls


@pytest.mark.parametrize(
    ("asks", "line"), [(False, "carry no data"), (True, "too many protocol messages")]
)
def test_a_flood_of_key_updates_is_cut_off(attacked, asks, line):
    updates = b"".join(attacked.records.key_update(asks=asks) for _ in range(4_000))
    with pytest.raises(PeerError, match=line):
        received(attacked, updates)


def test_key_updates_between_data_are_limited_per_turn(attacked):
    parts = []
    for number in range(10):
        parts.append(attacked.records.record(APPLICATION_DATA, b"a request of some length" * 500))
        parts += [attacked.records.key_update(padding=7 * number) for _ in range(320)]
    parts.append(attacked.records.record(APPLICATION_DATA, b"end"))
    got, calls = received(attacked, b"".join(parts))
    assert got == b"a request of some length" * 5_000 + b"end"
    assert calls >= 3_200 // (2 * BARREN_PER_TURN)


def test_many_small_records_with_data_are_taken_at_once(attacked):
    """librdkafka writes two for each message: 10 bytes, then the content."""
    size = 2_000
    sent = b"".join(attacked.records.record(APPLICATION_DATA, b"0123456789") for _ in range(size))
    attacked.client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    got, calls = received(attacked, sent + attacked.records.record(APPLICATION_DATA, b"end"))
    assert len(got) == size * 10 + 3
    assert calls < 20


def test_records_left_for_the_next_turn_make_the_connection_ready(attacked):
    updates = [attacked.records.key_update() for _ in range(2 * BARREN_PER_TURN)]
    request = attacked.records.record(APPLICATION_DATA, b"a request")
    attacked.client.send(b"".join([*updates, request]))
    got = []

    def on_ready(_events):
        with suppress(BlockingIOError):
            got.append(attacked.receive())

    attacked.loop.watch(attacked.transport, READABLE, on_ready)
    for _ in range(4):
        attacked.loop.run_once(0)
    attacked.loop.unwatch(attacked.transport)
    assert got == [b"a request"]


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 100])
def test_records_in_pieces_of_any_size_arrive(attacked, piece_bytes):
    sent = b"".join(
        attacked.records.record(APPLICATION_DATA, bytes([size % 256]) * size)
        for size in (1, 30, 60, 100, 1_000)
    )
    got = b""
    for first in range(0, len(sent), piece_bytes):
        attacked.client.send(sent[first : first + piece_bytes])
        with suppress(BlockingIOError):
            got += attacked.receive()
    assert len(got) == 1_191
