"""Kafka's group tools and consumers against us, and Kafka's broker on our `__consumer_offsets`."""

import re
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from tests.compat.confluent_records import produce
from tests.compat.kafka_process import KafkaProcess, require_kafka, run_tool
from tests.compat.samples import PARTITIONS, Sample, by_partition
from tests.support.running_cluster import Cluster
from tests.support.running_members import a_group
from tests.support.topics import create_topic, describe, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

NewCluster = Callable[..., Cluster]

SAMPLES = [Sample(number % PARTITIONS, None, b"v%d" % number) for number in range(31)]
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"


@pytest.fixture(autouse=True)
def _jars() -> None:
    require_kafka()


def groups_tool(cluster: Cluster, *arguments: str) -> str:
    """What the tool writes to stdout."""
    return run_tool(GROUPS_TOOL, "--bootstrap-server", cluster.bootstrap, *arguments)


def rows(text: str) -> list[dict[str, str]]:
    """A table with a row of names, as the tool prints it; names have no spaces but `(ID)`."""
    lines = [line for line in text.replace("COORDINATOR (ID)", "COORDINATOR").splitlines() if line]
    names = lines[0].split()
    return [
        dict(zip(names, re.sub(r"  \(\d+\)", "", line).split(), strict=False)) for line in lines[1:]
    ]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = create_topic(cluster, unique_name("grouped"), partitions=PARTITIONS)
    produce(cluster.bootstrap, name, SAMPLES)
    return name


def test_groups_are_listed_and_described(cluster: Cluster, topic: str) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        member = group.start()
        wait_until(lambda: len(member.read) == len(SAMPLES), "all records")
        assert group.name in groups_tool(cluster, "--list").splitlines()
        stable = [row for row in rows(groups_tool(cluster, "--list", "--state")) if row]
        assert {"GROUP": group.name, "STATE": "Stable"} in stable

        who = ("--describe", "--group", group.name)
        ends = {str(number): str(len(each)) for number, each in by_partition(SAMPLES).items()}

        def described() -> list[dict[str, str]] | None:
            found = rows(groups_tool(cluster, *who))
            is_current = {row["PARTITION"]: row["CURRENT-OFFSET"] for row in found} == ends
            return found if is_current else None

        lines = wait_until(described, "the last commit")
        assert {row["LAG"] for row in lines} == {"0"}
        assert {row["CLIENT-ID"] for row in lines} == {"confluent"}
        assert {row["HOST"] for row in lines} == {"/127.0.0.1"}
        (line,) = rows(groups_tool(cluster, *who, "--members", "--verbose"))
        assert line["#PARTITIONS"] == str(PARTITIONS)
        (line,) = rows(groups_tool(cluster, *who, "--state"))
        assert (line["ASSIGNMENT-STRATEGY"], line["STATE"], line["#MEMBERS"]) == (
            "range",
            "Stable",
            "1",
        )
        refused = groups_tool(cluster, "--delete", "--group", group.name)
        assert "NonEmptyGroup" in refused or "not empty" in refused
        member.leave()


def test_offsets_are_reset_and_deleted(cluster: Cluster, topic: str) -> None:
    group = unique_name("group")
    who = ("--group", group, "--topic", topic)
    text = groups_tool(cluster, "--reset-offsets", *who, "--to-latest", "--execute")
    # The tool leaves out the ends of lines.
    reset = re.findall(rf"{group} +{topic} +(\d+) +(\d+)", text)
    assert sorted(reset) == [
        (str(number), str(len(each))) for number, each in by_partition(SAMPLES).items()
    ]
    assert committed(cluster.bootstrap, group, topic) == [
        len(each) for each in by_partition(SAMPLES).values()
    ]
    groups_tool(cluster, "--reset-offsets", *who, "--to-earliest", "--execute")
    assert committed(cluster.bootstrap, group, topic) == [0, 0, 0]
    deleted = groups_tool(cluster, "--delete-offsets", *who)
    assert "Successful" in deleted
    assert committed(cluster.bootstrap, group, topic) == [-1001] * PARTITIONS


def test_kafkas_consumers_read_in_groups(cluster: Cluster, topic: str) -> None:
    group = unique_name("group")
    run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group),
        *("--from-beginning", "--max-messages", str(len(SAMPLES))),
    )
    assert sum(committed(cluster.bootstrap, group, topic)) == len(SAMPLES)
    told = run_tool(
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic),
        *("--messages", str(len(SAMPLES)), "--hide-header"),
    )
    assert told.split(", ")[4] == str(len(SAMPLES))


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    """A group's committed offsets, -1001 where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def found() -> list[int] | None:
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        try:
            return [each.offset for each in consumer.committed(asked, timeout=60)]
        except KafkaException:  # a broker that has just started leads before it coordinates
            return None

    try:
        return wait_until(found, f"the offsets of {group}")
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit an offset for partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        place = TopicPartition(topic, 0, offset, "note")
        consumer.commit(offsets=[place], asynchronous=False)
    finally:
        consumer.close()


def test_kafka_and_milena_load_each_others_offsets(new_cluster: NewCluster) -> None:
    """One log directory, one registry: our broker, then Kafka's with the same id, ours again."""
    cluster = new_cluster(brokers=1).start()
    address = cluster.addresses[0]
    topic = create_topic(cluster, "orders", partitions=PARTITIONS, replication_factor=1)
    groups = [f"group-{number}" for number in range(20)]
    for number, group in enumerate(groups):
        commit(cluster.bootstrap, group, topic, number)
    with a_group(cluster.bootstrap, "stable", [topic]) as running:
        member = running.start()
        produce(cluster.bootstrap, topic, SAMPLES)
        wait_until(lambda: len(member.read) == len(SAMPLES), "all records")
        member.leave()
    ends = [len(each) for each in by_partition(SAMPLES).values()]
    assert committed(cluster.bootstrap, "stable", topic) == ends
    cluster.kill(0, "TERM", stay_down=True)
    wait_until(lambda: cluster.pid(0) is None, "our broker's end")

    with KafkaProcess(
        cluster.log_dir(0),
        broker_id=0,
        address=address,
        registry=cluster.state()["registry"],
        overrides={"zookeeper.session.timeout.ms": "6000"},
    ) as kafka:
        wait_until(lambda: leads_all(address), "Kafka to lead", 60)
        for number, group in enumerate(groups):
            assert committed(kafka.bootstrap, group, topic)[0] == number
        assert committed(kafka.bootstrap, "stable", topic) == ends
        for number, group in enumerate(groups[:10]):
            commit(kafka.bootstrap, group, topic, 100 + number)
        kafka.stop()
        assert " ERROR " not in kafka.log()

    cluster.restart(0)
    wait_until(lambda: leads_all(address), "our broker to lead")
    for number, group in enumerate(groups):
        expected = 100 + number if number < 10 else number
        assert committed(cluster.bootstrap, group, topic)[0] == expected
    assert committed(cluster.bootstrap, "stable", topic) == ends
    assert cluster.log_lines(0, "WARNING") == []


def leads_all(address: tuple[str, int]) -> bool:
    """Whether the one broker leads every partition of the offsets topic."""
    view = describe(address, CONSUMER_OFFSETS_TOPIC)
    return view is not None and all(
        partition.leader_id == 0 for partition in view.topics[0].partitions
    )
