"""Confused messages at both ZeroMQ endpoints of brokers that replicate, beside a client's produce.

The messages claim to come from an unknown broker. If they claimed a known broker's id, valid ones
would take effect; whether a message is valid is checked before its sender is.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest
import zmq
from kazoo.client import KazooClient

from cluster.model.errors import PeerError
from cluster.model.ids import BrokerEpoch
from cluster.protocol.peer.codec import decode, encode
from cluster.protocol.peer.control import ControlledShutdown
from tests.fuzz.bystander import Bystander
from tests.fuzz.fuzzing import Fuzzer, Watched
from tests.support.peer_messages import (
    ANSWERS,
    REQUESTS,
    STRANGER,
    answer_of,
    confused,
    fetch_of,
)
from tests.support.running_cluster import HOST, Cluster
from tests.support.waiting import DEADLINE_S

SOCKETS = 4
"""For each endpoint; each is another peer to it."""
LINGER_MS = 1_000
MARK = b"the mark"
MARKED_SESSION = 123_456_789
HARMLESS = ControlledShutdown(STRANGER, BrokerEpoch(0))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("fuzz")) as cluster:
        yield cluster


def endpoints(cluster: Cluster, broker: int) -> tuple[str, str]:
    """Control and replication, as the broker has registered them."""
    client = KazooClient(f"{HOST}:{cluster.registry_port}")
    client.start()
    try:
        document, _ = client.get(f"/brokers/ids/{broker}")
    finally:
        client.stop()
        client.close()
    registered = json.loads(document)["milena"]
    return registered["control"], registered["replication"]


class Peers:
    """Sockets that belong to no broker; replies to them are ignored."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._sockets = []
        self.answered_count = 0
        for _ in range(SOCKETS):
            dealer = self._context.socket(zmq.DEALER)
            dealer.setsockopt(zmq.LINGER, LINGER_MS)
            dealer.connect(endpoint)
            self._sockets.append(dealer)

    def send(self, random: Random, frames: list[bytes]) -> None:
        dealer = random.choice(self._sockets)
        dealer.send_multipart(frames)
        with contextlib.suppress(zmq.Again):
            while True:
                dealer.recv_multipart(zmq.NOBLOCK)
                self.answered_count += 1

    def wait_for(self, question: list[bytes], is_answer: Callable[[list[bytes]], bool]) -> None:
        """Ask on every socket until the answer is there: all that was sent before has arrived."""
        for dealer in self._sockets:
            dealer.send_multipart(question)
            deadline = time.monotonic() + DEADLINE_S
            while True:
                assert dealer.poll(max(1, int(1_000 * (deadline - time.monotonic())))), "no answer"
                if is_answer(dealer.recv_multipart()):
                    break

    def close(self) -> None:
        self._context.destroy(linger=LINGER_MS)


def framed(message: object) -> list[bytes]:
    return [bytes(frame) for frame in encode(message)]


def test_no_confused_control_message_does_harm(target: Cluster, fuzzer: Fuzzer) -> None:
    control, _ = endpoints(target, 0)
    watched = Watched.all_of(target)
    with Bystander(target) as bystander, contextlib.closing(Peers(control)) as peers:
        messages = [framed(message) for message in (*REQUESTS, *ANSWERS)]

        def send(random: Random) -> None:
            frames = confused(random, random.choice(messages))
            request_id = random.randbytes(random.choice((8, 8, 8, 8, 8, 8, 0, 7, 9)))
            peers.send(random, [request_id, *frames])

        def check() -> None:
            peers.wait_for([MARK, *framed(HARMLESS)], lambda answer: answer[0] == MARK)
            watched.check()
            bystander.check()

        fuzzer.run(send, check, share=0.5)
    assert peers.answered_count > 0


def test_no_confused_replication_message_does_harm(target: Cluster, fuzzer: Fuzzer) -> None:
    _, replication = endpoints(target, 0)
    watched = Watched.all_of(target)
    with Bystander(target) as bystander, contextlib.closing(Peers(replication)) as peers:
        topic = bystander.topic
        messages = [framed(fetch_of(STRANGER, topic, count)) for count in (1, 1, 1, 3, 40)]
        messages.append(framed(answer_of(topic)))

        def send(random: Random) -> None:
            peers.send(random, confused(random, random.choice(messages)))

        question = framed(replace(fetch_of(STRANGER, topic), session=MARKED_SESSION, sequence=5))

        def is_answer(frames: list[bytes]) -> bool:
            try:
                return bool(decode(frames).session == MARKED_SESSION)
            except PeerError:
                return False  # compact, to a confused message that looked like a compact fetch

        def check() -> None:
            peers.wait_for(question, is_answer)
            watched.check()
            bystander.check()

        fuzzer.run(send, check, share=0.5)
    assert peers.answered_count > 0
