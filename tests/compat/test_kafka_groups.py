"""Kafka's group tools and consumers against us, and Kafka's broker on our `__consumer_offsets`."""

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from tests.compat.confluent_records import produce
from tests.compat.kafka_process import (
    KafkaProcess,
    ToolShell,
    require_kafka,
    run_tool,
)
from tests.compat.samples import PARTITIONS, Sample, by_partition
from tests.support.running_cluster import Cluster
from tests.support.running_members import a_group
from tests.support.topics import create_topic, describe, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

NewCluster = Callable[..., Cluster]

SAMPLES = [Sample(number % PARTITIONS, None, b"v%d" % number) for number in range(31)]
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"


@pytest.fixture(autouse=True)
def _jars() -> None:
    require_kafka()


GroupsTool = Callable[..., str]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools")) as running:
        yield running


@pytest.fixture
def groups_tool(cluster: Cluster, shell: ToolShell) -> GroupsTool:
    """Runs kafka-consumer-groups; returns what it writes."""
    always = ("--bootstrap-server", cluster.bootstrap, "--timeout", "60000")  # a busy machine's
    return functools.partial(shell.run, GROUPS_TOOL, *always)


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


def test_groups_are_listed_and_described(
    cluster: Cluster, groups_tool: GroupsTool, topic: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        member = group.start()
        wait_until(lambda: len(member.read) == len(SAMPLES), "all records")
        assert group.name in groups_tool("--list").splitlines()
        listed = {"GROUP": group.name, "TYPE": "Classic", "STATE": "Stable"}
        assert listed in rows(groups_tool("--list", "--state", "--type"))
        assert listed["GROUP"] in groups_tool("--list", "--state", "stable", "--type", "classic")
        assert listed["GROUP"] not in groups_tool("--list", "--state", "Empty")

        who = ("--describe", "--group", group.name)
        ends = {str(number): str(len(each)) for number, each in by_partition(SAMPLES).items()}

        def described() -> list[dict[str, str]] | None:
            found = rows(groups_tool(*who))
            is_current = {row["PARTITION"]: row["CURRENT-OFFSET"] for row in found} == ends
            return found if is_current else None

        lines = wait_until(described, "the last commit")
        assert {row["LAG"] for row in lines} == {"0"}
        assert {row["CLIENT-ID"] for row in lines} == {"confluent"}
        assert {row["HOST"] for row in lines} == {"/127.0.0.1"}
        assert lines == rows(groups_tool(*who, "--offsets", "--verbose"))
        (line,) = rows(groups_tool(*who, "--members", "--verbose"))
        assert (line["#PARTITIONS"], line["ASSIGNMENT"]) == (str(PARTITIONS), "(0,1,2)")
        (line,) = rows(groups_tool(*who, "--state"))
        assert (line["ASSIGNMENT-STRATEGY"], line["STATE"], line["#MEMBERS"]) == (
            "range",
            "Stable",
            "1",
        )
        member.leave()
        assert "has no active members" in groups_tool(*who)
    assert "does not exist" in groups_tool("--describe", "--group", "nobody")


def test_a_group_with_members_is_neither_deleted_nor_reset(
    cluster: Cluster, groups_tool: GroupsTool, topic: str
) -> None:
    with a_group(cluster.bootstrap, unique_name("group"), [topic]) as group:
        member = group.start()
        group.wait_until_shared([member], [(topic, number) for number in range(PARTITIONS)])
        who = ("--group", group.name)
        assert "GroupNotEmptyException" in groups_tool("--delete", *who)
        of_topic = (*who, "--topic", topic)
        reset = groups_tool("--reset-offsets", *of_topic, "--to-earliest", "--execute")
        assert "inactive, but the current state is Stable" in reset
        refused = groups_tool("--delete-offsets", *of_topic)
        assert refused.count("GroupSubscribedToTopicException") == PARTITIONS
        member.leave()
        assert "was successful" in groups_tool("--delete", *who)
        assert "GroupIdNotFoundException" in groups_tool("--delete", *who)
        assert group.name not in groups_tool("--list").splitlines()


def test_offsets_are_reset_to_every_target(
    cluster: Cluster, groups_tool: GroupsTool, topic: str, tmp_path: Path
) -> None:
    group = unique_name("group")
    ends = [len(each) for each in by_partition(SAMPLES).values()]

    def reset(*words: str) -> dict[int, int]:
        """The new offsets that it prints, by partition; it leaves out the ends of lines."""
        text = groups_tool("--reset-offsets", "--group", group, *words)
        found = re.findall(rf"{group} +{topic} +(\d+) +(\d+)", text)
        return {int(number): int(offset) for number, offset in found}

    def check(expected: list[int], *words: str) -> None:
        assert reset("--topic", topic, *words, "--execute") == dict(enumerate(expected))
        assert committed(cluster.bootstrap, group, topic) == expected

    check(ends, "--to-latest")
    check([0, 0, 0], "--to-earliest")
    check([5, 5, 5], "--to-offset", "5")
    check([7, 7, 7], "--shift-by", "2")
    check([0, 0, 0], "--shift-by", "-100")
    check(ends, "--by-duration", "PT0S")
    check(ends, "--to-current")
    check([0, 0, 0], "--to-datetime", "2020-01-01T00:00:00.000")
    assert reset("--topic", f"{topic}:1", "--to-offset", "4", "--execute") == {1: 4}
    assert reset("--all-topics", "--to-latest", "--dry-run") == dict(enumerate(ends))
    assert committed(cluster.bootstrap, group, topic) == [0, 4, 0]
    plan = tmp_path / "plan.csv"
    exported = ("--all-topics", "--to-current", "--export", "--dry-run")
    lines = groups_tool("--reset-offsets", "--group", group, *exported).split()
    # in the order of a hash table
    assert sorted(lines) == [f"{topic},0,0", f"{topic},1,4", f"{topic},2,0"]
    plan.write_text(f"{topic},0,1\n{topic},2,3\n")
    assert reset("--from-file", str(plan), "--execute") == {0: 1, 2: 3}
    assert committed(cluster.bootstrap, group, topic) == [1, 4, 3]


def test_offsets_are_deleted(cluster: Cluster, groups_tool: GroupsTool, topic: str) -> None:
    group = unique_name("group")
    who = ("--group", group, "--topic", topic)
    groups_tool("--reset-offsets", *who, "--to-offset", "5", "--execute")
    delete = ("--delete-offsets", "--group")
    assert "Successful" in groups_tool(*delete, group, "--topic", f"{topic}:0")
    assert committed(cluster.bootstrap, group, topic) == [-1001, 5, 5]
    unknown = groups_tool(*delete, group, "--topic", "nowhere")
    assert "UnknownTopicOrPartitionException" in unknown
    assert "GroupIdNotFoundException" in groups_tool(*delete, "nobody", "--topic", topic)
    assert groups_tool(*delete, group, "--topic", topic).count("Successful") == PARTITIONS
    assert committed(cluster.bootstrap, group, topic) == [-1001] * PARTITIONS
    assert group not in groups_tool("--list").splitlines()  # the last offset took it along


def test_kafkas_consumers_read_in_groups(cluster: Cluster, shell: ToolShell, topic: str) -> None:
    group = unique_name("group")
    run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", group),
        *("--from-beginning", "--max-messages", str(len(SAMPLES))),
    )
    assert sum(committed(cluster.bootstrap, group, topic)) == len(SAMPLES)
    told = shell.run(
        CONSUMER_PERFORMANCE,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--group", f"{group}-fast"),
        *("--messages", str(len(SAMPLES)), "--hide-header"),
    )
    assert told.split(", ")[4] == str(len(SAMPLES))
    assert sum(committed(cluster.bootstrap, f"{group}-fast", topic)) == len(SAMPLES)


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
