"""Elections as Kafka's own tool, confluent-kafka and kafka-python ask for them, and our command."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, errors

from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import ToolShell
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name, wait_for_isr
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow]

LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
ALONE, EVERYWHERE = [1], [1, 2, 0]
SPREAD = [EVERYWHERE, [0, 1, 2]]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster in which leadership moves only where somebody asks for it."""
    fixed = {"auto.leader.rebalance.enable": "false"}
    with Cluster(tmp_path_factory.mktemp("elections"), overrides=fixed) as cluster:
        yield cluster


@pytest.fixture
def topic(own: Cluster) -> str:
    """A topic whose preferred replicas are in sync; that of partition 0 does not lead."""
    topic = create_topic(own, unique_name("elected"), assignments=SPREAD)
    own.restart(1)
    wait_for_isr(own, topic, 3)
    assert (leader(own, topic, 0), leader(own, topic, 1)) == (2, 0)
    return topic


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools"), version=NEWEST) as running:
        yield running


Elect = Callable[..., str]


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.beyond_pypi), "ours"])
def elect(request: pytest.FixtureRequest, own: Cluster) -> Elect:
    """Runs Kafka's tool, or our command, with the same options; what it prints."""

    def ours(*options: str, fails: bool = False) -> str:
        done = own.command("partitions", "elect-leaders", *options, check=not fails)
        assert (done.returncode == 1) is fails
        return done.stdout + done.stderr

    if request.param == "ours":
        return ours
    shell: ToolShell = request.getfixturevalue("shell")
    servers = ("--bootstrap-server", own.bootstrap)
    return lambda *options, fails=False: shell.run(LEADER_ELECTION, *servers, *options, fails=fails)


def test_a_partition_is_led_by_its_preferred_replica(
    own: Cluster, topic: str, elect: Elect
) -> None:
    one = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert elect(*one).splitlines()[-1] == (
        f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"
    )
    assert leader(own, topic, 0) == 1
    assert elect(*one).splitlines()[-1] == (
        f"Valid replica already elected for partitions {topic}-0"
    )


def test_partitions_of_a_file_are_led_by_their_preferred_replicas(
    own: Cluster, topic: str, elect: Elect, tmp_path: Path
) -> None:
    file = tmp_path / "partitions.json"
    rows = [{"topic": topic, "partition": number} for number in (0, 1)]
    file.write_text(json.dumps({"partitions": rows}))
    text = elect("--election-type", "preferred", "--path-to-json-file", str(file))
    assert text.splitlines()[-2:] == [
        f"Successfully completed leader election (PREFERRED) for partitions {topic}-0",
        f"Valid replica already elected for partitions {topic}-1",
    ]
    assert leader(own, topic, 0) == 1


def are_all_in_sync(cluster: Cluster) -> bool:
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    partitions = [each for topic in topics.values() for each in topic.partitions.values()]
    return bool(partitions) and all(len(p.isrs) == len(p.replicas) for p in partitions)


def test_every_partition_is_led_by_its_preferred_replica(
    own: Cluster, topic: str, elect: Elect
) -> None:
    everything = ("--election-type", "preferred", "--all-topic-partitions")
    wait_until(lambda: are_all_in_sync(own), "every replica, of internal topics too, to be in sync")
    text = elect(*everything)
    assert "Successfully completed leader election (PREFERRED) for partitions" in text
    assert f"{topic}-0" in text
    assert f"{topic}-1" not in text
    assert leader(own, topic, 0) == 1
    assert "leader election" not in elect(*everything)


def test_failed_elections_are_named_and_the_others_held(
    own: Cluster, topic: str, elect: Elect, tmp_path: Path
) -> None:
    single = create_topic(own, unique_name("single"), assignments=[ALONE])
    own.kill(1, stay_down=True)
    try:
        wait_until(lambda: leader(own, single) == -1, "the partition to be without leader")
        file = tmp_path / "partitions.json"
        rows = [{"topic": each, "partition": 0} for each in (single, topic, "missing")]
        file.write_text(json.dumps({"partitions": rows}))
        options = ("--path-to-json-file", str(file))
        text = elect("--election-type", "preferred", *options, fails=True)
        for name, reason in (
            (single, "The preferred leader was not available."),
            (topic, "The preferred leader was not available."),
            ("missing", "No such topic as missing"),
        ):
            failure = f"Error completing leader election (PREFERRED) for partition: {name}-0: "
            (line,) = (line for line in text.splitlines() if line.startswith(failure))
            assert line.endswith(reason)
        assert "3 replica(s) could not be elected" in text
        text = elect("--election-type", "unclean", *options, fails=True)
        assert f"Valid replica already elected for partitions {topic}-0" in text
        assert "Eligible topic partition leaders are not available." in text
    finally:
        own.restart(1)


def test_an_unclean_election_ends_the_wait_of_a_partition_without_leader(
    own: Cluster, elect: Elect
) -> None:
    topic = create_topic(own, unique_name("unclean"), assignments=[[1, 2]])
    own.kill(2, stay_down=True)
    wait_for_isr(own, topic, 1)
    own.kill(1, stay_down=True)
    own.restart(2)
    wait_until(lambda: leader(own, topic) == -1, "the partition to be without leader")

    text = elect("--election-type", "unclean", "--topic", topic, "--partition", "0")

    assert text.splitlines()[-1] == (
        f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0"
    )
    assert leader(own, topic) == 2
    own.restart(1)
    wait_for_isr(own, topic, 2)


def test_confluent_kafka_elects_leaders(own: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap})
    asked = [TopicPartition(topic, number) for number in (0, 1, 7)]

    found = admin.elect_leaders(ElectionType.PREFERRED, asked).result()

    codes = {each.partition: problem and _code(problem) for each, problem in found.items()}
    assert codes == {
        0: None,
        1: KafkaError.ELECTION_NOT_NEEDED,
        7: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    assert leader(own, topic, 0) == 1


def _code(problem: object) -> int:
    error = problem.args[0] if isinstance(problem, KafkaException) else problem
    assert isinstance(error, KafkaError)
    return error.code()


def test_kafka_python_elects_leaders(own: Cluster, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=own.bootstrap)
    try:
        admin.elect_leaders(0, {topic: [0, 1]})
        assert leader(own, topic, 0) == 1
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            admin.elect_leaders(0, {topic: [7]})
        wait_until(lambda: are_all_in_sync(own), "every replica to be in sync")
        admin.elect_leaders(0)
    finally:
        admin.close()
