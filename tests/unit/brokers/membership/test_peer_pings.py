"""Pings and connections over real control links to the peers that the controller names."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.peer_pings import PeerPings
from cluster.brokers.network.purgatory import Purgatory
from cluster.coordinator.controller.control_link import ControlLink
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.protocol.peer.control import ClusterUpdate, Ping
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_link import ZmqContext
from tests.support.link_keys import Acquaintance
from tests.support.turning import turn_until

LOCAL, PEER = BrokerId(1), BrokerId(2)
LONG_MS = 600_000

# A control endpoint that answers every request, in a process of its own.
PROGRAM = """
import sys
from cluster.coordinator.controller.control_link import ControlLink
from cluster.model.errors import ErrorCode
from cluster.protocol.peer.control import Acknowledged, Ping
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_link import ZmqContext

loop = EventLoop(SystemClock())
port = int(sys.argv[1])
friend = bytes.fromhex(sys.argv[2])
alive = Acknowledged(ErrorCode.none)
sockets = ZmqContext(lambda on_found: on_found([friend]))
link = ControlLink(sockets, loop, "127.0.0.1", port)
link.serve(Ping, lambda _, reply: reply(alive))
print(link.endpoint, flush=True)
loop.run()
"""


class Peer:
    """The control endpoint of another broker."""

    def __init__(self, friend: ZmqContext, port: int = 0) -> None:
        """`friend` is the peer that may connect."""
        root = Path(__file__).parents[4]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(port), friend.public_key.hex()],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Relay:
    """A port that forwards to another one until it is cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_cut = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        self._is_cut = True
        self._end_pairs()

    def restore(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._end_pairs()
        for thread in self._threads:
            thread.join()
        for one in (self._server, *(end for pair in self._pairs for end in pair)):
            one.close()

    def _end_pairs(self) -> None:
        for one in (end for pair in self._pairs for end in pair):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._server.accept()
                if self._is_cut:
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self._target))
                self._pairs.append((here, there))
                for source, target in ((here, there), (there, here)):
                    pump = threading.Thread(target=_pump, args=(source, target))
                    self._threads.append(pump)
                    pump.start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while received := source.recv(4_096):
            target.sendall(received)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Stage:
    """Broker 1, which learns about its peer from updates."""

    def __init__(self) -> None:
        self.context = Acquaintance().context()
        self.loop = EventLoop(SystemClock())
        self.metadata = MetadataCache("stage")
        self.link = ControlLink(self.context, self.loop, "127.0.0.1")
        self.pings = PeerPings(
            LOCAL,
            LONG_MS,
            self.loop,
            self.metadata,
            Purgatory(self.loop.call_at, self.loop.time),
            self.link,
        )
        self.link.serve(Ping, self.pings.on_ping)

    def update(self, *endpoints: str, epoch: int = 100) -> None:
        """The controller's update lists broker 2 at an endpoint, or no other broker."""
        brokers = tuple(
            BrokerRegistration(PEER, BrokerEpoch(epoch), (), None, endpoint, "", "here")
            for endpoint in endpoints
        )
        update = ClusterUpdate(LOCAL, ControllerEpoch(1), BrokerEpoch(1), True, brokers, (), ())
        self.pings.on_update(update)
        self.metadata.apply(update)

    def waits(self) -> bool:
        """Whether a request that names broker 2 has to wait, from now until it does not."""
        liveness = self.pings.liveness
        tickets = liveness.inquire([PEER])
        waited = liveness.must_wait([PEER], tickets, self.loop.now_ms)
        turn_until(
            self.loop,
            lambda: not liveness.must_wait([PEER], tickets, self.loop.now_ms),
            "an answer, or none in time",
        )
        return waited

    def is_lost(self) -> bool:
        return self.pings.liveness.is_lost(PEER, self.loop.now_ms)

    def close(self) -> None:
        self.link.close()
        self.context.close()
        self.loop.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture
def peer(stage: Stage) -> Iterator[Peer]:
    peer = Peer(stage.context)
    yield peer
    peer.close()


@pytest.mark.slow
def test_killed_peer_counts_as_lost_until_the_controller_reports_it(
    stage: Stage, peer: Peer
) -> None:
    stage.update(peer.endpoint)
    turn_until(stage.loop, stage.waits, "an answer of that peer")
    assert not stage.is_lost()

    peer.signal(signal.SIGKILL)

    turn_until(stage.loop, stage.is_lost, "the broken connection to be noticed")
    assert stage.waits()  # for the election
    stage.update()
    assert not stage.is_lost()
    assert not stage.waits()


def test_paused_peer_is_not_lost(stage: Stage, peer: Peer) -> None:
    stage.update(peer.endpoint)
    stage.waits()

    peer.signal(signal.SIGSTOP)
    turn_until(stage.loop, lambda: not stage.waits(), "it not to be waited for any more")
    assert not stage.is_lost()

    peer.signal(signal.SIGCONT)
    turn_until(stage.loop, stage.waits, "it to be waited for, since it answers again")
    assert not stage.is_lost()


def test_peer_is_trusted_again_after_it_reconnects(stage: Stage, peer: Peer) -> None:
    """A network fault replaces the connection; the peer stays the same."""
    address, mark, key = peer.endpoint.partition("#")
    relay = Relay(int(address.rpartition(":")[2]))
    stage.update(f"tcp://127.0.0.1:{relay.port}{mark}{key}")
    turn_until(stage.loop, stage.waits, "an answer of that peer")

    relay.cut()
    turn_until(stage.loop, stage.is_lost, "the broken connection to be noticed")
    relay.restore()

    turn_until(stage.loop, lambda: not stage.is_lost(), "the new connection to be noticed")
    relay.close()


def test_peer_that_closes_its_incoming_connection_is_not_lost(stage: Stage, peer: Peer) -> None:
    """For example a peer that no longer follows any partition of this broker."""
    asker = ControlLink(stage.context, stage.loop, "127.0.0.1")
    answers: list[Any] = []
    stage.update(peer.endpoint)
    stage.waits()
    asker.ask(stage.link.endpoint, Ping(1), answers.append, LONG_MS)
    turn_until(stage.loop, lambda: answers, "a ping of that peer")

    asker.close()

    turn_until(stage.loop, stage.waits, "an answer of that peer")
    assert not stage.is_lost()


def test_lost_connection_to_a_departed_broker_has_no_effect(stage: Stage, peer: Peer) -> None:
    stage.update(peer.endpoint)
    stage.waits()
    stage.update()
    stage.update("tcp://127.0.0.1:1", epoch=101)

    peer.close()
    stage.waits()

    assert not stage.is_lost()
