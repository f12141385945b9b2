"""Brokers join and leave a cluster while it runs; ids are any."""

from collections.abc import Iterator

import pytest

from tests.support.running_cluster import Cluster
from tests.support.topics import describe, unique_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    path = tmp_path_factory.mktemp("members") / "data"
    with Cluster(path, brokers=None, broker_ids="5,100") as made:
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
