"""Mutated requests of every API and version at a broker, beside a client that is served."""

import contextlib
from collections.abc import Iterator
from random import Random

import pytest

from tests.fuzz.bystander import Bystander
from tests.fuzz.connections import Connections
from tests.fuzz.fuzzing import Fuzzer, Watched, mutated
from tests.fuzz.requests import EVERY_VERSION, random_request
from tests.support.kafka_wire import frame_of, sized
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic

CONNECTIONS = 20
REQUESTS_PER_VERSION = 5
WHOLE_FRAMES = 0.1
"""Share of frames that are sent as they are, so that what is well formed is tried as well."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = {"auto.create.topics.enable": "false"}
    with Cluster(tmp_path_factory.mktemp("fuzz"), brokers=1, overrides=overrides) as cluster:
        yield cluster


def test_no_mutated_request_does_harm(target: Cluster, fuzzer: Fuzzer) -> None:
    topic = create_topic(target, replication_factor=1)
    well_formed = [
        frame_of(random_request(Random(number), key, version, topic), number)[4:]
        for key, version in EVERY_VERSION
        for number in range(REQUESTS_PER_VERSION)
    ]
    watched = Watched.all_of(target)
    connections = Connections(target.addresses[0], CONNECTIONS)
    with contextlib.closing(connections), Bystander(target) as bystander:

        def send(random: Random) -> None:
            frame = random.choice(well_formed)
            if random.random() >= WHOLE_FRAMES:
                frame = mutated(random, frame)
            connections.send(random, sized(frame))

        def check() -> None:
            watched.check()
            bystander.check()

        fuzzer.run(send, check)
    assert connections.closed_count > 0
    assert connections.answered_count > 0
