"""kafkajs, installed by npm: topics, records, offsets, configs, quotas, a leader's death.

What it has produced is read back by librdkafka.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing

import pytest

from tests.compat.client_programs import (
    ClientProgram,
    ProgramFailed,
    RunningProgram,
    check_that_a_leaders_death_neither_loses_nor_repeats,
    check_that_the_samples_offsets_are_told,
    javascript_programs,
    produced_by_every_codec,
)
from tests.compat.confluent_records import assigning_consumer, read_all
from tests.compat.samples import PARTITIONS, Sample
from tests.compat.samples import SAMPLES as ALL_SAMPLES
from tests.support.client_quotas import KIB, a_client_id, limited
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.beyond_pypi]

SAMPLES = [  # a header without a value is the one thing that it refuses
    sample._replace(headers=tuple((key, value or b"") for key, value in sample.headers))
    for sample in ALL_SAMPLES
]


@pytest.fixture(scope="module")
def process() -> Iterator[RunningProgram]:
    with started() as one:
        yield one


def started() -> AbstractContextManager[RunningProgram]:
    return closing(RunningProgram(["node", javascript_programs() / "kafkajs_client.mjs"]))


@pytest.fixture
def client(process: RunningProgram, cluster: Cluster) -> ClientProgram:
    return ClientProgram(process, cluster.bootstrap)


def test_topics_are_created_described_and_deleted(cluster: Cluster, client: ClientProgram) -> None:
    topic = unique_name("javascript")
    facts = {"partitions": 2, "replicas": 3, "configs": {"min.insync.replicas": "2"}}
    client.ask("create-topic", topic=topic, **facts)

    seen = client.ask("describe", topic=topic)
    addresses = {str(n): f"{host}:{port}" for n, (host, port) in enumerate(cluster.addresses)}
    assert seen["brokers"] == addresses
    assert seen["controller"] == cluster.status()["controller"]
    assert seen["partitions"].keys() == {"0", "1"}
    for partition in seen["partitions"].values():
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [0, 1, 2]
        assert partition["leader"] == partition["replicas"][0]
    assert client.ask("configs", topic=topic)["min.insync.replicas"] == "2"

    client.ask("add-partitions", topic=topic, partitions=5)
    assert len(client.ask("describe", topic=topic)["partitions"]) == 5
    client.ask("delete-topic", topic=topic)
    assert topic not in cluster.command("topics", "--list").stdout.splitlines()


def test_a_refusal_arrives_with_its_reason(client: ClientProgram) -> None:
    with pytest.raises(ProgramFailed, match="INVALID_REPLICATION_FACTOR"):
        client.ask("create-topic", topic=unique_name("javascript"), partitions=1, replicas=4)


def test_topic_configs_are_changed_and_described(cluster: Cluster, client: ClientProgram) -> None:
    configs = {"segment.bytes": "1048576"}
    topic = create_topic(cluster, unique_name("javascript"), configs=configs)
    client.ask("alter-configs", topic=topic, configs={"retention.ms": "7200000"})

    def described() -> dict[str, str] | None:
        seen: dict[str, str] = client.ask("configs", topic=topic)
        return seen if seen["retention.ms"] == "7200000" else None

    # It knows the older request only, which replaces all that was set.
    assert wait_until(described, "the change")["segment.bytes"] == str(1 << 30)


@pytest.fixture
def topic(cluster: Cluster, client: ClientProgram) -> Iterator[str]:
    name = create_topic(cluster, unique_name("javascript"), partitions=PARTITIONS)
    yield name
    client.ask("delete-topic", topic=name)


@pytest.mark.parametrize("acks", ["0", "1", "all", "idempotent"])
def test_records_come_back_as_they_were_sent(
    cluster: Cluster, client: ClientProgram, topic: str, acks: str
) -> None:
    expected = produced_by_every_codec(cluster, client, topic, SAMPLES, acks)

    with assigning_consumer(cluster.bootstrap) as consumer:
        assert read_all(consumer, topic) == expected


def test_earliest_latest_and_timestamp_offsets_are_listed(
    client: ClientProgram, topic: str
) -> None:
    client.produce(topic, SAMPLES)
    check_that_the_samples_offsets_are_told(client, topic)


def test_a_producer_over_its_quota_is_held_back_and_told(
    cluster: Cluster, client: ClientProgram
) -> None:
    client_id, topic = a_client_id(), create_topic(cluster, unique_name("javascript"))
    samples = [Sample(0, None, bytes(4 * KIB)) for _ in range(7)]
    # 28 KiB, of which a second's worth may be sent at once.
    with limited(cluster, client_id, producer_byte_rate=16 * KIB):
        sent = client.produce(topic, samples, client_id=client_id, one_by_one=True)

    assert sent.offsets == list(range(7))
    assert sent.elapsed_s > 0.5
    assert sent.throttle_ms > 0


def test_an_idempotent_producer_lives_through_a_leaders_death(
    new_cluster: Callable[..., Cluster],
) -> None:
    with started() as process:
        cluster = new_cluster().start()
        client = ClientProgram(process, cluster.bootstrap)
        check_that_a_leaders_death_neither_loses_nor_repeats(cluster, client)
