"""Accepting, limits, idle connections and closing of a server, over loopback sockets."""

import errno
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from cluster.brokers.network.channel import Channel
from cluster.brokers.network.connection import MuteReason
from cluster.brokers.network.socket_server import NetworkOptions, SocketServer
from cluster.model.errors import PeerError, UserError
from cluster.runtime.acceptor import (
    RETRY_MS,
    AcceptOptions,
    Listener,
    ListeningSocket,
    SecuredConnection,
    Securing,
    listen,
)
from cluster.runtime.arrived_bytes import arrived_bytes
from cluster.runtime.loop import EventLoop
from cluster.runtime.receive_ledger import PATIENCE_MS, SILENCE_MS
from cluster.runtime.transport import PlainTransport
from tests.support.fake_clock import FakeClock
from tests.support.turning import turn_until
from tests.support.waiting import wait_until

MAX_IDLE_MS = 10_000
MIB = 1 << 20


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Stage:
    """An echo server and its clients, on one thread."""

    def __init__(
        self,
        listen: Callable[[Listener, AcceptOptions], ListeningSocket] = listen,
        securing: Securing | None = None,
        **limits: int,
    ) -> None:
        self.clock = FakeClock()
        self.loop = EventLoop(self.clock)
        self.options: dict[str, Any] = {
            "max_frame_bytes": 10_000_000,
            "max_connections": 100,
            "max_connections_per_ip": 100,
            "max_idle_ms": MAX_IDLE_MS,
            "queued_max_request_bytes": -1,
            "send_buffer_bytes": -1,
            "receive_buffer_bytes": -1,
            "listen_backlog": 50,
            **limits,
        }
        self.frames: list[tuple[Channel, bytes]] = []
        self.answer: bytes | None = None
        self.parked_bytes = 0
        self.is_worked_on = False
        self.server = SocketServer(self.loop, NetworkOptions(**self.options), listen)
        self.port = self.server.bind(Listener("PLAINTEXT", "127.0.0.1", 0), securing)
        self.clients: list[socket.socket] = []

    def limits(self, **changed: Any) -> NetworkOptions:
        return NetworkOptions(**self.options | changed)

    def take_frame(self, channel: Channel, frame: memoryview) -> None:
        self.frames.append((channel, bytes(frame)))
        if frame == b"bad":
            raise PeerError("a bad request")
        if frame == b"wait" and self.parked_bytes:
            channel.hold(self.parked_bytes, is_worked_on=self.is_worked_on)
        if frame != b"wait":
            channel.respond([framed(self.answer or bytes(frame))])

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), 10)
        self.clients.append(client)
        return client

    def connected(self) -> socket.socket:
        count = self.server.connection_count
        client = self.connect()
        self.until(lambda: self.server.connection_count == count + 1, "the connection")
        return client

    def until(self, condition: Callable[[], object], what: str) -> None:
        turn_until(self.loop, condition, what)

    def is_closed(self, client: socket.socket) -> bool:
        client.setblocking(False)
        try:
            return client.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def is_closed_at_the_end(self, client: socket.socket) -> bool:
        """Whether the connection is closed after the bytes sent before."""
        client.settimeout(10)
        try:
            while client.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        except TimeoutError:
            return False
        return True

    def stop(self) -> None:
        self.server.close()
        for client in self.clients:
            client.close()
        self.loop.close()


@pytest.fixture
def start() -> Iterator[Callable[..., Stage]]:
    stages: list[Stage] = []

    def make(*, accepting: bool = True, **options: Any) -> Stage:
        stage = Stage(**options)
        stages.append(stage)
        if accepting:
            stage.server.serve(stage.take_frame)
        return stage

    yield make
    for stage in stages:
        stage.stop()


def test_clients_are_served_independently(start):
    stage = start()
    first, second = stage.connected(), stage.connected()
    first.sendall(framed(b"wait") + framed(b"a"))
    second.sendall(framed(b"b"))
    stage.until(lambda: len(stage.frames) == 2, "both requests")
    assert second.recv(100) == framed(b"b")
    channel = next(channel for channel, frame in stage.frames if frame == b"wait")
    channel.respond([framed(b"late")])
    expected = framed(b"late") + framed(b"a")
    assert first.recv(len(expected), socket.MSG_WAITALL) == expected


def test_a_bad_request_logs_one_line_and_closes_only_its_connection(start, caplog):
    stage = start()
    good, bad = stage.connected(), stage.connected()
    address = bad.getsockname()
    with caplog.at_level(logging.INFO):
        bad.sendall(framed(b"bad") + framed(b"more"))
        stage.until(lambda: stage.server.connection_count == 1, "the end of the bad one")
    assert [record.getMessage() for record in caplog.records] == [
        f"closed connection from {address[0]}:{address[1]}: a bad request"
    ]
    good.sendall(framed(b"still here"))
    stage.until(lambda: stage.frames[-1][1] == b"still here", "the good one's request")


def test_connections_before_the_start_wait_in_the_listen_queue(start):
    stage = start(accepting=False)
    client = stage.connect()
    client.sendall(framed(b"early"))
    stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 0
    stage.server.serve(stage.take_frame)
    stage.until(lambda: stage.frames, "the early request")


def test_more_connections_than_allowed_wait_until_one_closes(start, caplog):
    stage = start(max_connections=2)
    first, _ = stage.connected(), stage.connected()
    third = stage.connect()
    third.sendall(framed(b"third"))
    for _ in range(5):
        stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 2
    assert (
        caplog.messages.count("not accepting new connections for now: 2 are open (max.connections)")
        == 1
    )
    first.close()
    stage.until(lambda: stage.frames, "the third client's request")
    assert stage.server.connection_count == 2


def test_a_raised_limit_admits_waiting_connections_and_a_lowered_one_closes_idle_ones(
    start, caplog
):
    stage = start(max_connections=1)
    silent = stage.connected()
    waiting = stage.connect()
    waiting.sendall(framed(b"waits"))
    stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 1
    stage.server.limit_connections(stage.limits(max_connections=2))
    stage.until(lambda: stage.frames, "the one that waited")

    stage.clock.pass_time(10)
    waiting.sendall(framed(b"is not silent"))
    stage.until(lambda: len(stage.frames) == 2, "its request")
    stage.server.limit_connections(stage.limits(max_connections=1))
    stage.until(lambda: stage.is_closed(silent), "the end of the longest silent one")
    assert stage.server.connection_count == 1
    assert "closing 1 connections above the new limit (max.connections)" in caplog.messages
    stage.server.limit_connections(stage.limits(max_connections_of_listeners={"PLAINTEXT": 0}))
    assert stage.server.connection_count == 1, "a listener's limit is for those that come"
    another = stage.connect()
    stage.server.limit_connections(stage.limits(max_connections=100, max_connections_per_ip=2))
    stage.until(lambda: stage.server.connection_count == 2, "the one that waited")
    assert another.fileno() >= 0
    third = stage.connect()
    stage.until(lambda: stage.is_closed(third), "the refusal")


def test_a_full_listener_does_not_block_others(start, caplog):
    stage = start(accepting=False, max_connections_of_listeners={"PLAINTEXT": 1})
    other_port = stage.server.bind(Listener("OTHER", "127.0.0.1", 0))
    stage.server.serve(stage.take_frame)
    stage.server.limit_connections(stage.limits())
    first = stage.connected()
    waiting = stage.connect()
    waiting.sendall(framed(b"waits"))
    with socket.create_connection(("127.0.0.1", other_port), 10) as other:
        other.sendall(framed(b"other"))
        stage.until(lambda: stage.frames, "the request through the other listener")
        assert [frame for _, frame in stage.frames] == [b"other"]
        setting = "listener.name.plaintext.max.connections"
        said = f"not accepting new connections for now: 1 are open ({setting})"
        stage.until(lambda: said in caplog.messages, "the line")
    stage.until(lambda: stage.server.connection_count == 1, "the end of the other one")
    assert [frame for _, frame in stage.frames] == [b"other"], "its place is not for this listener"
    first.close()
    stage.until(lambda: len(stage.frames) == 2, "the one that waited")
    another = stage.connect()
    another.sendall(framed(b"after"))
    stage.server.limit_connections(stage.limits(max_connections_of_listeners={"PLAINTEXT": 2}))
    stage.until(lambda: len(stage.frames) == 3, "the raised limit")


def test_more_connections_from_one_address_than_allowed_are_closed(start, caplog):
    stage = start(max_connections_per_ip=2)
    first, _ = stage.connected(), stage.connected()
    third = stage.connect()
    stage.until(lambda: stage.is_closed(third), "the refusal")
    assert "max.connections.per.ip" in caplog.text
    first.close()
    stage.until(lambda: stage.server.connection_count == 1, "the first to go")
    stage.connected()


def test_an_address_may_have_a_limit_of_its_own(start):
    stage = start(max_connections_per_ip=1)
    own = stage.limits(max_connections_of_hosts={"127.0.0.1": 2, "192.0.2.7": 1})
    stage.server.limit_connections(own)
    _, _ = stage.connected(), stage.connected()
    third = stage.connect()
    stage.until(lambda: stage.is_closed(third), "the refusal")


class Rates:
    """The acceptor's answers about connection rates."""

    def __init__(self) -> None:
        self.close_ms = 0
        self.pauses_ms = (0, 0)

    def close_after_ms(self, host: str, now_ms: int) -> int:
        assert host == "127.0.0.1"
        return self.close_ms

    def pause_ms(self, listener: str, now_ms: int) -> tuple[int, int]:
        assert listener == "PLAINTEXT"
        return self.pauses_ms


@pytest.mark.parametrize("pauses_ms", [(300, 0), (0, 300), (300, 100)])
def test_connections_wait_while_they_come_too_fast(start, pauses_ms):
    stage = start()
    stage.server.limit_rates(rates := Rates())
    rates.pauses_ms = pauses_ms
    stage.connected()
    rates.pauses_ms = (0, 0)
    waiting = stage.connect()
    waiting.sendall(framed(b"waits"))
    stage.clock.pass_time(299)
    for _ in range(3):
        stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 1
    stage.clock.pass_time(1)
    stage.until(lambda: stage.frames, "the one that waited")


def test_a_connection_above_the_rate_is_closed_unread_after_the_delay(start, caplog):
    stage = start()
    stage.server.limit_rates(rates := Rates())
    rates.close_ms = 500
    client = stage.connect()
    client.sendall(framed(b"unread"))
    stage.until(lambda: "connection_creation_rate" in caplog.text, "the refusal")
    stage.clock.pass_time(499)
    stage.loop.run_once(max_wait_ms=0)
    assert not stage.is_closed(client)
    stage.clock.pass_time(1)
    stage.until(lambda: stage.is_closed(client), "the end")
    assert (stage.frames, stage.server.connection_count) == ([], 0)


def test_refused_connections_are_closed_with_the_server(start):
    stage = start()
    stage.server.limit_rates(rates := Rates())
    rates.close_ms = 500
    client = stage.connect()
    for _ in range(3):
        stage.loop.run_once(max_wait_ms=0)
    stage.server.close()
    assert stage.is_closed_at_the_end(client)


def test_a_silent_connection_is_closed_and_an_active_or_a_waiting_one_is_not(start):
    stage = start()
    silent, active, waiting = stage.connected(), stage.connected(), stage.connected()
    waiting.sendall(framed(b"wait"))
    stage.until(lambda: stage.frames, "the request that waits")
    for _ in range(6):
        stage.clock.pass_time(MAX_IDLE_MS // 4)
        active.sendall(framed(b"x"))
        count = len(stage.frames)
        stage.until(lambda count=count: len(stage.frames) > count, "the active one's request")
        stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 2
    assert stage.is_closed(silent)
    assert not stage.is_closed(waiting)


def test_without_an_idle_limit_nothing_is_closed(start):
    stage = start(max_idle_ms=-1)
    client = stage.connected()
    for _ in range(3):
        stage.clock.pass_time(10**9)
        stage.loop.run_once(max_wait_ms=0)
    assert not stage.is_closed(client)


def test_requests_that_wait_for_their_answers_count_like_half_requests(start):
    stage = start(queued_max_request_bytes=1_000_000)
    stage.parked_bytes = 1_000_000
    waiting, large, small = stage.connected(), stage.connected(), stage.connected()
    waiting.sendall(framed(b"wait"))
    stage.until(lambda: stage.server.receiving_bytes == 1_000_000, "the request that waits")
    large.sendall(framed(b"x" * 100_000))
    wait_for_memory(stage, 1)
    small.sendall(framed(b"small"))
    stage.until(lambda: len(stage.frames) == 2, "the small one")
    stage.frames[0][0].respond([framed(b"late")])
    stage.until(lambda: len(stage.frames) == 3, "the large one")
    assert stage.server.receiving_bytes == 0


def test_a_request_that_waits_for_its_answer_and_is_too_much_is_dropped(start, caplog):
    """The size is known only after decoding, so the requests cannot be delayed earlier."""
    stage = start(queued_max_request_bytes=1_000_000)
    stage.parked_bytes = 400_000
    clients = [stage.connected() for _ in range(3)]
    for number, client in enumerate(clients):
        client.sendall(framed(b"wait"))
        stage.until(lambda number=number: len(stage.frames) == number + 1, "the request")
    stage.until(lambda: stage.server.connection_count == 2, "the last to be closed")
    assert stage.server.receiving_bytes == 800_000
    assert "takes too much memory" in caplog.text
    assert stage.is_closed(clients[-1])


def half_a_request(kind: bytes, size: int, part: int) -> bytes:
    return struct.pack(">i", size) + kind * part


def wait_for_memory(stage: Stage, count: int) -> None:
    stage.until(lambda: stage.server.muted_count(MuteReason.MEMORY) == count, "them to wait")


def test_an_announced_size_takes_no_memory(start):
    stage = start(max_frame_bytes=100 * MIB, queued_max_request_bytes=200 * MIB)
    for _ in range(20):
        stage.connected().sendall(half_a_request(b"x", 100 * MIB, 20_000))
    stage.until(lambda: stage.server.receiving_bytes >= 20 * 20_000, "the beginnings")
    assert stage.server.receiving_bytes <= 20 * 4 * 20_000


def test_large_requests_beyond_the_memory_limit_wait_for_each_other(start):
    stage = start(queued_max_request_bytes=1_000_000)
    first, second, small = stage.connected(), stage.connected(), stage.connected()
    first.sendall(half_a_request(b"1", 900_000, 400_000))
    stage.until(lambda: stage.server.receiving_bytes >= 900_000, "the first request's buffer")
    second.sendall(half_a_request(b"2", 800_000, 300_000))
    wait_for_memory(stage, 1)
    small.sendall(framed(b"small"))
    stage.until(lambda: stage.frames, "the small request, which needs no buffer")
    rest = memoryview(b"1" * 500_000 + b"2" * 500_000)
    _send_while_turning(stage, first, rest[:500_000])
    _send_while_turning(stage, second, rest[500_000:])
    stage.until(lambda: len(stage.frames) == 3, "both large requests")
    assert [frame[:1] for _, frame in stage.frames] == [b"s", b"1", b"2"]
    assert stage.server.receiving_bytes == stage.server.backlog_bytes == 0


def test_a_request_larger_than_the_memory_limit_is_taken_alone(start):
    stage = start(queued_max_request_bytes=1_000)
    client = stage.connected()
    _send_while_turning(stage, client, memoryview(framed(b"x" * 500_000)))
    stage.until(lambda: stage.frames, "the large request")


def test_the_oldest_half_request_goes_on_when_all_of_them_need_more_memory(start):
    stage = start(queued_max_request_bytes=1_000_000)
    clients = [stage.connected() for _ in range(5)]
    for client in clients:
        before = stage.server.receiving_bytes
        client.sendall(half_a_request(b"x", 900_000, 60_000))
        stage.until(lambda before=before: stage.server.receiving_bytes > before, "its buffer")
    for number, client in enumerate(clients):
        _send_while_turning(stage, client, memoryview(b"x" * 840_000))
        stage.until(lambda number=number: len(stage.frames) == number + 1, "the next one")
    assert stage.server.muted_count(MuteReason.MEMORY) == 0


def test_closing_a_client_frees_its_memory_for_waiting_ones(start):
    stage = start(queued_max_request_bytes=1_000_000)
    first, second = stage.connected(), stage.connected()
    first.sendall(half_a_request(b"1", 900_000, 400_000))
    stage.until(lambda: stage.server.receiving_bytes >= 900_000, "the first request's buffer")
    second.sendall(half_a_request(b"2", 800_000, 300_000))
    wait_for_memory(stage, 1)
    first.close()
    wait_for_memory(stage, 0)
    _send_while_turning(stage, second, memoryview(b"2" * 500_000))
    stage.until(lambda: stage.frames, "the second's request")


def test_half_a_request_that_stays_half_is_closed_when_others_wait(start, caplog):
    stage = start(queued_max_request_bytes=1_000_000, max_idle_ms=-1)
    silent, honest = stage.connected(), stage.connected()
    silent.sendall(half_a_request(b"1", 900_000, 400_000))
    stage.until(lambda: stage.server.receiving_bytes >= 900_000, "the silent one's buffer")
    stage.clock.pass_time(PATIENCE_MS * 3)
    stage.loop.run_once(max_wait_ms=0)
    assert not stage.is_closed(silent)  # nobody waits yet

    honest.sendall(half_a_request(b"2", 800_000, 300_000))
    wait_for_memory(stage, 1)
    stage.clock.pass_time(1_000)
    stage.until(lambda: stage.server.connection_count == 1, "the silent one to go")
    assert "its request does not arrive" in caplog.text
    _send_while_turning(stage, honest, memoryview(b"2" * 500_000))
    stage.until(lambda: stage.frames, "the honest request")


def test_a_request_that_is_worked_on_is_not_overdue(start):
    stage = start(queued_max_request_bytes=1_000_000, max_idle_ms=-1)
    stage.parked_bytes, stage.is_worked_on = 900_000, True
    busy, honest = stage.connected(), stage.connected()
    busy.sendall(framed(b"wait"))
    stage.until(lambda: stage.frames, "the request that takes long")
    honest.sendall(half_a_request(b"2", 800_000, 300_000))
    wait_for_memory(stage, 1)
    for _ in range(3):
        stage.clock.pass_time(PATIENCE_MS)
        stage.loop.run_once(max_wait_ms=0)
    assert not stage.is_closed(busy)
    stage.frames[0][0].let_go()
    assert stage.server.connection_count == 2
    _send_while_turning(stage, honest, memoryview(b"2" * 500_000))
    stage.until(lambda: len(stage.frames) == 2, "the honest request")


class Known:
    """A listener whose sockets the test knows."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []

    def begin(
        self,
        connection: socket.socket,
        host: str,
        port: int,
        done: Callable[[SecuredConnection | None], None],
    ) -> None:
        self.sockets.append(connection)
        done(SecuredConnection(PlainTransport(connection), None))


def comes_untold(client: socket.socket, server_side: socket.socket) -> None:
    """Send fewer bytes than the loop is woken for."""
    server_side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 50_000)
    client.sendall(b"1" * 1_000)
    wait_until(lambda: arrived_bytes(server_side.fileno()) == 1_000, "the bytes")


def test_a_client_that_sends_slowly_does_not_count_as_silent(start):
    known = Known()
    stage = start(securing=known, queued_max_request_bytes=1_000_000, max_idle_ms=-1)
    slow, honest = stage.connected(), stage.connected()
    slow.sendall(half_a_request(b"1", 900_000, 400_000))
    stage.until(lambda: stage.server.receiving_bytes >= 900_000, "the slow one's buffer")
    honest.sendall(half_a_request(b"2", 800_000, 300_000))
    wait_for_memory(stage, 1)
    for _ in range(3):
        comes_untold(slow, known.sockets[0])
        stage.clock.pass_time(SILENCE_MS + 100)
        stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 2
    stage.clock.pass_time(SILENCE_MS + 100)
    stage.until(lambda: stage.server.connection_count == 1, "it to go when it is silent")


def test_a_client_that_sends_slowly_does_not_count_as_idle(start):
    known = Known()
    stage = start(securing=known)
    client = stage.connected()
    client.sendall(half_a_request(b"1", 100_000, 20_000))
    stage.until(lambda: stage.server.receiving_bytes > 0, "the buffer")
    for _ in range(3):
        comes_untold(client, known.sockets[0])
        stage.clock.pass_time(MAX_IDLE_MS + 100)
        stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 1
    stage.clock.pass_time(MAX_IDLE_MS + 100)
    stage.until(lambda: stage.server.connection_count == 0, "it to go when it is idle")


def test_backlogs_are_bounded_over_all_connections(start):
    stage = start(queued_max_request_bytes=1_000_000, max_frame_bytes=1_000)
    clients = [stage.connected() for _ in range(40)]
    for client in clients:
        client.sendall(framed(b"wait") + framed(b"x" * 900) * 150)
    stage.until(lambda: len(stage.frames) == 40, "the requests that wait")
    assert stage.server.backlog_bytes < 250_000 + 256 * 1024 + 40 * 32 * 1024

    for channel, _ in stage.frames[:40]:
        channel.respond([framed(b"late")])
    stage.until(lambda: len(stage.frames) == 40 * 151, "everything that was sent")
    assert stage.server.backlog_bytes == 0


def test_clients_that_read_no_answers_are_cut_off_the_longest_silent_first(start, caplog):
    stage = start(queued_max_request_bytes=4_000_000, send_buffer_bytes=4_096)
    stage.answer = b"a" * 300_000
    clients = []
    for _ in range(5):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", stage.port))
        stage.clients.append(client)
        clients.append(client)
        client.sendall(framed(b"x"))
        count = len(clients)
        stage.until(lambda count=count: len(stage.frames) == count, "its request")
    stage.until(lambda: stage.server.connection_count < 5, "somebody to be cut off")
    assert stage.server.unsent_bytes <= 1_000_000
    assert stage.is_closed_at_the_end(clients[0])
    assert "does not read its answers" in caplog.text
    last = clients[-1]
    _receive_while_turning(stage, last, 300_004)
    stage.until(lambda: stage.server.unsent_bytes <= 700_000, "its answer to leave")


def _receive_while_turning(stage: Stage, client: socket.socket, size: int) -> None:
    client.setblocking(False)
    received = 0

    def receive_more() -> bool:
        nonlocal received
        with suppress(BlockingIOError):
            received += len(client.recv(1 << 20))
        return received >= size

    stage.until(receive_more, "everything to arrive")


def _send_while_turning(stage: Stage, client: socket.socket, content: memoryview) -> None:
    client.setblocking(False)
    sent = 0

    def send_more() -> bool:
        nonlocal sent
        with suppress(BlockingIOError):
            sent += client.send(content[sent:])
        return sent == len(content)

    stage.until(send_more, "everything to be sent")
    client.setblocking(True)


def test_bind_raises_user_error_when_the_port_is_taken(start):
    stage = start()
    with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{stage.port} for SECOND"):
        stage.server.bind(Listener("SECOND", "127.0.0.1", stage.port))


class ListeningOutOfDescriptors:
    """Listens, but accepts nothing while it is out of descriptors."""

    def __init__(self, listening: ListeningSocket) -> None:
        self._listening = listening
        self.is_out_of_descriptors = True
        self.accept_count = 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.accept_count += 1
        if self.is_out_of_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


def test_accept_is_retried_when_out_of_descriptors(start):
    made: list[ListeningOutOfDescriptors] = []

    def listen_without_descriptors(*arguments: Any) -> Any:
        made.append(ListeningOutOfDescriptors(listen(*arguments)))
        return made[-1]

    stage = start(listen=listen_without_descriptors)
    (listening,) = made
    stage.connect()
    stage.until(lambda: listening.accept_count, "the failure")
    for _ in range(10):
        stage.loop.run_once(max_wait_ms=0)
    assert listening.accept_count == 1
    listening.is_out_of_descriptors = False
    stage.clock.pass_time(RETRY_MS)
    stage.until(lambda: stage.server.connection_count == 1, "the connection")


def test_a_closed_server_watches_nothing_and_frees_its_port(start):
    stage = start(max_connections=1)
    client = stage.connected()
    waiting = stage.connect()
    stage.loop.run_once(max_wait_ms=0)
    stage.server.close()
    assert stage.is_closed(client)
    stage.loop.run_once(max_wait_ms=0)
    assert stage.server.connection_count == 0
    assert stage.loop.watched_count == 0
    waiting.close()
    with socket.create_server(("127.0.0.1", stage.port)):
        pass


@pytest.mark.slow
def test_a_client_that_does_not_read_keeps_no_deleted_file_for_long(start, tmp_path, caplog):
    path = tmp_path / "segment"
    path.write_bytes(bytes(20 * MIB))

    class Region:
        position, size_bytes = 0, 20 * MIB

        def __init__(self) -> None:
            self._descriptor = os.open(path, os.O_RDONLY)

        def __del__(self) -> None:
            os.close(self._descriptor)

        def fileno(self) -> int:
            return self._descriptor

        def view(self) -> memoryview:
            return memoryview(os.pread(self._descriptor, self.size_bytes, self.position))

    stage = start(max_idle_ms=-1)
    slow, quick = stage.connected(), stage.connected()
    for client in (slow, quick):
        client.sendall(framed(b"wait"))
    stage.until(lambda: len(stage.frames) == 2, "both requests")
    for channel, _ in stage.frames:
        channel.respond([Region()])

    def pass_seconds(count: int) -> None:
        for _ in range(count):
            stage.clock.pass_time(1_000)
            stage.loop.run_once(max_wait_ms=0)

    pass_seconds(60)
    assert stage.server.connection_count == 2, "the file is not deleted"
    path.unlink()
    pass_seconds(4)
    quick.setblocking(False)
    left = 20 * MIB

    def is_read() -> bool:
        nonlocal left
        with suppress(BlockingIOError):
            left -= len(quick.recv(MIB))
        return left == 0

    stage.until(is_read, "a client that reads to have all of it")
    pass_seconds(10)
    assert stage.server.connection_count == 1
    assert "the segment that it was being sent is deleted" in caplog.text
    assert not stage.is_closed(quick)
