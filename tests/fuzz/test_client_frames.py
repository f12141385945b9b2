"""Mutated requests of every API and version at a broker, beside a client that is served."""

import contextlib
import select
import socket
from collections.abc import Iterator
from random import Random

import pytest

from tests.fuzz.bystander import Bystander
from tests.fuzz.fuzzing import Fuzzer, Watched, mutated
from tests.fuzz.requests import EVERY_VERSION, random_request
from tests.support.kafka_wire import frame_of, sized
from tests.support.running_cluster import Address, Cluster
from tests.support.topics import create_topic

CONNECTIONS = 20
PATIENCE_S = 0.005
"""For an answer: a frame that announces more than it holds gets none."""
REQUESTS_PER_VERSION = 5
WHOLE_FRAMES = 0.1
"""Share of frames that are sent as they are, so that what is well formed is tried as well."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = {"auto.create.topics.enable": "false"}
    with Cluster(tmp_path_factory.mktemp("fuzz"), brokers=1, overrides=overrides) as cluster:
        yield cluster


class Connections:
    """Some at a time, each opened again when the broker has closed it; answers are thrown away."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._open: list[socket.socket | None] = [None] * CONNECTIONS
        self.closed_count = 0
        self.answered_count = 0

    def send(self, slot: int, frame: bytes) -> None:
        """Once the frame before it has had its effect, or a while to have it."""
        connection = self._open[slot]
        if connection is not None:
            connection = self._settled(connection)
        if connection is None:
            connection = socket.create_connection(self._address, 30.0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
        self._open[slot] = connection
        with contextlib.suppress(OSError):  # full, or closed: seen when it is looked at next
            connection.sendall(frame)

    def close(self) -> None:
        for connection in filter(None, self._open):
            connection.close()

    def _settled(self, connection: socket.socket) -> socket.socket | None:
        """The connection after its answer, None where the broker has closed it."""
        select.select([connection], [], [], PATIENCE_S)
        try:
            while connection.recv(1 << 16):
                self.answered_count += 1
        except BlockingIOError:
            return connection
        except OSError:
            pass
        connection.close()
        self.closed_count += 1
        return None


def test_no_mutated_request_does_harm(target: Cluster, fuzzer: Fuzzer) -> None:
    topic = create_topic(target, replication_factor=1)
    well_formed = [
        frame_of(random_request(Random(number), key, version, topic), number)[4:]
        for key, version in EVERY_VERSION
        for number in range(REQUESTS_PER_VERSION)
    ]
    watched = Watched.all_of(target)
    connections = Connections(target.addresses[0])
    with contextlib.closing(connections), Bystander(target) as bystander:

        def send(random: Random) -> None:
            frame = random.choice(well_formed)
            if random.random() >= WHOLE_FRAMES:
                frame = mutated(random, frame)
            connections.send(random.randrange(CONNECTIONS), sized(frame))

        def check() -> None:
            watched.check()
            bystander.check()

        fuzzer.run(send, check)
    assert connections.closed_count > 0
    assert connections.answered_count > 0
