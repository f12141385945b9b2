"""Pings and connections to peers: between real control links, to whom the controller names."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.peer_pings import PeerPings
from cluster.coordinator.controller.control_link import ControlLink
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from cluster.protocol.peer.control import ClusterUpdate, Ping
from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import EventLoop
from cluster.runtime.zmq_link import ZmqContext
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
alive = Acknowledged(ErrorCode.none)
link = ControlLink(ZmqContext(), loop, "127.0.0.1", port)
link.serve(Ping, lambda _, reply: reply(alive))
print(link.endpoint, flush=True)
loop.run()
"""


class Peer:
    """Another broker, as far as its control endpoint goes."""

    def __init__(self, port: int = 0) -> None:
        root = Path(__file__).parents[3]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(port)],
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


class Stage:
    """Broker 1, which learns of its peer from updates."""

    def __init__(self) -> None:
        self.context = ZmqContext()
        self.loop = EventLoop(SystemClock())
        self.metadata = MetadataCache("stage")
        self.link = ControlLink(self.context, self.loop, "127.0.0.1")
        self.pings = PeerPings(
            LOCAL, LONG_MS, self.loop, self.metadata, Purgatory(self.loop.call_at), self.link
        )
        self.link.serve(Ping, self.pings.on_ping)

    def update(self, *endpoints: str, epoch: int = 100) -> None:
        """The controller says who is there: broker 2 at an endpoint, or nobody."""
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
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def test_a_peer_that_is_killed_is_lost_until_the_controller_says_so(
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


def test_a_peer_that_is_paused_is_not_lost(stage: Stage, peer: Peer) -> None:
    stage.update(peer.endpoint)
    stage.waits()

    peer.signal(signal.SIGSTOP)
    turn_until(stage.loop, lambda: not stage.waits(), "it not to be waited for any more")
    assert not stage.is_lost()

    peer.signal(signal.SIGCONT)
    turn_until(stage.loop, stage.waits, "it to be waited for, since it answers again")
    assert not stage.is_lost()


def test_a_peer_that_is_reached_again_is_trusted_again(stage: Stage) -> None:
    """As after a network's fault; here it is a new process at the same endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    first = Peer(port)
    stage.update(first.endpoint)
    stage.waits()
    first.close()
    turn_until(stage.loop, stage.is_lost, "the broken connection to be noticed")

    second = Peer(port)

    turn_until(stage.loop, lambda: not stage.is_lost(), "the new connection to be noticed")
    second.close()


def test_a_peer_that_closes_its_connection_to_us_is_not_lost(stage: Stage, peer: Peer) -> None:
    """Such as one that follows nothing of ours any more."""
    asker = ControlLink(stage.context, stage.loop, "127.0.0.1")
    answers: list[Any] = []
    stage.update(peer.endpoint)
    stage.waits()
    asker.ask(stage.link.endpoint, Ping(1), answers.append, LONG_MS)
    turn_until(stage.loop, lambda: answers, "a ping of that peer")

    asker.close()

    turn_until(stage.loop, stage.waits, "an answer of that peer")
    assert not stage.is_lost()


def test_the_end_of_a_broker_that_has_left_tells_nothing(stage: Stage, peer: Peer) -> None:
    stage.update(peer.endpoint)
    stage.waits()
    stage.update()
    stage.update("tcp://127.0.0.1:1", epoch=101)

    peer.close()
    stage.waits()

    assert not stage.is_lost()
