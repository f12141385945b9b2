"""Consumer groups of confluent-kafka (librdkafka), kafka-python and aiokafka.

Those of other languages, and of all mixed, are in `test_group_members.py`.
"""

import functools

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.compat.group_scenes import (
    PARTITIONS,
    GroupScene,
    Pair,
    StaticGroup,
    ended,
    pause_and_kill,
    share_and_read,
)
from tests.support.running_cluster import Cluster
from tests.support.running_members import RunningMember, a_group
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

STRATEGIES = [
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "sticky"),
    ("aiokafka", "range"),
    ("aiokafka", "roundrobin"),
    ("aiokafka", "sticky"),
]
CLIENTS = ["confluent", "kafka-python", "aiokafka"]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return create_topic(cluster, unique_name("grouped"), partitions=PARTITIONS)


def test_members_share_the_partitions_and_read_each_record_once(cluster: Cluster) -> None:
    scenes = [
        GroupScene(cluster, client=client, strategy=strategy) for client, strategy in STRATEGIES
    ]
    with ended(scenes):
        share_and_read(scenes, lambda scene: scene.group.start())


def test_a_paused_or_killed_member_loses_its_partitions_unless_it_is_static(
    cluster: Cluster,
) -> None:
    scenes = [GroupScene(cluster, client=client, session_ms=6_000) for client in CLIENTS]
    static_scenes = [GroupScene(cluster, client=client) for client in CLIENTS]
    with ended([*scenes, *static_scenes]):
        processes: list[RunningMember] = []
        dynamic, static = [], []
        for scene in scenes:
            stays, goes = scene.group.start(), scene.group.start()
            dynamic.append(Pair(scene, stays, goes))
            processes.append(goes)
        for scene in static_scenes:
            stays, goes = scene.group.start(instance="a"), scene.group.start(instance="b")
            again = functools.partial(scene.group.start, instance="b")
            static.append(StaticGroup(Pair(scene, stays, goes), again))
            processes.append(goes)
        pause_and_kill(processes, dynamic, static)


def test_a_second_member_of_the_same_instance_fences_the_first(
    cluster: Cluster, topic: str
) -> None:
    places = [(topic, number) for number in range(PARTITIONS)]
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        first = group.start(instance="a")
        group.wait_until_shared([first], places)
        second = group.start(instance="a")
        group.wait_until_shared([second], places)
        # A fatal error of librdkafka, which it writes to stderr.
        wait_until(lambda: "consumer fenced" in first.complaint(), "the first to be fenced")


def test_a_pattern_subscribes_to_topics_that_come_later(cluster: Cluster) -> None:
    prefix = unique_name("pattern")
    first = create_topic(cluster, f"{prefix}-a")
    with a_group(cluster.bootstrap, unique_name("group"), [f"^{prefix}-.*"]) as group:
        member = group.start()
        wait_until(lambda: member.assignment == [(first, 0)], "the first topic")
        second = create_topic(cluster, f"{prefix}-b")
        wait_until(lambda: member.assignment == [(first, 0), (second, 0)], "both topics")


def test_offsets_are_committed_without_membership(cluster: Cluster, topic: str) -> None:
    group = unique_name("group")

    def consumer() -> Consumer:
        return Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})

    writing, reading = consumer(), consumer()
    try:
        committed = writing.commit(
            offsets=[TopicPartition(topic, 0, 42, "note"), TopicPartition(topic, 5, 7)],
            asynchronous=False,
        )
        assert [each.error for each in committed] == [None, None]
        asked = [TopicPartition(topic, number) for number in (0, 1, 5)]
        found = reading.committed(asked, timeout=60)
        assert [each.offset for each in found] == [42, -1001, 7]
        assert found[0].metadata == "note"
    finally:
        writing.close()
        reading.close()
