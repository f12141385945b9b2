"""`transactions` against a real cluster: what is listed, described, found to hang and ended."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.open_transactions import TIMEOUT_S, UNVERIFIED, begin, go_on, hang
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One in which a producer can begin a transaction without its coordinator."""
    with Cluster(tmp_path_factory.mktemp("open"), brokers=2, overrides=UNVERIFIED) as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return create_topic(cluster, replication_factor=2)


def told(cluster: Cluster, *words: str) -> Any:
    return json.loads(cluster.command("transactions", *words, "--json").stdout)


def refused(cluster: Cluster, *words: str) -> str:
    done = cluster.command("transactions", *words, check=False)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def read_committed(cluster: Cluster, topic: str) -> list[bytes]:
    """The values that a consumer gets before the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none: partitions are assigned",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(TIMEOUT_S)) is not None and not message.error():
        values.append(message.value())
    consumer.close()
    return values


def test_a_transaction_is_shown_from_its_beginning_to_its_end(cluster: Cluster, topic: str) -> None:
    name = unique_name("paying")
    producer = begin(cluster, name, topic, records=3)

    (listed,) = told(cluster, "list", "--transactional-id-pattern", f"{name}|other")
    described = told(cluster, "describe", "--transactional-id", name)
    place = ("--topic", topic, "--partition", "0")
    (of_partition,) = told(cluster, "describe-producers", *place)

    assert listed == {
        "transactional_id": name,
        "coordinator": described["coordinator"],
        "producer_id": described["producer_id"],
        "state": "Ongoing",
    }
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert described["timeout_ms"] == 600_000
    assert 0 <= described["duration_ms"] < HOUR_MS
    assert of_partition["producer_id"] == described["producer_id"]
    assert of_partition["last_sequence"] == 2
    assert of_partition["transaction_start_offset"] == 0
    follower = str(1 - leader(cluster, topic))
    wait_until(
        lambda: (
            told(cluster, "describe-producers", *place, "--broker-id", follower) == [of_partition]
        ),
        "the follower to have the batch",
    )
    assert listed not in told(cluster, "list", "--duration-filter", str(HOUR_MS))

    producer.commit_transaction(TIMEOUT_S)
    wait_until(
        lambda: told(cluster, "describe", "--transactional-id", name)["state"] == "CompleteCommit",
        "the markers",
    )
    assert told(cluster, "describe-producers", *place)[0]["transaction_start_offset"] is None


def test_a_hanging_transaction_is_found_and_aborted(cluster: Cluster, topic: str) -> None:
    offset = hang(cluster, topic, producer_id=4711, epoch=3, age_ms=HOUR_MS, records=2)
    producer = begin(cluster, unique_name("paying"), topic)
    producer.commit_transaction(TIMEOUT_S)
    assert read_committed(cluster, topic) == []

    (hanging,) = told(cluster, "find-hanging", "--topic", topic)
    of_broker = told(cluster, "find-hanging", "--broker-id", str(leader(cluster, topic)))

    assert [each["start_offset"] for each in of_broker if each["topic"] == topic] == [offset]
    assert hanging["start_offset"] == offset
    assert hanging["producer_id"] == 4711
    assert hanging["duration_ms"] >= HOUR_MS
    assert told(cluster, "find-hanging", "--topic", topic, "--max-transaction-timeout", "61") == []
    place = ("--topic", topic, "--partition", "0")
    assert "begin at 0" in refused(cluster, "abort", *place, "--start-offset", "1")
    done = cluster.command("transactions", "abort", *place, "--start-offset", str(offset))
    assert done.stdout == ""
    assert f"producer 4711, epoch 3, in {topic}-0" in done.stderr
    assert read_committed(cluster, topic) == [b"v0"]
    assert told(cluster, "find-hanging", "--topic", topic) == []


def test_abort_refuses_a_transaction_that_its_coordinator_knows(
    cluster: Cluster, topic: str
) -> None:
    name = unique_name("paying")
    producer = begin(cluster, name, topic)
    (known,) = told(cluster, "describe-producers", "--topic", topic, "--partition", "0")
    place = ("--topic", topic, "--partition", "0")
    named = ("--producer-id", str(known["producer_id"]), "--producer-epoch", "0")

    assert told(cluster, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0") == []
    for which in (("--start-offset", "0"), (*named, "--coordinator-epoch", "-1")):
        said = refused(cluster, "abort", *place, *which)
        assert f"for transactional id '{name}' (Ongoing)" in said
        assert "force-terminate" in said
    assert told(cluster, "describe-producers", *place) == [known]
    cluster.command("transactions", "abort", *place, "--start-offset", "0", "--force")
    assert told(cluster, "describe-producers", *place)[0]["transaction_start_offset"] is None
    producer.abort_transaction(TIMEOUT_S)


def test_force_terminate_aborts_and_fences(cluster: Cluster, topic: str) -> None:
    name = unique_name("paying")
    producer = begin(cluster, name, topic)

    done = cluster.command("transactions", "forceTerminateTransaction", "--transactionalId", name)

    assert done.stdout == ""
    assert done.stderr == f"{name}: aborted the transaction and fenced the producer of epoch 0\n"
    assert told(cluster, "describe", "--transactional-id", name)["state"] == "Empty"
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        producer.commit_transaction(TIMEOUT_S)
    assert read_committed(cluster, topic) == []
    again = told(cluster, "force-terminate", "--transactional-id", name)
    assert again["state_before"] == "Empty"
    other = begin(cluster, unique_name("paying"), topic)
    other.commit_transaction(TIMEOUT_S)
    go_on(other, topic)
    other.abort_transaction(TIMEOUT_S)
    assert read_committed(cluster, topic) == [b"v0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("describe --transactional-id nobody", "there is no transactional id 'nobody'"),
        ("force-terminate --transactional-id nobody", "there is no transactional id 'nobody'"),
        ("list --transactional-id-pattern [", "takes a regular expression of RE2, not ["),
        ("describe-producers --topic none --partition 0", "there is no partition none-0"),
        ("find-hanging --topic none", "there is no topic none"),
        ("find-hanging --broker-id 7", "there is no live broker 7"),
        ("abort --topic none --partition 0 --start-offset 0", "there is no partition none-0"),
    ],
)
def test_a_mistake_is_told_in_one_line(cluster: Cluster, words: str, said: str) -> None:
    assert said in refused(cluster, *words.split())


def test_mistakes_about_a_partition_are_told(cluster: Cluster, topic: str) -> None:
    wrong = ("--topic", topic, "--partition", "7")
    named = ("--producer-id", "1", "--producer-epoch", "0", "--coordinator-epoch", "0")
    assert f"no partition {topic}-7" in refused(cluster, "describe-producers", *wrong)
    assert f"no partition {topic}-7" in refused(cluster, "find-hanging", *wrong)
    assert f"no partition {topic}-7" in refused(cluster, "abort", *wrong, *named)
    right = ("--topic", topic, "--partition", "0")
    assert "no live broker 7" in refused(cluster, "describe-producers", *right, "--broker-id", "7")
    one = create_topic(cluster, assignments=[[0]])
    elsewhere = ("--topic", one, "--partition", "0", "--broker-id", "1")
    said = refused(cluster, "describe-producers", *elsewhere)
    assert f"broker 1 has no replica of {one}-0" in said
