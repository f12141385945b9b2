"""confluent-kafka (librdkafka): topics, every codec and acks setting, offsets, errors."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.compat.confluent_records import (
    TIMEOUT_S,
    assigning_consumer,
    produce,
    read_all,
)
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
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = unique_name("confluent")
    wait(admin.create_topics([NewTopic(name, PARTITIONS, 3)]))
    return name


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[Consumer]:
    with assigning_consumer(cluster.bootstrap) as reader:
        yield reader


def wait(futures: dict[Any, Any]) -> list[Any]:
    """The results of admin calls; raises KafkaException as they do."""
    return [future.result(TIMEOUT_S) for future in futures.values()]


def error_of(futures: dict[Any, Any]) -> int:
    """The error code that an admin call fails with."""
    with pytest.raises(KafkaException) as raised:
        wait(futures)
    code: int = raised.value.args[0].code()
    return code


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_records_come_back_as_they_were_sent(
    cluster: Cluster, topic: str, consumer: Consumer, codec: str, acks: str
) -> None:
    delivered = produce(cluster.bootstrap, topic, SAMPLES, compression_type=codec, acks=acks)

    assert [error for error, _ in delivered if error] == []
    assert len(delivered) == len(SAMPLES)
    wait_until(
        lambda: end_offsets(consumer, topic) == [5, 4, 200], "the records of acks=0 to be readable"
    )
    assert read_all(consumer, topic) == by_partition(SAMPLES)


def end_offsets(consumer: Consumer, topic: str) -> list[int]:
    return [
        consumer.get_watermark_offsets(TopicPartition(topic, p), TIMEOUT_S)[1]
        for p in range(PARTITIONS)
    ]


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_idempotent_producer_writes_each_record_once(
    cluster: Cluster, topic: str, consumer: Consumer, codec: str
) -> None:
    delivered = produce(
        cluster.bootstrap,
        topic,
        SAMPLES,
        compression_type=codec,
        enable_idempotence=True,
        batch_size=500,
    )

    assert [error for error, _ in delivered if error] == []
    assert read_all(consumer, topic) == by_partition(SAMPLES)


def test_cluster_is_described(cluster: Cluster, admin: AdminClient) -> None:
    description = admin.describe_cluster(
        request_timeout=TIMEOUT_S, include_authorized_operations=True
    ).result()

    assert description.cluster_id == cluster.status()["cluster_id"]
    assert description.controller.id == cluster.status()["controller"]
    nodes = {node.id: (node.host, node.port) for node in description.nodes}
    assert nodes == dict(enumerate(cluster.addresses))
    assert {operation.name for operation in description.authorized_operations} >= {
        "CREATE",
        "DESCRIBE",
    }


def test_topics_are_listed_and_described(admin: AdminClient, topic: str) -> None:
    listed = admin.list_topics(timeout=TIMEOUT_S)

    assert topic in listed.topics
    partitions = listed.topics[topic].partitions
    assert sorted(partitions) == [0, 1, 2]
    for partition in partitions.values():
        assert sorted(partition.replicas) == sorted(partition.isrs) == [0, 1, 2]
        assert partition.leader == partition.replicas[0]
    assert len({partition.leader for partition in partitions.values()}) == 3
    (described,) = wait(admin.describe_topics(_topics(topic), request_timeout=TIMEOUT_S))
    assert described.name == topic
    assert not described.is_internal
    assert len(described.partitions) == PARTITIONS


def _topics(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))


def test_partitions_are_added(admin: AdminClient, cluster: Cluster, topic: str) -> None:
    wait(admin.create_partitions([NewPartitions(topic, 5)]))

    described = wait_until(
        lambda: (
            found
            if len((found := admin.list_topics(topic, TIMEOUT_S).topics[topic]).partitions) == 5
            else None
        ),
        "five partitions",
    )
    assert sorted(described.partitions) == [0, 1, 2, 3, 4]
    delivered = produce(cluster.bootstrap, topic, [Sample(4, b"k", b"in the new one")])
    assert delivered[0][0] is None
    assert error_of(admin.create_partitions([NewPartitions(topic, 5)])) == (
        KafkaError.INVALID_PARTITIONS
    )


def test_topic_is_deleted_and_created_anew(
    cluster: Cluster, admin: AdminClient, topic: str, consumer: Consumer
) -> None:
    produce(cluster.bootstrap, topic, SAMPLES)
    wait(admin.delete_topics([topic]))

    wait_until(lambda: topic not in admin.list_topics(timeout=TIMEOUT_S).topics, "its end")
    wait(admin.create_topics([NewTopic(topic, PARTITIONS, 3)]))
    wait_until(lambda: topic in admin.list_topics(timeout=TIMEOUT_S).topics, "the new one")
    produce(cluster.bootstrap, topic, SAMPLES[-3:])
    assert [len(records) for records in read_all(consumer, topic).values()] == [0, 0, 3]


def test_configs_are_described(admin: AdminClient) -> None:
    name = unique_name("configured")
    wait(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "12345"})]))

    (topic_config,) = wait(
        admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)])
    )
    (broker_config,) = wait(
        admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")])
    )

    assert topic_config["retention.ms"].value == "12345"
    assert not topic_config["retention.ms"].is_default
    assert topic_config["cleanup.policy"].value == "delete"
    assert topic_config["cleanup.policy"].is_default
    assert broker_config["broker.id"].value == "1"
    assert broker_config["broker.id"].is_read_only
    assert broker_config["default.replication.factor"].value == "3"


def test_offsets_are_listed(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    produce(cluster.bootstrap, topic, SAMPLES, acks="all")

    specs: Any = OffsetSpec  # its class methods have no types

    def listed(spec: OffsetSpec, partition: int = 2) -> int:
        (result,) = wait(
            admin.list_offsets({TopicPartition(topic, partition): spec}, request_timeout=TIMEOUT_S)
        )
        offset: int = result.offset
        return offset

    assert listed(specs.earliest()) == 0
    assert listed(specs.latest()) == 200
    assert listed(specs.for_timestamp(NOW_MS + 100)) == 100
    assert listed(specs.for_timestamp(NOW_MS)) == 0
    assert listed(specs.for_timestamp(NOW_MS + 1000)) == -1
    assert listed(specs.max_timestamp(), partition=0) == 1
    assert listed(specs.max_timestamp()) == 199


def test_offsets_for_times(cluster: Cluster, consumer: Consumer, topic: str) -> None:
    produce(cluster.bootstrap, topic, SAMPLES, acks="all")

    asked = [TopicPartition(topic, p, NOW_MS + 3) for p in range(PARTITIONS)]
    found = {p.partition: p.offset for p in consumer.offsets_for_times(asked, TIMEOUT_S)}
    assert found[0] == 1
    assert found[2] == 3


def test_records_are_deleted(
    cluster: Cluster, admin: AdminClient, topic: str, consumer: Consumer
) -> None:
    produce(cluster.bootstrap, topic, SAMPLES, acks="all")
    asked = [TopicPartition(topic, 0, OFFSET_END), TopicPartition(topic, 2, 150)]

    ends = [result.low_watermark for result in wait(admin.delete_records(asked))]

    assert ends == [5, 150]
    beginnings = [
        consumer.get_watermark_offsets(TopicPartition(topic, p), TIMEOUT_S)[0]
        for p in range(PARTITIONS)
    ]
    assert beginnings == [5, 0, 150]
    consumer.assign([TopicPartition(topic, 2, OFFSET_BEGINNING)])
    message: Any = consumer.poll(TIMEOUT_S)
    assert (message.error(), message.offset()) == (None, 150)
    beyond = admin.delete_records([TopicPartition(topic, 2, 201)])
    assert error_of(beyond) == KafkaError.OFFSET_OUT_OF_RANGE


def test_unknown_topic_is_an_error(cluster: Cluster, admin: AdminClient) -> None:
    assert error_of(admin.delete_topics([unique_name("missing")])) == (
        KafkaError.UNKNOWN_TOPIC_OR_PART
    )
    missing = ConfigResource(ConfigResource.Type.TOPIC, unique_name("missing"))
    assert error_of(admin.describe_configs([missing])) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("existing", 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("refused", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("refused", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("refused", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("a/b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("refused", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (
            NewTopic("refused", 1, 1, config={"retention.ms": "soon"}),
            KafkaError.INVALID_CONFIG,
        ),
        (
            NewTopic("refused", 1, replica_assignment=[[0, 7]]),
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_invalid_topics_are_refused(
    cluster: Cluster, admin: AdminClient, new: NewTopic, code: int
) -> None:
    if new.topic == "existing" and "existing" not in admin.list_topics(timeout=TIMEOUT_S).topics:
        create_topic(cluster, "existing", replication_factor=1)

    assert error_of(admin.create_topics([new])) == code


def test_topic_is_checked_without_being_created(admin: AdminClient) -> None:
    name = unique_name()
    wait(admin.create_topics([NewTopic(name, 1, 3)], validate_only=True))

    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_too_large_message_is_refused(cluster: Cluster, admin: AdminClient) -> None:
    name = unique_name("small")
    wait(admin.create_topics([NewTopic(name, 1, 1, config={"max.message.bytes": "1000"})]))

    ((error, _),) = produce(cluster.bootstrap, name, [Sample(0, None, bytes(2000))])

    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_fetch_beyond_the_end_starts_over(cluster: Cluster, topic: str, consumer: Consumer) -> None:
    produce(cluster.bootstrap, topic, SAMPLES, acks="all")
    consumer.assign([TopicPartition(topic, 2, 10_000)])  # auto.offset.reset=latest

    message: Any = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.error().code() == KafkaError._PARTITION_EOF
    assert message.offset() == 200


def test_producer_creates_missing_topics(cluster: Cluster, admin: AdminClient) -> None:
    name = unique_name("auto")

    ((error, message),) = produce(cluster.bootstrap, name, [Sample(0, b"k", b"v")])

    assert error is None
    assert message.offset() == 0
    created = admin.list_topics(name, TIMEOUT_S).topics[name]
    assert len(created.partitions) == 1
    assert len(created.partitions[0].replicas) == 3
