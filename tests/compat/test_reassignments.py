"""Reassignments of clients in Java, Python and Go, and of tools of Kafka's ZooKeeper mode."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaAdminClient, TopicPartition, errors
from kazoo.client import KazooClient

from tests.compat.client_programs import (
    ClientProgram,
    ProgramFailed,
    RunningProgram,
    go_programs,
)
from tests.compat.kafka_jvm import NEWEST, VERSION
from tests.compat.kafka_process import run_program, run_tool
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, describe, leader, partition_state, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

LAST_ZOOKEEPER_TOOLS = "2.7.2"
LIBRARIES = ("franz-go", "sarama")
FIRST, OTHER, DEAD, UNKNOWN = 0, 1, 2, 99
STAYS_ONGOING = [DEAD, OTHER]
"""A target that is not reached as long as the dead broker is dead."""


class Stage(NamedTuple):
    cluster: Cluster
    topic: str
    """Each partition is for one test. Its replicas are on the first and on the dead broker."""

    def replicas(self, partition: int) -> list[int]:
        state = partition_state(self.cluster, self.topic, partition, FIRST)
        return list(state.replica_nodes)

    def kafka_python(self) -> KafkaAdminClient:
        """A client that knows the live brokers only: it does not close what it cannot connect."""
        live = [self.cluster.addresses[each] for each in (FIRST, OTHER)]
        return KafkaAdminClient(bootstrap_servers=["{}:{}".format(*each) for each in live])


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    fixed = {"auto.leader.rebalance.enable": "false"}
    with Cluster(tmp_path_factory.mktemp("reassignments"), overrides=fixed) as cluster:
        topic = create_topic(cluster, unique_name("moved"), assignments=[[FIRST, DEAD]] * 5)
        for library in LIBRARIES:
            create_topic(cluster, f"{topic}-{library}", assignments=[[FIRST, DEAD]])
        cluster.kill(DEAD, stay_down=True)

        def is_noticed() -> bool:
            view = describe(cluster.addresses[FIRST])
            return view is not None and len(view.brokers) == 2

        wait_until(is_noticed, "the end of a broker")
        yield Stage(cluster, topic)


@pytest.mark.beyond_pypi
@pytest.mark.parametrize(("version", "partition"), [(NEWEST, 0), (VERSION, 1)])
def test_javas_client_reassigns_partitions(stage: Stage, version: str, partition: int) -> None:
    printed = run_program(
        "Reassignments",
        stage.cluster.bootstrap,
        stage.topic,
        str(partition),
        ",".join(map(str, STAYS_ONGOING)),
        version=version,
    )
    ongoing = (
        f"{stage.topic}-{partition} [{DEAD}, {OTHER}, {FIRST}] adding [{OTHER}] removing [{FIRST}]"
    )
    assert printed.splitlines() == [
        "InvalidReplicaAssignmentException: The manual partition assignment includes broker 99,"
        " but no such broker is registered.",
        "UnknownTopicOrPartitionException: Unable to find a topic named missing.",
        "accepted",
        f"all: {ongoing}",
        f"some: {ongoing}",
        "others: ",
        "accepted",
        "NoReassignmentInProgressException: No partition reassignment is in progress.",
        "all: ",
    ]
    assert sorted(stage.replicas(partition)) == [FIRST, DEAD]


def test_kafka_python_reassigns_partitions(stage: Stage) -> None:
    admin = stage.kafka_python()
    moved, missing = TopicPartition(stage.topic, 2), TopicPartition("missing", 0)
    try:
        told = admin.alter_partition_reassignments({moved: STAYS_ONGOING, missing: [FIRST]})
        assert told == {moved: None, missing: errors.UnknownTopicOrPartitionError}
        ongoing = {
            "replicas": [DEAD, OTHER, FIRST],
            "adding_replicas": [OTHER],
            "removing_replicas": [FIRST],
        }
        assert admin.list_partition_reassignments() == {moved: ongoing}
        assert admin.list_partition_reassignments([moved, missing]) == {moved: ongoing}
        assert admin.alter_partition_reassignments({moved: None}) == {moved: None}
        told = admin.alter_partition_reassignments({moved: None})
        assert told == {moved: errors.NoReassignmentInProgressError}

        assert admin.alter_partition_reassignments({moved: [OTHER, FIRST]}) == {moved: None}
        wait_until(lambda: not admin.list_partition_reassignments(), "the end of a reassignment")
        assert stage.replicas(2) == [OTHER, FIRST]
    finally:
        admin.close()


@pytest.mark.beyond_pypi
def test_topics_that_are_being_moved_are_described_as_by_kafkas_tool(stage: Stage) -> None:
    admin = stage.kafka_python()
    moved = TopicPartition(stage.topic, 4)
    try:
        assert admin.alter_partition_reassignments({moved: STAYS_ONGOING}) == {moved: None}
        describe_it = ("--describe", "--topic", stage.topic)
        kafkas = run_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", stage.cluster.bootstrap, *describe_it),
            version=NEWEST,
        )
        ours = stage.cluster.command("topics", *describe_it).stdout
        assert ours.splitlines() == [each for each in kafkas.splitlines() if "Topic: " in each]
        assert f"Adding Replicas: {OTHER}\tRemoving Replicas: {FIRST}" in ours
        assert admin.alter_partition_reassignments({moved: None}) == {moved: None}
    finally:
        admin.close()


@pytest.mark.beyond_pypi
def test_go_libraries_reassign_partitions(stage: Stage) -> None:
    with closing(RunningProgram([go_programs() / "go_clients"])) as process:
        for library in LIBRARIES:
            client = ClientProgram(process, stage.cluster.bootstrap, library=library)
            topic = {"topic": f"{stage.topic}-{library}"}
            client.ask("reassign", **topic, moved_to=STAYS_ONGOING)
            assert client.ask("reassignments", **topic) == {
                "0": {"replicas": [DEAD, OTHER, FIRST], "adding": [OTHER], "removing": [FIRST]}
            }
            with pytest.raises(
                ProgramFailed,
                match=r"(?i)invalid.?replica.?assignment|replica assignment is invalid",
            ):
                client.ask("reassign", **topic, moved_to=[UNKNOWN])
            client.ask("reassign", **topic)
            with pytest.raises(ProgramFailed, match=r"(?i)no.*reassignment.*in.?progress"):
                client.ask("reassign", **topic)
            assert client.ask("reassignments", **topic) == {}


@pytest.mark.beyond_pypi
def test_tools_of_zookeeper_mode_ask_by_nodes(stage: Stage, tmp_path: Path) -> None:
    registry = stage.cluster.state()["registry"]

    def zookeeper_tool(name: str, *options: str) -> str:
        return run_tool(name, "--zookeeper", registry, *options, version=LAST_ZOOKEEPER_TOOLS)

    def written(name: str, *partitions: dict[str, Any]) -> str:
        file = tmp_path / name
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(file)

    moved = {"topic": stage.topic, "partition": 3}
    target = written("target.json", {**moved, "replicas": [OTHER, FIRST]})
    options = ("--reassignment-json-file", target)
    reassign = "kafka.admin.ReassignPartitionsCommand"
    assert "Successfully started" in zookeeper_tool(reassign, *options, "--execute")
    wait_until(lambda: stage.replicas(3) == [OTHER, FIRST], "the reassignment")
    assert f"Reassignment of partition {stage.topic}-3 is complete." in zookeeper_tool(
        reassign, *options, "--verify"
    )

    elect = "kafka.admin.PreferredReplicaLeaderElectionCommand"
    zookeeper_tool(elect, "--path-to-json-file", written("elected.json", moved))
    wait_until(lambda: leader(stage.cluster, stage.topic, 3) == OTHER, "the preferred leader")

    doomed = create_topic(stage.cluster, unique_name("doomed"), assignments=[[OTHER]])
    zookeeper_tool("kafka.admin.TopicCommand", "--delete", "--topic", doomed)
    wait_until(lambda: partition_state(stage.cluster, doomed, 0, OTHER) is None, "the deletion")
    client = KazooClient(registry)
    client.start()
    try:
        wait_until(
            lambda: (
                client.get_children("/admin") == ["delete_topics"]
                and client.get_children("/admin/delete_topics") == []
            ),
            "no node that asks for something",
        )
    finally:
        client.stop()
        client.close()
