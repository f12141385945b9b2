"""franz-go and sarama, built by Go: topics, records, offsets, configs, quotas, a leader's death."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing

import pytest

from tests.compat.client_programs import (
    ClientProgram,
    ProgramFailed,
    RunningProgram,
    check_that_a_leaders_death_neither_loses_nor_repeats,
    check_that_the_samples_offsets_are_told,
    go_programs,
    produced_by_every_codec,
)
from tests.compat.confluent_records import produce
from tests.compat.samples import PARTITIONS, SAMPLES, Sample, by_partition
from tests.support.client_quotas import KIB, a_client_id, limited
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

# sarama supposes one version of Kafka, 2.8 unless it is told of another.
LIBRARIES = {
    "franz-go": {"library": "franz-go"},
    "sarama": {"library": "sarama"},
    "sarama-2.8": {"library": "sarama", "version": "2.8.0"},
}


@pytest.fixture(scope="module")
def process() -> Iterator[RunningProgram]:
    with started() as one:
        yield one


def started() -> AbstractContextManager[RunningProgram]:
    return closing(RunningProgram([go_programs() / "go_clients"]))


@pytest.fixture(params=LIBRARIES)
def client(
    request: pytest.FixtureRequest, process: RunningProgram, cluster: Cluster
) -> ClientProgram:
    return ClientProgram(process, cluster.bootstrap, **LIBRARIES[request.param])


@pytest.fixture(params=["franz-go", "sarama"])
def newest_client(
    request: pytest.FixtureRequest, process: RunningProgram, cluster: Cluster
) -> ClientProgram:
    return ClientProgram(process, cluster.bootstrap, library=request.param)


# -- topics and their configs -----------------------------------------------------------------


def test_topics_are_created_described_and_deleted(cluster: Cluster, client: ClientProgram) -> None:
    topic = unique_name("go")
    facts = {"partitions": 2, "replicas": 3, "configs": {"min.insync.replicas": "2"}}
    client.ask("create-topic", topic=topic, **facts)
    wait_until(lambda: topic in cluster.command("topics", "--list").stdout, topic)

    seen = client.ask("describe", topic=topic)
    addresses = {str(n): f"{host}:{port}" for n, (host, port) in enumerate(cluster.addresses)}
    assert seen["brokers"] == addresses
    assert seen["controller"] == cluster.status()["controller"]
    assert seen["partitions"].keys() == {"0", "1"}
    for partition in seen["partitions"].values():
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [0, 1, 2]
        assert partition["leader"] == partition["replicas"][0]

    client.ask("add-partitions", topic=topic, partitions=5)
    assert len(client.ask("describe", topic=topic)["partitions"]) == 5
    client.ask("delete-topic", topic=topic)
    assert topic not in cluster.command("topics", "--list").stdout.splitlines()


def test_a_refusal_arrives_with_its_reason(cluster: Cluster, client: ClientProgram) -> None:
    with pytest.raises(ProgramFailed, match=f"larger than available brokers: {cluster.size}"):
        client.ask("create-topic", topic=unique_name("go"), partitions=1, replicas=4)


def test_topic_configs_are_changed_and_described(cluster: Cluster, client: ClientProgram) -> None:
    topic = create_topic(cluster, unique_name("go"), configs={"segment.bytes": "1048576"})
    changes = {"retention.ms": "7200000", "segment.bytes": None}
    client.ask("alter-configs", topic=topic, configs=changes)

    configs = wait_until(
        lambda: (
            seen
            if (seen := client.ask("configs", topic=topic))["retention.ms"] == "7200000"
            else None
        ),
        "the change",
    )
    assert configs["segment.bytes"] == str(1 << 30)
    assert configs["min.insync.replicas"] == "1"


# -- records ----------------------------------------------------------------------------------


@pytest.fixture
def topic(cluster: Cluster, client: ClientProgram) -> Iterator[str]:
    name = create_topic(cluster, unique_name("go"), partitions=PARTITIONS)
    yield name
    client.ask("delete-topic", topic=name)


@pytest.mark.parametrize("acks", ["0", "1", "all", "idempotent"])
def test_records_come_back_as_they_were_sent(
    cluster: Cluster, client: ClientProgram, topic: str, acks: str
) -> None:
    expected = produced_by_every_codec(cluster, client, topic, SAMPLES, acks)

    read = client.consume(topic)

    assert by_partition(read.records) == expected
    assert sorted(read.offsets) == sorted(n for each in expected.values() for n in range(len(each)))


def test_earliest_latest_and_timestamp_offsets_are_listed(
    client: ClientProgram, topic: str
) -> None:
    client.produce(topic, SAMPLES)
    check_that_the_samples_offsets_are_told(client, topic)


# -- quotas -----------------------------------------------------------------------------------


def test_quotas_are_set_described_and_removed(
    cluster: Cluster, newest_client: ClientProgram
) -> None:
    entity = {"user": a_client_id(), "client-id": None}
    limits = {"producer_byte_rate": 10_240.0, "request_percentage": 12.5}
    newest_client.ask("alter-quotas", entity=entity, quotas=limits)

    told = wait_until(
        lambda: (
            seen if len(seen := newest_client.ask("quotas", entity=entity)) == len(limits) else None
        ),
        "both limits",
    )
    assert told == limits
    listed = cluster.command("quotas", "list", "--json").stdout
    assert f'"user": "{entity["user"]}"' in listed

    newest_client.ask("alter-quotas", entity=entity, quotas=dict.fromkeys(limits))
    wait_until(lambda: not newest_client.ask("quotas", entity=entity), "no limit to be left")


def test_client_over_its_quota_is_throttled_and_told(
    cluster: Cluster, newest_client: ClientProgram
) -> None:
    client_id, topic = a_client_id(), create_topic(cluster, unique_name("go"))
    samples = [Sample(0, None, bytes(4 * KIB)) for _ in range(7)]
    how = {"client_id": client_id, "batch_bytes": 5 * KIB}
    # 28 KiB, of which a second's worth may be sent at once.
    with limited(cluster, client_id, producer_byte_rate=16 * KIB, consumer_byte_rate=16 * KIB):
        sent = newest_client.produce(topic, samples, **how)
        read = newest_client.consume(topic, **how)

    assert read.records == samples
    for transfer in (sent, read):
        assert transfer.elapsed_s > 0.5
        assert transfer.throttle_ms > 0


# -- a leader's death ---------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["franz-go", "sarama"])
def test_an_idempotent_producer_lives_through_a_leaders_death(
    new_cluster: Callable[..., Cluster], library: str
) -> None:
    with started() as process:
        cluster = new_cluster().start()
        client = ClientProgram(process, cluster.bootstrap, library=library)
        check_that_a_leaders_death_neither_loses_nor_repeats(cluster, client)


@pytest.mark.parametrize("library", ["franz-go", "sarama"])
def test_a_consumer_follows_from_leader_to_leader(
    new_cluster: Callable[..., Cluster], library: str
) -> None:
    """franz-go asks a new leader where the epoch of what it has read last ends."""
    with started() as process:
        cluster = new_cluster().start()
        topic = create_topic(cluster, partitions=PARTITIONS)
        followed = ClientProgram(process, cluster.bootstrap, library=library).follow(topic)
        written = produce(cluster.bootstrap, topic, SAMPLES)
        followed.read_until(lambda: len(followed.records) == len(SAMPLES))
        cluster.restart(leader(cluster, topic))
        written += produce(cluster.bootstrap, topic, SAMPLES)
        followed.read_until(lambda: len(followed.records) >= len(written))

    assert sorted((one.partition, one.offset) for one in followed.records) == sorted(
        (message.partition(), message.offset()) for _, message in written
    )
