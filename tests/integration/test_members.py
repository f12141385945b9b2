"""Brokers join and leave a cluster while it runs; ids are any."""

import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.support.running_cluster import Cluster
from tests.support.topics import describe, unique_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path = tmp_path_factory.mktemp("members") / "data"
    overrides = {"milena.metrics.topic.enable": "false"}
    with Cluster(path, brokers=None, broker_ids="5,100", overrides=overrides) as made:
        yield made


def ids(cluster: Cluster) -> list[int]:
    return [each["id"] for each in cluster.state()["brokers"]]


def address(cluster: Cluster, broker: int) -> tuple[str, int]:
    (found,) = (each for each in cluster.state()["brokers"] if each["id"] == broker)
    return found["host"], found["port"]


def refusal(cluster: Cluster, *words: str) -> str:
    done = cluster.command(*words, check=False)
    assert done.returncode == 1, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_an_added_broker_holds_replicas_of_new_topics_and_comes_back_with_the_others(
    cluster: Cluster,
) -> None:
    before = ids(cluster)
    added = cluster.command("add-broker", "--rack", "b").stdout
    (broker,) = set(ids(cluster)) - set(before)
    assert broker == max(before) + 1
    assert f"Broker {broker} runs on {':'.join(map(str, address(cluster, broker)))}" in added
    topic = unique_name()
    size = str(len(before) + 1)
    cluster.command(
        "topics", "--create", "--topic", topic, "--partitions", "1", "--replication-factor", size
    )
    (partition,) = describe(address(cluster, broker), topic).topics[0].partitions
    assert sorted(partition.replica_nodes) == sorted(ids(cluster))

    here = address(cluster, broker)
    cluster.stop()
    cluster.command(
        "start", *[each for each in cluster.options.arguments() if "broker" not in each]
    )
    assert sorted(ids(cluster)) == sorted([*before, broker])
    assert address(cluster, broker) == here
    racks = {each["id"]: each["rack"] for each in cluster.state()["brokers"]}
    assert racks[broker] == "b"

    def in_sync() -> bool:
        view = describe(here, topic)
        return view is not None and len(view.topics[0].partitions[0].isr_nodes) == int(size)

    wait_until(in_sync, "all replicas in sync again")


def test_a_broker_that_is_there_already_is_not_added(cluster: Cluster) -> None:
    before = ids(cluster)
    assert "there is a broker 5 already" in refusal(cluster, "add-broker", "--broker-id", "5")
    assert ids(cluster) == before


def test_a_broker_that_cannot_start_is_not_kept(cluster: Cluster) -> None:
    before = ids(cluster)
    directory = cluster.log_dir(900)
    directory.mkdir()
    (directory / "meta.properties").write_text("version=0\nbroker.id=900\ncluster.id=other\n")
    refused = refusal(cluster, "add-broker", "--broker-id", "900")
    assert "broker 900 could not start" in refused
    assert "of cluster other" in refused
    assert ids(cluster) == before


def replicas_of(cluster: Cluster, topic: str) -> dict[int, set[int]]:
    asked = cluster.state()["brokers"][0]
    view = describe((asked["host"], asked["port"]), topic)
    return {each.partition_index: set(each.replica_nodes) for each in view.topics[0].partitions}


def produce(cluster: Cluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.state()["bootstrap"], "acks": "all"})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(30) == 0


def records(cluster: Cluster, topic: str, count: int) -> set[int]:
    read = cluster.command(
        *("consume", "--topic", topic, "--from-beginning", "--max-messages", str(count)),
        *("--timeout-ms", "20000"),
    )
    return set(map(int, read.stdout.split()))


def topic_on(cluster: Cluster, *replicas: list[int]) -> str:
    """A topic with these replicas of each partition."""
    topic = unique_name()
    assignment = ",".join(":".join(map(str, each)) for each in replicas)
    cluster.command("topics", "--create", "--topic", topic, "--replica-assignment", assignment)
    return topic


def add(cluster: Cluster, *words: str) -> int:
    before = ids(cluster)
    cluster.command("add-broker", *words)
    (broker,) = set(ids(cluster)) - set(before)
    return broker


def test_replicas_move_away_before_a_broker_is_removed(cluster: Cluster) -> None:
    broker = add(cluster)
    topic = topic_on(cluster, [broker, 100], [broker, 5])
    produce(cluster, topic, 100)
    said = cluster.command("remove-broker", str(broker)).stdout
    assert f"partitions moved away from broker {broker}." in said
    assert broker not in ids(cluster)
    assert not cluster.log_dir(broker).exists()
    assert all(broker not in each for each in replicas_of(cluster, topic).values())
    assert [len(each) for each in replicas_of(cluster, topic).values()] == [2, 2]
    assert records(cluster, topic, 100) == set(range(100))
    cluster.command("topics", "--delete", "--topic", topic)


def test_a_removal_that_was_interrupted_goes_on_when_it_is_run_again(cluster: Cluster) -> None:
    target, broker = add(cluster), add(cluster)
    topic = topic_on(cluster, [broker], [broker])
    produce(cluster, topic, 100)
    others = [each for each in ids(cluster) if each not in (broker, target)]
    for each in others:  # nothing else can take the replicas
        full = topic_on(cluster, [each], [each])
        produce(cluster, full, 10)
    cluster.pause(target)
    words = cluster.command_line("remove-broker", str(broker))
    began = subprocess.Popen(
        words, env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert began.stdout is not None
    assert b"Moving: " in began.stdout.readline()
    began.kill()
    began.communicate()
    assert broker in ids(cluster)
    cluster.resume(target)
    cluster.command("remove-broker", str(broker))
    assert broker not in ids(cluster)
    assert records(cluster, topic, 100) == set(range(100))
    cluster.command("topics", "--delete", "--topic", topic)
    cluster.command("remove-broker", str(target))


def test_a_removal_that_loses_something_is_refused_unless_it_is_forced(cluster: Cluster) -> None:
    broker = add(cluster)
    everywhere = topic_on(cluster, ids(cluster), ids(cluster))
    refused = refusal(cluster, "remove-broker", str(broker))
    assert f"2 partitions ({everywhere}) would have fewer replicas" in refused
    cluster.command("topics", "--delete", "--topic", everywhere)

    topic = topic_on(cluster, [broker], [broker])
    produce(cluster, topic, 20)
    cluster.kill(broker, stay_down=True)
    wait_until(
        lambda: refusal(cluster, "remove-broker", str(broker)).count("would be lost"),
        "the cluster to notice the death",
    )
    said = cluster.command("remove-broker", str(broker), "--force").stdout
    assert "Its log directories stay" in said
    assert broker not in ids(cluster)
    assert add(cluster, "--broker-id", str(broker)) == broker
    assert records(cluster, topic, 20) == set(range(20))
    cluster.command("remove-broker", str(broker))


def test_a_broker_that_is_not_there_is_not_removed(cluster: Cluster) -> None:
    assert "there is no broker 901: choose one of 5, 100" in refusal(
        cluster, "remove-broker", "901"
    )
