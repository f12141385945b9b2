"""Mutated flights of TLS handshakes, and mutated records after them, beside a served client.

In one process, over pairs of sockets. Whatever comes, each connection is either handed over or
closed, once.
"""

import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from random import Random

import pytest

from cluster.model.errors import PeerError
from cluster.runtime.clock import SystemClock
from cluster.runtime.handshake_thread import HandshakeThread
from cluster.runtime.loop import EventLoop
from cluster.runtime.tls_endpoint import TlsEndpoint, TlsTerminator
from cluster.runtime.transport import Transport
from tests.fuzz.fuzzing import Fuzzer, mutated
from tests.support.tls import client_context, server_options
from tests.support.turning import turn_until

ROUND = 300
WITH_RECORDS = 0.1
"""Share of clients that shake hands properly and then send mutated records."""
BUFFER = memoryview(bytearray(1 << 18))


class Outcome:
    """What became of one connection."""

    def __init__(self) -> None:
        self.calls = 0
        self.transport: Transport | None = None

    def __call__(self, secured) -> None:
        self.calls += 1
        self.transport = None if secured is None else secured.transport


class Client:
    """A client whose bytes are taken from it before they are sent."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.stream = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def flight(self, answer: bytes) -> bytes:
        """What it says to that answer; b"" when its handshake is done."""
        self.incoming.write(answer)
        with contextlib.suppress(ssl.SSLError):
            self.stream.do_handshake()
        return self.outgoing.read()


class Target:
    """A listener without a port: connections are handed to it directly."""

    def __init__(self, loop: EventLoop, endpoint: TlsEndpoint) -> None:
        self.loop = loop
        self._endpoint = endpoint
        self.contexts = [
            client_context(maximum_version=version)
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
        ]
        self.outcomes: list[Outcome] = []
        self.counts = {"handed over": 0, "refused": 0, "records": 0, "records refused": 0}

    def connect(self) -> tuple[socket.socket, Outcome]:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        outcome = Outcome()
        self._endpoint.begin(near, "127.0.0.1", 1, outcome)
        return far, outcome

    def answer(self, far: socket.socket, outcome: Outcome) -> bytes:
        """What the server says next; b"" for nothing more."""
        got: list[bytes] = []

        def has_answered() -> bool:
            with contextlib.suppress(BlockingIOError, ConnectionResetError):
                got.append(far.recv(1 << 16))
            return bool(got) or outcome.calls > 0

        turn_until(self.loop, has_answered, "an answer")
        return got[0] if got else b""

    def served(self, random: Random) -> tuple[Client, socket.socket, Transport]:
        """A client whose handshake is done."""
        client = Client(random.choice(self.contexts))
        far, outcome = self.connect()
        flight = client.flight(b"")
        while not outcome.calls:
            far.sendall(flight)
            flight = client.flight(self.answer(far, outcome))
        assert outcome.transport is not None
        return client, far, outcome.transport

    def send_flights(self, random: Random) -> None:
        """One flight of a handshake is mutated; then the client leaves."""
        client = Client(random.choice(self.contexts))
        far, outcome = self.connect()
        self.outcomes.append(outcome)
        with far, contextlib.suppress(OSError):
            flight = client.flight(b"")
            if random.random() < 0.2:  # a later one: the first goes as it is
                far.sendall(flight)
                flight = client.flight(self.answer(far, outcome))
            flight = mutated(random, flight)
            cut = random.randrange(len(flight) + 1)
            far.sendall(flight[:cut])
            far.sendall(flight[cut:])
        self.loop.run_once(0)

    def send_records(self, random: Random) -> None:
        """Records after a proper handshake, some of them mutated."""
        client, far, transport = self.served(random)
        with far, contextlib.closing(transport):
            for _ in range(random.randrange(1, 5)):
                client.stream.write(random.randbytes(random.choice((1, 100, 20_000))))
            with contextlib.suppress(OSError):
                far.sendall(mutated(random, client.outgoing.read()))
            far.shutdown(socket.SHUT_WR)
            self.counts["records"] += 1
            try:
                for _ in range(1_000):
                    with contextlib.suppress(BlockingIOError):
                        if transport.receive_into(BUFFER) == 0:
                            return
            except PeerError:
                self.counts["records refused"] += 1
                return
        raise AssertionError("a connection whose client has left does not end")

    def check(self) -> None:
        """Every connection has come to one end, and a proper client is served."""
        turn_until(self.loop, lambda: all(each.calls for each in self.outcomes), "every end")
        for each in self.outcomes:
            assert each.calls == 1
            self.counts["refused" if each.transport is None else "handed over"] += 1
            if each.transport is not None:
                each.transport.close()
        self.outcomes.clear()
        client, far, transport = self.served(Random(0))
        with far, contextlib.closing(transport):
            client.stream.write(b"a request")
            far.sendall(client.outgoing.read())
            assert BUFFER[: transport.receive_into(BUFFER)] == b"a request"
            transport.send_buffers([b"an answer"])
            client.incoming.write(far.recv(1 << 16))
            assert client.stream.read(100) == b"an answer"


@pytest.fixture
def target() -> Iterator[Target]:
    logging.getLogger("cluster.runtime.handshake_thread").setLevel(logging.ERROR)
    loop = EventLoop(SystemClock())
    terminator = TlsTerminator(loop, HandshakeThread(SystemClock(), loop.call_from_thread))
    yield Target(loop, TlsEndpoint("SSL", server_options(), terminator, str))
    terminator.close()
    loop.run_once(0)
    loop.close()
    logging.getLogger("cluster.runtime.handshake_thread").setLevel(logging.NOTSET)


def test_no_mutated_handshake_does_harm(target: Target, fuzzer: Fuzzer) -> None:
    def send(random: Random) -> None:
        if random.random() < WITH_RECORDS:
            target.send_records(random)
        else:
            target.send_flights(random)

    fuzzer.run(send, target.check, ROUND)
    print(target.counts)
    assert target.counts["refused"] > ROUND / 2
    assert target.counts["records refused"] > 0
