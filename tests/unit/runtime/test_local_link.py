"""Local connections over real Unix sockets, both ends on one loop."""

import gc
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.runtime import local_link
from cluster.runtime.clock import SystemClock
from cluster.runtime.local_link import (
    MESSAGE_MAX_BYTES,
    UnixConnection,
    UnixListener,
    UnixSockets,
    local_address,
)
from cluster.runtime.loop import EventLoop
from tests.support.turning import turn_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has such addresses")


class Ends:
    """A listener, connections to it, and what both sides hear."""

    def __init__(self) -> None:
        self.loop = EventLoop(SystemClock())
        self.address = local_address(f"tcp://127.0.0.1:1#{os.getpid()}-{id(self)}")
        self.heard: list[bytes] = []
        """By the listener's side."""
        self.answers: list[bytes] = []
        self.lost: list[Any] = []
        """The listener's ends whose peer has gone."""
        self.gone: list[Any] = []
        """The connecting ends whose peer has gone."""
        self.accepted: list[Any] = []
        """The listener's ends by which something came, in its order."""
        self.listener = self.listen()
        self._made: list[UnixConnection] = []

    def listen(self) -> UnixListener | None:
        def hear(connection: Any, message: bytes | memoryview) -> None:
            self.accepted.append(connection)
            self.heard.append(bytes(message))

        return UnixSockets().listen(self.loop, self.address, hear, self.lost.append)

    def connect(self) -> UnixConnection | None:
        connection = UnixSockets().connect(
            self.loop,
            self.address,
            lambda _, message: self.answers.append(bytes(message)),
            self.gone.append,
        )
        if connection is not None:
            self._made.append(connection)
        return connection

    def connected(self) -> UnixConnection:
        """A connection that is accepted; its greeting is in `heard`."""
        connection = self.connect()
        assert connection is not None
        before = len(self.heard)
        assert connection.send(b"hello")
        self.turn_until(lambda: len(self.heard) > before, "the greeting")
        return connection

    def turn_until(self, condition: Any, what: str) -> None:
        turn_until(self.loop, condition, what)

    def close(self) -> None:
        if self.listener is not None:
            self.listener.close()
        for connection in self._made:
            connection.close()
        self.loop.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def test_messages_keep_their_boundaries_and_their_order(ends: Ends) -> None:
    connection = ends.connected()
    sent = [b"a", b"bc", b"\0" * 4_400, b"d" * MESSAGE_MAX_BYTES, b"e"]
    for message in sent:
        assert connection.send(message)
    ends.turn_until(lambda: len(ends.heard) == 1 + len(sent), "all messages")
    assert ends.heard[1:] == sent

    for message in sent:
        assert ends.accepted[0].send(message)
    ends.turn_until(lambda: len(ends.answers) == len(sent), "all answers")
    assert ends.answers == sent


def test_a_message_that_is_too_long_is_cut_off_and_the_next_is_whole(ends: Ends) -> None:
    connection = ends.connected()
    connection.send(b"x" * (MESSAGE_MAX_BYTES + 1))
    connection.send(b"next")
    ends.turn_until(lambda: len(ends.heard) == 3, "both messages")
    assert ends.heard[1:] == [b"x" * MESSAGE_MAX_BYTES, b"next"]


def test_the_end_of_a_connection_is_told_behind_what_was_sent(ends: Ends) -> None:
    connection = ends.connected()
    connection.send(b"last words")
    connection.close()
    connection.close()
    assert not connection.send(b"more")
    assert not connection.receive()

    ends.turn_until(lambda: ends.lost, "the end")
    assert ends.heard[1:] == [b"last words"]
    (lost,) = ends.lost
    assert not lost.send(b"an answer")
    assert not lost.receive()
    assert ends.gone == []  # who closes is not told


def test_a_listener_that_closes_ends_all_connections(ends: Ends) -> None:
    connections = [ends.connected() for _ in range(3)]
    assert ends.listener is not None
    ends.listener.close()
    ends.listener = None
    ends.turn_until(lambda: len(ends.gone) == 3, "the ends")
    assert not any(connection.send(b"x") for connection in connections)
    assert ends.connect() is None
    assert ends.lost == []


def test_a_peer_that_does_not_receive_costs_no_wait(ends: Ends) -> None:
    connection = ends.connected()
    count = 0
    while connection.send(b"%06d" % count + b"x" * 4_000):
        count += 1
        assert count < 100_000
    ends.turn_until(lambda: len(ends.heard) == 1 + count, "what was sent")
    assert [int(message[:6]) for message in ends.heard[1:]] == list(range(count))
    assert connection.send(b"again")


def test_messages_are_received_on_demand_even_before_their_connection_is_accepted(
    ends: Ends,
) -> None:
    assert ends.listener is not None
    first = ends.connected()
    second = ends.connect()
    assert second is not None
    for number in range(3):
        first.send(b"first %d" % number)
        second.send(b"second %d" % number)
    ends.heard.clear()
    ends.listener.receive_all()
    assert sorted(ends.heard) == [
        b"%s %d" % (w, n) for w in (b"first", b"second") for n in range(3)
    ]
    ends.listener.receive_all()
    assert len(ends.heard) == 6


def test_a_peer_that_floods_does_not_hold_up_the_loop(ends: Ends) -> None:
    assert ends.listener is not None
    connection = ends.connected()
    count = 0
    while count < 30 and connection.send(b"flood"):
        count += 1
    ends.heard.clear()
    ends.listener.receive_all()
    assert 0 < len(ends.heard) < count
    ends.turn_until(lambda: len(ends.heard) == count, "the rest")


@pytest.mark.parametrize("refusing", ["listener", "connecting"])
def test_processes_of_another_user_are_refused(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, refusing: str
) -> None:
    """Their credentials are those that the kernel tells."""

    class Foreign(socket.socket):
        def getsockopt(self, *arguments: Any) -> Any:
            told: Any = super().getsockopt(*arguments)
            if arguments[1] != socket.SO_PEERCRED:
                return told
            pid, uid, gid = struct.unpack("3i", told)
            return struct.pack("3i", pid, uid + 1, gid)

    if refusing == "connecting":
        monkeypatch.setattr(socket, "socket", Foreign)
        assert ends.connect() is None
        return
    connection = ends.connect()
    assert connection is not None
    monkeypatch.setattr(local_link, "_is_of_this_user", lambda accepted: False)
    connection.send(b"let me in")
    ends.turn_until(lambda: ends.gone, "the refusal")
    assert ends.heard == []


def test_connections_are_limited_and_ended_ones_do_not_count(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_link, "_CONNECTIONS_MAX", 3)
    kept = [ends.connected() for _ in range(3)]
    one_more = ends.connect()
    ends.turn_until(lambda: ends.gone, "the refusal of one more")
    assert ends.gone == [one_more]

    # Ended by the peer, and by the listener's side as after a malformed message.
    kept[0].close()
    ends.turn_until(lambda: ends.lost, "the end")
    ends.accepted[1].close()
    assert ends.connected().is_open
    assert ends.connected().is_open


def test_an_address_in_use_is_one_line(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert ends.listen() is None
    (line,) = caplog.messages
    assert line.startswith("brokers of this machine reach this one by ZeroMQ only: ")
    assert "in use" in line
    assert ends.connected().is_open  # the first listener is not disturbed


def test_a_system_without_such_sockets_has_no_local_connections(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """macOS is one."""

    def refuse(*_: Any) -> None:
        raise OSError(43, "Protocol not supported")

    caplog.set_level("INFO")
    monkeypatch.setattr(socket, "socket", refuse)
    assert ends.listen() is None
    assert ends.connect() is None
    assert caplog.messages == [
        "brokers of this machine reach this one by ZeroMQ only: [Errno 43] Protocol not supported"
    ]


def test_connecting_to_an_unknown_address_gives_no_connection(ends: Ends) -> None:
    sockets = UnixSockets()
    unknown = local_address("tcp://127.0.0.1:2#unknown")
    assert unknown != ends.address
    assert unknown.startswith("\0")
    assert sockets.connect(ends.loop, unknown, lambda *_: None, lambda _: None) is None


def test_descriptors_are_closed(ends: Ends) -> None:
    descriptors = Path("/proc/self/fd")
    gc.collect()  # what earlier tests have left may be freed at any time
    before = len(list(descriptors.iterdir()))
    for _ in range(5):
        connection = ends.connected()
        connection.close()
        ends.turn_until(lambda: ends.lost, "the end")
        ends.lost.clear()
    assert ends.listen() is None
    assert len(list(descriptors.iterdir())) <= before
    assert ends.loop.watched_count == 1
