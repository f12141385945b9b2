"""Groups of the newer consumer protocol (KIP-848): librdkafka, and the Java client of Kafka 4.1.

One cluster, whose coordinators are killed now and then, and one JVM for the whole module.
"""

import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from cluster.coordinator.shards.partitioner import partition_of
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.protocol.api import ApiKey
from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import compiled, java_command
from tests.compat.member_hosts import MemberHost
from tests.support.kafka_wire import WireClient, request
from tests.support.running_cluster import Cluster
from tests.support.running_members import Member, Place, RunningGroup, RunningMember, a_group
from tests.support.topics import create_topic, leader, unique_name, wait_for_isr
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

PARTITIONS = 6
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONFIGS_TOOL = "kafka.admin.ConfigCommand"
SESSION_MS = 6_000
QUICK = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.regex.refresh.interval.ms": "10000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, each in a rack of its own, whose members are missed soon."""
    with Cluster(tmp_path_factory.mktemp("newer"), overrides=QUICK, racks="a,b,c") as made:
        yield made


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberHost]:
    """Members by Kafka's own client, and its tools."""
    classes = compiled("GroupMembers", tmp_path_factory.mktemp("java"), NEWEST)
    with MemberHost([*java_command(classes, NEWEST), "GroupMembers"]) as host:
        yield host


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


def newer(group: RunningGroup, **options: str) -> RunningMember:
    """A member by librdkafka."""
    return group.start(protocol="consumer", strategy="uniform", **options)


def java(group: RunningGroup, jvm: MemberHost, **options: str) -> Member:
    """A member by Kafka's own client."""
    return group.start_in(jvm, client="java", protocol="consumer", strategy="uniform", **options)


def test_racks_of_members_are_stored_and_their_clients_assign_by_them(
    cluster: Cluster, jvm: MemberHost
) -> None:
    # RangeAssignor without racks would give each member two partitions in a row (KIP-881).
    one_replica_each = [[number % 3] for number in range(PARTITIONS)]
    topic = create_topic(cluster, unique_name("near"), assignments=one_replica_each)
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        members = [
            group.start_in(jvm, client="java", protocol="classic", strategy="range", rack=rack)
            for rack in "abc"
        ]
        group.wait_until_shared(members, places(topic))
        for number, member in enumerate(members):
            assert member.assignment == [(topic, number), (topic, number + 3)]
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        members = [java(group, jvm, rack=rack) for rack in "ab"]
        group.wait_until_shared(members, places(topic))
        number = partition_of(group.name, 50)
        coordinator = leader(cluster, CONSUMER_OFFSETS_TOPIC, number)
        asked = request(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            1,
            group_ids=[group.name],
            include_authorized_operations=False,
        )
        with WireClient(cluster.addresses[coordinator]) as client:
            (told,) = client.call(asked).groups
        assert sorted(each.rack_id for each in told.members) == ["a", "b"]


def test_members_of_both_clients_share_the_partitions_and_read_each_record_once(
    cluster: Cluster, jvm: MemberHost, topic: str
) -> None:
    writer = Writer(cluster, topic)
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        first = newer(group)
        group.wait_until_shared([first], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        second, third = java(group, jvm), java(group, jvm)
        group.wait_until_shared([first, second, third], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        first.leave()
        group.wait_until_shared([second, third], places(topic))
        second.leave()
        group.wait_until_shared([third], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        third.leave()

        last = newer(group)  # goes on after what was committed
        group.wait_until_shared([last], places(topic))
        writer.write(6)
        group.wait_until_read(writer.written)
        group.check_repeats()
        assert len(last.read) == 6


def test_a_member_that_is_killed_or_paused_loses_its_partitions(
    cluster: Cluster, jvm: MemberHost, topic: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        stays, paused, killed = newer(group), newer(group), newer(group)
        javas = java(group, jvm)
        group.wait_until_shared([stays, paused, killed, javas], places(topic))
        paused.signal(signal.SIGSTOP)
        jvm.signal(signal.SIGSTOP)
        killed.kill()
        group.wait_until_shared([stays], places(topic))
        paused.signal(signal.SIGCONT)
        jvm.signal(signal.SIGCONT)
        group.wait_until_shared([stays, paused, javas], places(topic))


def test_a_static_member_comes_back_without_a_rebalance(
    cluster: Cluster, jvm: MemberHost, topic: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        stays = newer(group, instance="a")
        goes, leaves = newer(group, instance="b"), java(group, jvm, instance="c")
        group.wait_until_shared([stays, goes, leaves], places(topic))
        had, javas, changes = goes.assignment, leaves.assignment, stays.assignments_count
        goes.leave()
        leaves.leave()
        again, java_again = newer(group, instance="b"), java(group, jvm, instance="c")
        wait_until(lambda: again.assignment == had, "the same partitions")
        jvm.wait_until(lambda: java_again.assignment == javas, "the same partitions of the JVM")
        assert stays.assignments_count == changes


def test_expressions_subscribe_to_topics_that_come_later(cluster: Cluster, jvm: MemberHost) -> None:
    prefix = unique_name("pattern")
    first = create_topic(cluster, f"{prefix}-a")
    create_topic(cluster, f"other-{prefix}-a")
    with (
        a_group(cluster.bootstrap, unique_name("group"), [f"^{prefix}-.*"]) as group,
        a_group(cluster.bootstrap, unique_name("group"), []) as java_group,
    ):
        members = [newer(group), java(java_group, jvm, expression=f"{prefix}-[a-z]+")]
        wait_until(lambda: all(each.assignment == [(first, 0)] for each in members), "a topic")
        second = create_topic(cluster, f"{prefix}-b")
        both = [(first, 0), (second, 0)]
        wait_until(lambda: all(each.assignment == both for each in members), "both topics")


def test_a_group_survives_its_coordinator(cluster: Cluster, jvm: MemberHost, topic: str) -> None:
    writer = Writer(cluster, topic)
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        members = [newer(group), java(group, jvm)]
        group.wait_until_shared(members, places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        number = partition_of(group.name, 50)
        cluster.kill(leader(cluster, CONSUMER_OFFSETS_TOPIC, number))
        joining = newer(group)  # in the middle of it
        writer.write(60)
        group.wait_until_shared([*members, joining], places(topic))
        writer.write(60)
        group.wait_until_read(writer.written)
        assert set(group.read) == writer.written
    wait_for_isr(cluster, CONSUMER_OFFSETS_TOPIC, 3, number)  # the next test needs all brokers


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_moves_to_the_newer_protocol_and_back_while_it_runs(
    cluster: Cluster, jvm: MemberHost, topic: str, strategy: str
) -> None:
    writer, admin = Writer(cluster, topic), AdminClient({"bootstrap.servers": cluster.bootstrap})
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:

        def goes_on_with(kind: str) -> None:
            group.wait_until_shared(members, places(topic))
            writer.write(12)
            group.wait_until_read(writer.written)
            listed = {
                each.group_id: each.type.name
                for each in admin.list_consumer_groups().result().valid
            }
            assert listed[group.name] == kind

        def classic(client: str) -> Member:
            if client == "java":
                return group.start_in(jvm, client="java", strategy=strategy)
            return group.start(strategy=strategy)

        clients = ["confluent", "java"]
        members: list[Member] = [classic(each) for each in clients]
        goes_on_with("CLASSIC")
        for place, client in enumerate(clients):
            members.pop(place).leave()
            # librdkafka's assignments have data of its own: with them no group can be upgraded.
            group.wait_until_shared(members, places(topic))
            members.insert(place, java(group, jvm) if client == "java" else newer(group))
            goes_on_with("CONSUMER")
        members.append(newer(group))
        goes_on_with("CONSUMER")
        members.pop().leave()
        for place, client in enumerate(clients):
            members[place].leave()
            members[place] = classic(client)
            goes_on_with("CONSUMER" if place == 0 else "CLASSIC")
        group.check_repeats()


def test_our_tool_shows_groups_as_kafkas_does(
    cluster: Cluster, jvm: MemberHost, topic: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        members = [newer(group), java(group, jvm, instance="i")]
        group.wait_until_shared(members, places(topic))
        Writer(cluster, topic).write(12)
        wait_until(lambda: len(group.read) == 12, "all records")
        which = ("--describe", "--group", group.name)

        def is_stable() -> bool:
            return "Stable" in ours(cluster, *which, "--state")

        wait_until(is_stable, "the group to be stable")
        for words in (
            ("--members", "--verbose"),
            ("--members",),
            ("--state", "--verbose"),
            ("--state",),
            ("--offsets",),
        ):
            shown = theirs(cluster, jvm, GROUPS_TOOL, *which, *words)
            assert cells(ours(cluster, *which, *words)) == cells(shown), words
        assert [group.name, "Stable"] in cells(ours(cluster, "--list", "--state"))
        assert [group.name, "Consumer", "Stable"] in cells(
            theirs(cluster, jvm, GROUPS_TOOL, "--list", "--type", "consumer", "--state", "stable")
        )


def test_configs_of_groups_are_those_of_kafkas_tool(cluster: Cluster, jvm: MemberHost) -> None:
    name = unique_name("configured")
    which = ("--entity-type", "groups", "--entity-name", name)
    setting = "consumer.heartbeat.interval.ms"
    theirs(cluster, jvm, CONFIGS_TOOL, "--alter", *which, "--add-config", f"{setting}=700")
    expected = theirs(cluster, jvm, CONFIGS_TOOL, "--describe", *which)
    assert f"{setting}=700" in expected
    shown = cluster.command("configs", "--describe", *which).stdout
    assert shown.split() == expected.split()
    everybody = cluster.command("configs", "--describe", "--entity-type", "groups").stdout
    assert f"Dynamic configs for group {name} are:\n  {setting}=700" in everybody
    refused = cluster.command(
        "configs", "--alter", *which, "--add-config", f"{setting}=1", check=False
    )
    assert (refused.returncode, "must be greater" in refused.stderr) == (1, True)
    cluster.command("configs", "--alter", "--group", name, "--delete-config", setting)
    assert f"{setting}=" not in theirs(cluster, jvm, CONFIGS_TOOL, "--describe", *which)


def theirs(cluster: Cluster, jvm: MemberHost, tool: str, *words: str) -> str:
    return jvm.tool(tool, "--bootstrap-server", cluster.bootstrap, *words)


def ours(cluster: Cluster, *words: str) -> str:
    return cluster.command("groups", *words).stdout


def cells(text: str) -> list[list[str]]:
    """The lines of a table, the first one first and the others in order."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return [*lines[:1], *sorted(lines[1:])]
