"""kafka-transactions of Kafka 4.1 against a cluster of ours: `transactions` prints the same."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer

from tests.compat.kafka_jvm import NEWEST
from tests.compat.kafka_process import ToolShell
from tests.support.open_transactions import TIMEOUT_S, UNVERIFIED, begin, hang
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

KAFKA_TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
HOUR_MS = 3_600_000
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("open"), brokers=2, overrides=UNVERIFIED) as running:
        yield running


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolShell]:
    with ToolShell(tmp_path_factory.mktemp("tools"), version=NEWEST) as running:
        yield running


@pytest.fixture
def theirs(cluster: Cluster, shell: ToolShell) -> Tool:
    """What kafka-transactions writes on stdout; it must have succeeded."""

    def run(*words: str) -> str:
        ended = shell.outcome(KAFKA_TRANSACTIONS, "--bootstrap-server", cluster.bootstrap, *words)
        assert ended.status == 0, ended.output
        return ended.stdout

    return run


@pytest.fixture
def ours(cluster: Cluster) -> Tool:
    return lambda *words: cluster.command("transactions", *words).stdout


class Scene(NamedTuple):
    """A topic with a healthy transaction in partition 0, one that hangs in partition 1."""

    topic: str
    transactional_id: str
    producer: Producer
    hanging_from: int


@pytest.fixture
def scene(cluster: Cluster) -> Scene:
    topic = create_topic(cluster, partitions=2, replication_factor=2)
    name = unique_name("paying")
    producer = begin(cluster, name, topic, records=2)
    offset = hang(cluster, topic, 1, producer_id=4711, epoch=3, age_ms=HOUR_MS)
    return Scene(topic, name, producer, offset)


def rows(text: str) -> list[str]:
    """The heading, then the rows in an order that does not depend on hash codes."""
    heading, *lines = text.splitlines()
    return [heading, *sorted(lines)]


def test_lists_are_the_same(cluster: Cluster, scene: Scene, theirs: Tool, ours: Tool) -> None:
    for words in (
        ("list",),
        ("list", "--duration-filter", "1"),
        ("list", "--duration-filter", str(HOUR_MS)),
        ("list", "--transactional-id-pattern", f"{scene.transactional_id[:-1]}."),
        ("list", "--transactional-id-pattern", "none"),
    ):
        assert rows(theirs(*words)) == rows(ours(*words)), words
    assert f"{scene.transactional_id}\t" in theirs("list").replace(" ", "")


def test_descriptions_are_the_same(
    cluster: Cluster, scene: Scene, theirs: Tool, ours: Tool
) -> None:
    which = ("--transactional-id", scene.transactional_id)

    def without_duration(text: str) -> list[str]:
        heading, row = text.splitlines()
        cells = row.split("\t")
        assert re.fullmatch(r"\d+ *", cells[7])
        return [heading, *cells[:7], *cells[8:]]

    assert without_duration(theirs("describe", *which)) == without_duration(
        ours("describe", *which)
    )
    scene.producer.abort_transaction(TIMEOUT_S)
    ours("force-terminate", *which)
    assert theirs("describe", *which) == ours("describe", *which)


def test_producers_of_every_replica_are_the_same(
    cluster: Cluster, scene: Scene, theirs: Tool, ours: Tool
) -> None:
    for partition in "01":
        place = ("--topic", scene.topic, "--partition", partition)
        for which in (place, (*place, "--broker-id", "0"), (*place, "--broker-id", "1")):
            text = theirs("describe-producers", *which)
            assert text == ours("describe-producers", *which)
            assert len(text.splitlines()) == 2


def test_hanging_transactions_are_found_and_aborted_by_both_tools(
    cluster: Cluster, scene: Scene, theirs: Tool, ours: Tool
) -> None:
    place = ("--topic", scene.topic, "--partition", "1")
    for words in (
        ("--topic", scene.topic),
        place,
        ("--topic", scene.topic, "--partition", "0"),
        ("--broker-id", str(leader(cluster, scene.topic, 1))),
        (*place, "--max-transaction-timeout", "61"),
    ):
        assert rows(theirs("find-hanging", *words)) == rows(ours("find-hanging", *words)), words
    assert len(theirs("find-hanging", *place).splitlines()) == 2

    assert theirs("abort", *place, "--start-offset", str(scene.hanging_from)) == ""
    assert len(theirs("find-hanging", *place).splitlines()) == 1
    offset = hang(cluster, scene.topic, 1, producer_id=4712, age_ms=HOUR_MS)
    assert ours("abort", *place, "--start-offset", str(offset)) == ""
    assert len(theirs("find-hanging", *place).splitlines()) == 1
    hang(cluster, scene.topic, 1, producer_id=4713, age_ms=HOUR_MS)
    named = ("--producer-id", "4713", "--producer-epoch", "0", "--coordinator-epoch", "-1")
    assert theirs("abort", *place, *named) == ""
    assert len(ours("find-hanging", *place).splitlines()) == 1


def test_their_tool_terminates_a_transaction(cluster: Cluster, scene: Scene, theirs: Tool) -> None:
    name = scene.transactional_id
    assert theirs("forceTerminateTransaction", "--transactionalId", name) == ""
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        scene.producer.commit_transaction(TIMEOUT_S)
