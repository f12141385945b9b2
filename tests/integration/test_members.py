"""Brokers join and leave a cluster while it runs; ids are any."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.kafka_wire import WireClient, request
from tests.support.running_cluster import HOST, Cluster, free_ports
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


def produce(cluster: Cluster, topic: str, count: int, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": cluster.state()["bootstrap"], "acks": "all"})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % partitions)
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


@pytest.mark.long
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


def test_the_registry_forgets_a_broker_that_was_removed(cluster: Cluster) -> None:
    registry = KazooClient(f"{HOST}:{cluster.registry_port}")
    registry.start()
    try:
        broker = add(cluster)
        known = f"/milena/log_directories/{broker}"
        wait_until(lambda: registry.exists(known), "the record of its log directories")
        with WireClient(address(cluster, 5)) as client:
            asked = request(ApiKey.UNREGISTER_BROKER, 0, broker_id=broker)
            answer = client.call(asked)
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.invalid_request,
                f"Broker ID {broker} is alive: stop it before",
            )
            cluster.command("remove-broker", str(broker))
            assert registry.exists(known) is None
            answer = client.call(asked)
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.broker_id_not_registered,
                f"Broker ID {broker} is not currently registered",
            )
    finally:
        registry.stop()
        registry.close()


class LoneBroker:
    """`bin/cluster broker` with a data directory of its own, beside the shared cluster."""

    def __init__(self, cluster: Cluster, path: Path, **settings: str) -> None:
        self.data = path / "data"
        self._config = path / "server.properties"
        port = free_ports(1)
        self.address = (HOST, port)
        path.mkdir()
        texts = {
            "zookeeper.connect": f"{HOST}:{cluster.registry_port}",
            "listeners": f"PLAINTEXT://{HOST}:{port}",
            "log.dirs": str(path / "log"),
            **{key.replace("_", "."): text for key, text in settings.items()},
        }
        self._config.write_text("".join(f"{key}={text}\n" for key, text in texts.items()))
        self._words = [
            *(sys.executable, "-P", "-m", "cluster", "broker", "--data-dir", str(self.data)),
            *("--config", str(self._config)),
        ]
        self._cluster = cluster

    def run(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._words,
            env=self._cluster.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def refusal(self) -> str:
        """Why it does not run."""
        process = self.run()
        assert process.wait(30) == 1
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        with process.stderr as stream:
            return stream.read()


@contextmanager
def serving(broker: LoneBroker) -> Iterator[str]:
    """Run it until the end of the block; the value is its first line."""
    process = broker.run()
    assert process.stdout is not None
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        rest, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert rest.endswith("stopped.\n")


def test_a_broker_without_supervisor_joins_with_a_generated_id_and_keeps_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    lone = LoneBroker(cluster, tmp_path / "lone", reserved_broker_max_id="2000")
    with serving(lone) as said:
        broker = int(said.split()[1])
        assert broker > 2_000
        wait_until(
            lambda: broker in {each.node_id for each in describe(lone.address).brokers},
            "the cluster to know it",
        )
        topic = topic_on(cluster, [5, broker])
        produce(cluster, topic, 30, partitions=1)
        assert cluster.command("remove-broker", str(broker)).stdout.endswith(
            f"Broker {broker} has no replicas any more; stop it where it was started, and run this"
            " again to forget it.\n"
        )
        assert records(cluster, topic, 30) == set(range(30))
    process = lone.run()
    assert process.stdout is not None
    assert int(process.stdout.readline().split()[1]) == broker
    process.kill()
    process.communicate()
    with serving(lone) as said:  # it does not wait for the end of the other session
        assert int(said.split()[1]) == broker


def test_a_second_broker_with_the_same_id_is_refused_and_the_first_stays(
    cluster: Cluster, tmp_path: Path
) -> None:
    twin = LoneBroker(cluster, tmp_path / "twin", broker_id="5")
    assert "a broker with id 5 is already registered in this cluster" in twin.refusal()
    assert not (tmp_path / "twin" / "log" / "meta.properties").exists()
    assert cluster.state()["brokers"][0]["restarts"] == 0
    assert {each.node_id for each in describe(address(cluster, 5)).brokers} >= {5, 100}


@pytest.mark.long
def test_an_id_that_is_in_use_elsewhere_is_not_added(cluster: Cluster, tmp_path: Path) -> None:
    lone = LoneBroker(cluster, tmp_path / "lone", broker_id="950")
    with serving(lone):
        refused = refusal(cluster, "add-broker", "--broker-id", "950")
        assert "broker 950 could not start: a broker with id 950 is already registered" in refused
        assert lone.refusal().startswith("error: broker 950 runs already with --data-dir")
    assert 950 not in ids(cluster)


@pytest.mark.long
def test_brokers_with_a_range_of_ids_join_those_of_another_data_directory(
    cluster: Cluster, tmp_path: Path
) -> None:
    overrides = {
        "zookeeper.connect": f"{HOST}:{cluster.registry_port}",
        "milena.metrics.topic.enable": "false",
    }
    with Cluster(
        tmp_path / "more", brokers=None, broker_ids="300-301", overrides=overrides
    ) as more:
        assert ids(more) == [300, 301]
        seen = {each.node_id for each in describe(address(cluster, 5)).brokers}
        assert seen >= {5, 100, 300, 301}
        assert more.state()["cluster_id"] == cluster.state()["cluster_id"]
        topic = topic_on(cluster, [300, 5])
        produce(more, topic, 10, partitions=1)
        cluster.command("topics", "--delete", "--topic", topic)
