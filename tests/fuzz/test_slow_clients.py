"""Clients that say nothing, half of something, or never listen, beside one that is served."""

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Iterator
from random import Random

import pytest

from cluster.protocol.api import ApiKey
from tests.fuzz.bystander import Bystander
from tests.fuzz.fuzzing import Fuzzer, Watched
from tests.fuzz.test_registry_frames import CONNECT
from tests.support.kafka_wire import fetch_request, frame_of, metadata_request, sized
from tests.support.running_cluster import HOST, Cluster
from tests.support.topics import create_topic

AT_ONCE = 150
"""Connections that are open at a time; the oldest goes when another comes."""
STEPS_PER_CHECK = 300
ANNOUNCED_MAX_BYTES = 64 << 10
UNREAD_REQUESTS = 30


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("fuzz"), brokers=1) as cluster:
        yield cluster


class Crowd:
    """Connections to one port, each with what it has still to say."""

    def __init__(self, port: int, well_formed: list[bytes]) -> None:
        self._port = port
        self._well_formed = well_formed
        self._waiting: deque[tuple[socket.socket, bytes]] = deque()

    def step(self, random: Random) -> None:
        """One comes, one says a little more, or one goes in its own way."""
        choice = random.random()
        if choice < 0.3 or not self._waiting:
            self._come(random)
        elif choice < 0.9:
            connection, rest = self._waiting.popleft()
            size = random.choice((1, 1, 2, 5, 100))
            with contextlib.suppress(OSError):
                connection.send(rest[:size])
            self._waiting.append((connection, rest[size:]))
        else:
            self._leave(random, *self._waiting.popleft())
        if len(self._waiting) > AT_ONCE:
            self._leave(random, *self._waiting.popleft())

    def close(self) -> None:
        for connection, _ in self._waiting:
            connection.close()

    def _come(self, random: Random) -> None:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        connection.settimeout(30.0)
        connection.connect((HOST, self._port))
        connection.setblocking(False)
        frame = random.choice(self._well_formed)
        match random.randrange(5):
            case 0:
                said = b""
            case 1:
                said = struct.pack(">i", random.randrange(1, ANNOUNCED_MAX_BYTES))
            case 2:
                said = frame[: random.randrange(len(frame))]
            case 3:
                said = frame * UNREAD_REQUESTS
            case _:
                said = frame
        self._waiting.append((connection, said))

    def _leave(self, random: Random, connection: socket.socket, rest: bytes) -> None:
        with contextlib.suppress(OSError):
            match random.randrange(3):
                case 0:  # reset instead of an orderly end
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                case 1:
                    connection.send(rest)
                    connection.shutdown(socket.SHUT_WR)
                case _:
                    pass
        connection.close()


def test_clients_that_neither_send_nor_read_delay_no_others(
    target: Cluster, fuzzer: Fuzzer
) -> None:
    topic = create_topic(target, replication_factor=1)
    requests = [
        frame_of(metadata_request(topic), 1),
        frame_of(fetch_request(topic, 0, max_wait_ms=60_000), 2),
        sized(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 3, -1)),
    ]
    watched = Watched.all_of(target)
    with contextlib.ExitStack() as held:
        bystander = held.enter_context(Bystander(target))
        clients = Crowd(target.addresses[0][1], requests)
        sessions = Crowd(target.registry_port, [sized(CONNECT)])
        held.callback(clients.close)
        held.callback(sessions.close)

        def check() -> None:
            watched.check()
            bystander.check()
            create_topic(target, replication_factor=1)  # which needs the registry

        fuzzer.run(
            lambda random: random.choice((clients, clients, sessions)).step(random),
            check,
            STEPS_PER_CHECK,
        )
