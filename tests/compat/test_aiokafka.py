"""aiokafka, which speaks older versions: topics, codecs, acks settings, offsets, errors."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.compat.samples import (
    COMPRESSIONS,
    NOW_MS,
    PARTITIONS,
    SAMPLES,
    Sample,
    by_partition,
)
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, unique_name

pytestmark = pytest.mark.compat

TIMEOUT_S = 60


def run(work: Awaitable[Any]) -> Any:
    """Run one coroutine in a loop of its own, with a deadline."""

    async def with_deadline() -> Any:
        return await asyncio.wait_for(work, TIMEOUT_S)

    return asyncio.run(with_deadline())


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return create_topic(cluster, unique_name("aiokafka"), partitions=PARTITIONS)


async def with_admin(
    cluster: Cluster, work: Callable[[AIOKafkaAdminClient], Awaitable[Any]]
) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def produce(cluster: Cluster, topic: str, samples: list[Sample], **config: Any) -> list[Any]:
    """Produce all samples; what came of each: metadata or the error."""
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=5, **config)
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                sample.value,
                sample.key,
                sample.partition,
                sample.timestamp_ms,
                list(sample.headers),
            )
            for sample in samples
        ]
        return await asyncio.gather(*futures, return_exceptions=True)
    finally:
        await producer.stop()


async def with_consumer(
    cluster: Cluster, work: Callable[[AIOKafkaConsumer], Awaitable[Any]]
) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=10,
    )
    await consumer.start()
    try:
        return await work(consumer)
    finally:
        await consumer.stop()


async def read_all(cluster: Cluster, topic: str, count: int) -> dict[int, list[Sample]]:
    """So many records from the beginning, by partition; offsets are checked."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    records: dict[int, list[Sample]] = {number: [] for number in range(PARTITIONS)}

    async def read(consumer: AIOKafkaConsumer) -> None:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while sum(map(len, records.values())) < count:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                for record in batch:
                    assert record.offset == len(records[record.partition])
                    records[record.partition].append(
                        Sample(
                            record.partition,
                            record.key,
                            record.value,
                            tuple(record.headers),
                            record.timestamp,
                        )
                    )

    await with_consumer(cluster, read)
    return records


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_they_were_sent(
    cluster: Cluster, topic: str, compression: str, acks: int | str
) -> None:
    async def work() -> dict[int, list[Sample]]:
        sent = await produce(
            cluster,
            topic,
            SAMPLES,
            acks=acks,
            compression_type=None if compression == "none" else compression,
        )
        assert [one for one in sent if isinstance(one, Exception)] == []
        return await read_all(cluster, topic, len(SAMPLES))

    assert run(work()) == by_partition(SAMPLES)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_idempotent_producer(cluster: Cluster, topic: str, compression: str) -> None:
    async def work() -> dict[int, list[Sample]]:
        sent = await produce(
            cluster,
            topic,
            SAMPLES,
            enable_idempotence=True,
            max_batch_size=500,
            compression_type=None if compression == "none" else compression,
        )
        assert [one for one in sent if isinstance(one, Exception)] == []
        return await read_all(cluster, topic, len(SAMPLES))

    # The large sample is above this batch size, so it is left out.
    assert run(work()) == by_partition(SAMPLES)


def test_cluster_is_described(cluster: Cluster) -> None:
    description = run(with_admin(cluster, lambda admin: admin.describe_cluster()))

    assert description["cluster_id"] == cluster.status()["cluster_id"]
    assert description["controller_id"] == cluster.status()["controller"]
    nodes = {node["node_id"]: (node["host"], node["port"]) for node in description["brokers"]}
    assert nodes == dict(enumerate(cluster.addresses))


def test_topics_through_their_life(cluster: Cluster) -> None:
    name = unique_name("life")

    async def work(admin: AIOKafkaAdminClient) -> None:
        created = await admin.create_topics([NewTopic(name, PARTITIONS, 3)])
        assert [code for _, code, *_ in created.topic_errors] == [0]
        assert name in await admin.list_topics()

        (described,) = await admin.describe_topics([name])
        assert described["error_code"] == 0
        assert sorted(p["partition"] for p in described["partitions"]) == [0, 1, 2]
        assert all(sorted(p["isr"]) == [0, 1, 2] for p in described["partitions"])

        await admin.create_partitions({name: NewPartitions(5)})
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 5
        with pytest.raises(errors.InvalidPartitionsError):
            await admin.create_partitions({name: NewPartitions(5)})

        deleted = await admin.delete_topics([name])
        assert deleted.topic_error_codes == [(name, 0)]
        assert name not in await admin.list_topics()

    run(with_admin(cluster, work))


def test_configs_are_described(cluster: Cluster) -> None:
    name = create_topic(cluster, unique_name("configured"), configs={"retention.ms": "12345"})

    async def work(admin: AIOKafkaAdminClient) -> list[Any]:
        answers = await admin.describe_configs(
            [
                ConfigResource(ConfigResourceType.BROKER, "1"),
                ConfigResource(ConfigResourceType.TOPIC, name),
            ],
            include_synonyms=True,
        )
        return [{config[0]: config[1] for config in answer.resources[0][4]} for answer in answers]

    broker, topic = run(with_admin(cluster, work))
    assert topic["retention.ms"] == "12345"
    assert topic["cleanup.policy"] == "delete"
    assert broker["broker.id"] == "1"


def test_offsets_are_listed(cluster: Cluster, topic: str) -> None:
    first, last = TopicPartition(topic, 0), TopicPartition(topic, 2)

    async def work(consumer: AIOKafkaConsumer) -> None:
        assert await consumer.beginning_offsets([first, last]) == {first: 0, last: 0}
        assert await consumer.end_offsets([first, last]) == {first: 5, last: 200}
        found = await consumer.offsets_for_times({first: NOW_MS + 3, last: NOW_MS + 100})
        assert (found[first].offset, found[first].timestamp) == (1, NOW_MS + 5)
        assert (found[last].offset, found[last].timestamp) == (100, NOW_MS + 100)
        assert await consumer.offsets_for_times({last: NOW_MS + 1000}) == {last: None}

    run(produce(cluster, topic, SAMPLES, acks="all"))
    run(with_consumer(cluster, work))


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic("existing", 1, 1), errors.TopicAlreadyExistsError),
        (NewTopic("refused", 1, 4), errors.InvalidReplicationFactorError),
        (NewTopic("refused", 0, 1), errors.InvalidPartitionsError),
        (NewTopic("a/b", 1, 1), errors.InvalidTopicError),
        (
            NewTopic("refused", 1, 1, topic_configs={"no.such": "1"}),
            errors.InvalidConfigurationError,
        ),
        (NewTopic("refused", -1, -1, {0: [7]}), errors.InvalidReplicationAssignmentError),
    ],
)
def test_refused_topics(cluster: Cluster, new: NewTopic, error: type[Exception]) -> None:
    async def work(admin: AIOKafkaAdminClient) -> None:
        if new.name == "existing" and "existing" not in await admin.list_topics():
            await admin.create_topics([new])
        answer = await admin.create_topics([new])
        ((_, code, *_),) = answer.topic_errors
        assert errors.for_code(code) is error

    run(with_admin(cluster, work))


def test_unknown_topic_is_an_error(cluster: Cluster) -> None:
    name = unique_name("missing")

    async def work(admin: AIOKafkaAdminClient) -> None:
        deleted = await admin.delete_topics([name])
        ((_, code),) = deleted.topic_error_codes
        assert errors.for_code(code) is errors.UnknownTopicOrPartitionError

    run(with_admin(cluster, work))


def test_message_too_large(cluster: Cluster) -> None:
    name = create_topic(cluster, unique_name("small"), configs={"max.message.bytes": "1000"})

    (sent,) = run(produce(cluster, name, [Sample(0, None, bytes(2000))]))

    assert isinstance(sent, errors.MessageSizeTooLargeError)


def test_fetch_beyond_the_end_starts_over(cluster: Cluster, topic: str) -> None:
    partition = TopicPartition(topic, 1)

    async def work(consumer: AIOKafkaConsumer) -> list[int]:
        consumer.assign([partition])
        consumer.seek(partition, 10_000)
        return [(await consumer.getone()).offset for _ in range(4)]

    run(produce(cluster, topic, SAMPLES, acks="all"))
    assert run(with_consumer(cluster, work)) == [0, 1, 2, 3]


def test_producer_creates_missing_topics(cluster: Cluster) -> None:
    name = unique_name("auto")

    (sent,) = run(produce(cluster, name, [Sample(0, b"k", b"v")]))

    assert (sent.topic, sent.partition, sent.offset) == (name, 0, 0)
