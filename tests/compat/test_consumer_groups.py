"""Consumer groups of confluent-kafka (librdkafka), kafka-python and aiokafka, also mixed."""

import signal
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.running_cluster import Cluster
from tests.support.running_members import Place, a_group
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

PARTITIONS = 6
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


def places(topic: str) -> list[Place]:
    return [(topic, number) for number in range(PARTITIONS)]


class Writer:
    """Writes numbered records to each partition in turn."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1})
        self._topic = topic
        self.written: set[tuple[str, int, int]] = set()

    def write(self, count: int) -> None:
        for number in range(count):
            self._producer.produce(
                self._topic,
                str(number).encode(),
                partition=number % PARTITIONS,
                on_delivery=lambda error, message: (
                    self.written.add((message.topic(), message.partition(), message.offset()))
                    if error is None
                    else None
                ),
            )
        assert self._producer.flush(60) == 0


@pytest.mark.parametrize(("client", "strategy"), STRATEGIES)
def test_members_share_the_partitions_and_read_each_record_once(
    cluster: Cluster, topic: str, client: str, strategy: str
) -> None:
    writer = Writer(cluster, topic)
    with a_group(
        cluster.bootstrap, unique_name("group"), [topic], client=client, strategy=strategy
    ) as group:
        first = group.start()
        group.wait_until_shared([first], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        second, third = group.start(), group.start()
        group.wait_until_shared([first, second, third], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        second.leave()
        group.wait_until_shared([first, third], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        first.leave()
        third.leave()

        last = group.start()  # goes on after what was committed
        group.wait_until_shared([last], places(topic))
        writer.write(6)
        group.wait_until_read(writer.written)
        assert set(group.read.values()) == {1}
        assert len(last.read) == 6


def test_three_clients_are_one_group(cluster: Cluster, topic: str) -> None:
    writer = Writer(cluster, topic)
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        members = [group.start(client=client) for client in CLIENTS]
        group.wait_until_shared(members, places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        assert set(group.read.values()) == {1}
        members[0].leave()
        group.wait_until_shared(members[1:], places(topic))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_that_is_killed_or_paused_loses_its_partitions(
    cluster: Cluster, topic: str, client: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic], client=client) as group:
        stays, paused, killed = (group.start() for _ in range(3))
        group.wait_until_shared([stays, paused, killed], places(topic))
        paused.signal(signal.SIGSTOP)
        killed.kill()
        group.wait_until_shared([stays], places(topic))
        paused.signal(signal.SIGCONT)
        group.wait_until_shared([stays, paused], places(topic))


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_a_static_member_comes_back_without_a_rebalance(
    cluster: Cluster, topic: str, client: str
) -> None:
    with a_group(
        cluster.bootstrap, unique_name("group"), [topic], client=client, session_ms=30_000
    ) as group:
        stays, goes = group.start(instance="a"), group.start(instance="b")
        group.wait_until_shared([stays, goes], places(topic))
        had, changes = goes.assignment, stays.assignments_count
        goes.kill()
        again = group.start(instance="b")
        wait_until(lambda: again.assignment == had, "the same partitions")
        assert stays.assignments_count == changes


def test_a_second_member_of_the_same_instance_fences_the_first(
    cluster: Cluster, topic: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        first = group.start(instance="a")
        group.wait_until_shared([first], places(topic))
        second = group.start(instance="a")
        group.wait_until_shared([second], places(topic))
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


NewCluster = Callable[..., Cluster]


def test_group_coordination_works_with_one_broker(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1).start()
    topic = create_topic(cluster, partitions=PARTITIONS, replication_factor=1)
    writer = Writer(cluster, topic)
    with a_group(cluster.bootstrap, "group", [topic]) as group:
        member = group.start()
        group.wait_until_shared([member], places(topic))
        writer.write(12)
        group.wait_until_read(writer.written)
        member.leave()
