"""Consumer groups of franz-go, sarama, kafkajs and Kafka's own client; of seven clients mixed.

Those of Python's clients alone are in `test_consumer_groups.py`.
"""

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.client_programs import go_programs, javascript_programs
from tests.compat.group_scenes import (
    LASTING_MS,
    GroupScene,
    Pair,
    StaticGroup,
    ended,
    pause_and_kill,
    share_and_read,
)
from tests.compat.kafka_process import compiled, java_command
from tests.compat.member_hosts import MemberHost
from tests.support.running_cluster import Cluster
from tests.support.running_members import Member
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

STRATEGIES = [
    ("franz-go", "range"),
    ("franz-go", "roundrobin"),
    ("franz-go", "sticky"),
    ("franz-go", "cooperative-sticky"),
    ("sarama", "range"),
    ("sarama", "roundrobin"),
    ("sarama", "sticky"),
    ("sarama-2.8", "range"),  # what it supposes when it is not told of a version
    ("kafkajs", "roundrobin"),
    ("java", "range"),
    ("java", "roundrobin"),
    ("java", "sticky"),
    ("java", "cooperative-sticky"),
]
CLIENTS = {"franz-go": "range", "sarama": "sticky", "kafkajs": "roundrobin", "java": "range"}
HAVE_STATIC_MEMBERS = ["franz-go", "sarama", "java"]
PYTHON_CLIENTS = ["confluent", "kafka-python", "aiokafka"]
SHORT_MS = 3_000


class Hosts:
    """A process for each language."""

    def __init__(self, java_classes: Path, stack: ExitStack) -> None:
        go = stack.enter_context(MemberHost([go_programs() / "go_clients", "members"]))
        javascript: list[str | Path] = ["node", javascript_programs() / "kafkajs_members.mjs"]
        java = [*java_command(java_classes), "GroupMembers"]
        self._by_client = {
            "franz-go": go,
            "sarama": go,
            "sarama-2.8": go,
            "kafkajs": stack.enter_context(MemberHost(javascript)),
            "java": stack.enter_context(MemberHost(java)),
        }
        self.processes = list({id(each): each for each in self._by_client.values()}.values())

    def start(self, scene: GroupScene, client: str = "", **options: str) -> Member:
        """One more member; of the scene's client unless another is named."""
        client = client or scene.client
        return scene.group.start_in(self._by_client[client], client=client, **options)


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that allows short sessions, since tests wait for their ends."""
    overrides = {"group.min.session.timeout.ms": "1000"}
    with Cluster(tmp_path_factory.mktemp("groups"), brokers=1, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="module")
def new_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Hosts]]:
    """Starts processes, which are killed at the end of the module."""
    classes = compiled("GroupMembers", tmp_path_factory.mktemp("java"))
    with ExitStack() as stack:
        yield lambda: Hosts(classes, stack)


@pytest.fixture(scope="module")
def hosts(new_hosts: Callable[[], Hosts]) -> Hosts:
    return new_hosts()


def test_members_share_the_partitions_and_read_each_record_once(
    one_broker: Cluster, hosts: Hosts
) -> None:
    scenes = [
        GroupScene(one_broker, client=client, strategy=strategy) for client, strategy in STRATEGIES
    ]
    with ended(scenes):
        share_and_read(scenes, hosts.start)


def test_a_paused_or_killed_member_loses_its_partitions_unless_it_is_static(
    one_broker: Cluster, hosts: Hosts, new_hosts: Callable[[], Hosts]
) -> None:
    elsewhere = new_hosts()
    scenes = {
        client: GroupScene(one_broker, client=client, strategy=strategy, session_ms=SHORT_MS)
        for client, strategy in CLIENTS.items()
    }
    static_scenes = {
        client: GroupScene(one_broker, client=client, strategy=CLIENTS[client])
        for client in HAVE_STATIC_MEMBERS
    }
    with ended([*scenes.values(), *static_scenes.values()]):
        dynamic = [
            Pair(scene, hosts.start(scene), elsewhere.start(scene)) for scene in scenes.values()
        ]
        static = [
            StaticGroup(
                Pair(scene, hosts.start(scene, instance="a"), elsewhere.start(scene, instance="b")),
                functools.partial(hosts.start, scene, instance="b"),
            )
            for scene in static_scenes.values()
        ]
        pause_and_kill(elsewhere.processes, dynamic, static)


def test_a_second_member_of_the_same_instance_fences_the_first(
    one_broker: Cluster, hosts: Hosts
) -> None:
    scenes = [GroupScene(one_broker, client=client) for client in HAVE_STATIC_MEMBERS]
    with ended(scenes):
        first = [hosts.start(scene, instance="a") for scene in scenes]
        for scene, one in zip(scenes, first, strict=True):
            scene.wait_until_shared([one])
        second = [hosts.start(scene, instance="a") for scene in scenes]
        for scene, one, other in zip(scenes, first, second, strict=True):
            scene.wait_until_shared([other])
            wait_until(lambda one=one: one.of_kind("failed"), f"{scene.client} to be fenced")
            assert re.search("(?i)fenced|same group.instance.id", one.of_kind("failed")[0]["text"])


def test_seven_clients_are_one_group_and_each_leads_it(one_broker: Cluster, hosts: Hosts) -> None:
    """A member that leaves takes the lead with it: the eldest of the others leads after it."""
    scene = GroupScene(one_broker, partitions=14, strategy="roundrobin", session_ms=LASTING_MS)
    with ended([scene]):
        members: list[Member] = []
        for client in [*PYTHON_CLIENTS, *CLIENTS]:
            members.append(
                hosts.start(scene, client)
                if client in CLIENTS
                else scene.group.start(client=client)
            )
            scene.wait_until_shared(members)
        scene.write(140)
        scene.wait_until_read()
        assert {len(each.assignment) for each in members} == {2}
        while len(members) > 1:
            members.pop(0).leave()
            scene.wait_until_shared(members)
        scene.write(14)
        scene.wait_until_read()
        assert set(scene.group.read.values()) == {1}
