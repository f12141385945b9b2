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


def test_open_transactions_are_counted_in_metrics(cluster: Cluster, topic: str) -> None:
    def figures(key: str) -> list[int]:
        found = json.loads(cluster.command("metrics", "--json").stdout)
        return [broker["values"][key] for broker in found["brokers"]]

    def is_quiet() -> bool:
        return not any(figures("OpenTransactions")) and not any(figures("HeldBackPartitions"))

    wait_until(is_quiet, "no open transaction")
    producer = begin(cluster, unique_name("paying"), topic, records=3)
    wait_until(lambda: sum(figures("OpenTransactions")) == 1, "the transaction to be counted")
    wait_until(lambda: max(figures("LastStableOffsetLag")) == 3, "its records to be counted")
    assert sum(figures("HeldBackPartitions")) == 1
    assert max(figures("OldestOpenTransactionMs")) < HOUR_MS
    assert min(figures("ProducerIdCount")) >= 1
    producer.abort_transaction(TIMEOUT_S)
    wait_until(is_quiet, "the end to be counted")


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


def explained(cluster: Cluster, *words: str) -> str:
    """What `explain` prints, as one line."""
    return " ".join(cluster.command("transactions", "explain", *words).stdout.split())


def test_an_open_transaction_is_explained_while_consumers_wait(
    cluster: Cluster, topic: str
) -> None:
    name = unique_name("paying")
    producer = begin(cluster, name, topic, records=3)

    text = explained(cluster, "--topic", topic)
    (held,) = told(cluster, "explain", "--topic", topic, "--partition", "0")["held_back"]

    client = f"client client-of-{name} at 127.0.0.1"
    assert f"wait at offset 0 for an open transaction of '{name}'" in text
    assert f"; {client} since" in text
    assert "3 records (" in text
    assert "transaction.timeout.ms=600000" in text
    assert f"force-terminate --transactional-id {name}" in text
    assert (held["verdict"], held["waiting_records"]) == ("open", 3)
    assert held["transaction"]["client"]["client_id"] == f"client-of-{name}"
    assert topic in explained(cluster)  # of all topics

    text = explained(cluster, "--transactional-id", name)
    assert f"'{name}': a transaction has been open for" in text
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: "committed, in" in explained(cluster, "--transactional-id", name), "the end")
    (past,) = told(cluster, "explain", "--transactional-id", name)["transactions"]
    assert [each["kind"] for each in past["steps"]] == ["added", "commit", "marked", "complete"]
    assert past["steps"][1]["client"]["client_id"] == f"client-of-{name}"
    text = explained(cluster, "--topic", topic, "--partition", "0")
    assert text == f"Nothing holds read_committed consumers back in {topic}-0."


def test_a_group_that_a_transaction_holds_back_is_told_so(cluster: Cluster, topic: str) -> None:
    group = unique_name("paid")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    producer = begin(cluster, unique_name("paying"), topic)
    explain = ("groups", "explain", "--group", group)
    line = f"Held back by a transaction: {topic}-0. Consumers with isolation.level=read_committed"
    advice = f"`transactions explain --topic {topic}` names the transaction, and what ends it."

    for words in ([], ["--verbose"]):
        text = " ".join(cluster.command(*explain, *words).stdout.split())
        assert line in text
        assert advice in text
    held = json.loads(cluster.command(*explain, "--json").stdout)
    assert held["held_back"] == [{"topic": topic, "partition": 0}]

    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: "Held back" not in cluster.command(*explain).stdout, "the end")


def test_a_hanging_transaction_is_explained_with_the_command_that_ends_it(
    cluster: Cluster, topic: str
) -> None:
    hang(cluster, topic, producer_id=4711, epoch=3, age_ms=HOUR_MS, records=2)
    text = explained(cluster, "--topic", topic)
    assert "a transaction that hangs, 1 h 00 min old: no coordinator knows it" in text
    assert "client wire at 127.0.0.1, which wrote with transactional id 'nobody's'" in text
    (held,) = told(cluster, "explain", "--topic", topic)["held_back"]
    assert held["verdict"] == "hanging"
    assert held["command"] in text
    program, *words = held["command"].split()
    assert program.endswith("bin/cluster")
    cluster.command(*words)
    assert "Nothing holds" in explained(cluster, "--topic", topic)


def test_a_fenced_producer_is_explained(cluster: Cluster, topic: str) -> None:
    name = unique_name("paying")
    old = begin(cluster, name, topic)
    new = begin(cluster, name, topic)
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        old.commit_transaction(TIMEOUT_S)
    new.abort_transaction(TIMEOUT_S)

    text = explained(cluster, "--transactional-id", name)

    assert "aborted because another producer started with the transactional id" in text
    assert f"fenced by client client-of-{name} at 127.0.0.1" in text
    assert "fenced: EndTxn of id" in text
    assert "was refused (PRODUCER_FENCED)" in text


def test_a_new_coordinator_says_since_when_it_remembers(cluster: Cluster, topic: str) -> None:
    name = unique_name("paying")
    producer = begin(cluster, name, topic)
    known = told(cluster, "explain", "--transactional-id", name)
    cluster.restart(known["coordinator"])

    def returned() -> Any:
        """The explanation once the broker leads again: it loads its transactions a second time."""
        done = cluster.command(
            "transactions", "explain", "--transactional-id", name, "--json", check=False
        )
        found = json.loads(done.stdout) if done.returncode == 0 else known
        is_back = found["coordinator"] == known["coordinator"]
        return found if is_back and found["known_since"] > known["known_since"] else None

    found = wait_until(returned, "the coordinator to return")
    assert (found["state"], found["client"], found["transactions"]) == ("Ongoing", None, [])
    assert found["started"] == known["started"]
    producer.commit_transaction(TIMEOUT_S)
    (past,) = told(cluster, "explain", "--transactional-id", name)["transactions"]
    assert past["is_partial"]
    assert past["began"] == known["started"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("explain --topic none", "there is no topic none"),
        ("explain --transactional-id nobody", "there is no transactional id 'nobody'"),
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
    assert f"no partition {topic}-7" in refused(cluster, "explain", *wrong)
    right = ("--topic", topic, "--partition", "0")
    assert "no live broker 7" in refused(cluster, "describe-producers", *right, "--broker-id", "7")
    one = create_topic(cluster, assignments=[[0]])
    elsewhere = ("--topic", one, "--partition", "0", "--broker-id", "1")
    said = refused(cluster, "describe-producers", *elsewhere)
    assert f"broker 1 has no replica of {one}-0" in said
