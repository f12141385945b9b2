"""kafka-python: topics, every codec and acks setting, offsets, errors."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, codec, errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from tests.compat.samples import (
    COMPRESSIONS,
    NOW_MS,
    PARTITIONS,
    Sample,
    by_partition,
)
from tests.compat.samples import SAMPLES as ALL_SAMPLES
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, unique_name
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

TIMEOUT_S = 60
SAMPLES = [  # a header without a value is the one thing that its producer refuses
    sample._replace(headers=tuple((key, value or b"") for key, value in sample.headers))
    for sample in ALL_SAMPLES
]
HAS_CODEC = {
    "none": True,
    "gzip": codec.has_gzip(),
    "snappy": codec.has_snappy(),
    "lz4": codec.has_lz4(),
    "zstd": codec.has_zstd(),
}


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    yield client
    client.close()


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    name = unique_name("kafka-python")
    admin.create_topics({name: {"num_partitions": PARTITIONS, "replication_factor": 3}})
    return name


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[KafkaConsumer]:
    reader = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap,
        group_id=None,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=10,
    )
    yield reader
    reader.close()


def produce(cluster: Cluster, topic: str, samples: list[Sample], **config: Any) -> list[Any]:
    """Produce and flush; what came of each record: metadata or the error."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=5, **config)
    try:
        futures = [
            producer.send(
                topic,
                sample.value,
                sample.key,
                list(sample.headers),
                sample.partition,
                sample.timestamp_ms,
            )
            for sample in samples
        ]
        producer.flush(TIMEOUT_S)
        for future in futures:
            assert future.is_done
        return [future.exception or future.value for future in futures]
    finally:
        producer.close(TIMEOUT_S)


def read_all(consumer: KafkaConsumer, topic: str) -> dict[int, list[Sample]]:
    """Every record from the beginning to the present end, by partition; offsets are checked."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    ends = consumer.end_offsets(partitions)
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    records: dict[int, list[Sample]] = {number: [] for number in range(PARTITIONS)}

    def has_all() -> bool:
        for read in consumer.poll(timeout_ms=200).values():
            for record in read:
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
        return all(len(records[p.partition]) >= end for p, end in ends.items())

    wait_until(has_all, f"{ends} records", TIMEOUT_S)
    return records


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_they_were_sent(
    cluster: Cluster, topic: str, consumer: KafkaConsumer, compression: str, acks: int | str
) -> None:
    if not HAS_CODEC[compression]:
        pytest.skip(f"kafka-python has no {compression} here")
    sent = produce(
        cluster,
        topic,
        SAMPLES,
        compression_type=None if compression == "none" else compression,
        acks=acks,
        enable_idempotence=False,
    )

    assert [one for one in sent if isinstance(one, Exception)] == []
    partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    wait_until(
        lambda: list(consumer.end_offsets(partitions).values()) == [5, 4, 200],
        "the records of acks=0 to be readable",
    )
    assert read_all(consumer, topic) == by_partition(SAMPLES)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_idempotent_producer_writes_each_record_once(
    cluster: Cluster, topic: str, consumer: KafkaConsumer, compression: str
) -> None:
    if not HAS_CODEC[compression]:
        pytest.skip(f"kafka-python has no {compression} here")
    sent = produce(
        cluster,
        topic,
        SAMPLES,
        compression_type=None if compression == "none" else compression,
        enable_idempotence=True,
        batch_size=500,
    )

    assert [one for one in sent if isinstance(one, Exception)] == []
    assert read_all(consumer, topic) == by_partition(SAMPLES)


def test_cluster_is_described(cluster: Cluster, admin: KafkaAdminClient) -> None:
    description = admin.describe_cluster()

    assert description["cluster_id"] == cluster.status()["cluster_id"]
    assert description["controller_id"] == cluster.status()["controller"]
    nodes = {node["broker_id"]: (node["host"], node["port"]) for node in description["brokers"]}
    assert nodes == dict(enumerate(cluster.addresses))


def test_log_directories_are_described_and_moves_are_answered(
    cluster: Cluster, admin: KafkaAdminClient, topic: str
) -> None:
    (found,) = admin.describe_log_dirs({topic: [0]}, [1])
    (directory,) = found["log_dirs"]
    assert directory["log_dir"] == str(cluster.log_dir(1))
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    ((row,),) = [each["partitions"] for each in directory["topics"]]
    assert (row["partition_index"], row["offset_lag"], row["is_future_key"]) == (0, 0, False)

    wanted = {(topic, 0, 1): directory["log_dir"], (topic, 1, 1): "/nowhere"}
    codes = admin.alter_replica_log_dirs(wanted)
    assert {replica.partition: code for replica, code in codes.items()} == {
        0: errors.NoError,
        1: errors.LogDirNotFoundError,
    }


def test_topics_are_listed_and_described(admin: KafkaAdminClient, topic: str) -> None:
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    (by_id,) = admin.describe_topics([uuid.UUID(str(described["topic_id"]))])

    assert described["name"] == by_id["name"] == topic
    assert described["error_code"] == 0
    assert sorted(p["partition_index"] for p in described["partitions"]) == [0, 1, 2]
    for partition in described["partitions"]:
        assert sorted(partition["replica_nodes"]) == sorted(partition["isr_nodes"]) == [0, 1, 2]
        assert partition["offline_replicas"] == []
        assert partition["leader_id"] == partition["replica_nodes"][0]


def test_partitions_are_added(cluster: Cluster, admin: KafkaAdminClient, topic: str) -> None:
    admin.create_partitions({topic: 5})

    admin.wait_for_topics([topic])
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 5
    (sent,) = produce(cluster, topic, [Sample(4, b"k", b"in the new one")])
    assert (sent.partition, sent.offset) == (4, 0)
    with pytest.raises(errors.InvalidPartitionsError):
        admin.create_partitions({topic: 4})


def test_topic_is_deleted_by_name_and_by_id(admin: KafkaAdminClient, topic: str) -> None:
    other = unique_name("kafka-python")
    admin.create_topics({other: {"num_partitions": 1, "replication_factor": 1}})
    (described,) = admin.describe_topics([other])

    admin.delete_topics([topic])
    admin.delete_topics([uuid.UUID(str(described["topic_id"]))])

    wait_until(lambda: not {topic, other} & set(admin.list_topics()), "both to be gone")


def test_configs_are_described(admin: KafkaAdminClient) -> None:
    name = unique_name("configured")
    admin.create_topics({name: {"num_partitions": 1, "configs": {"retention.ms": "12345"}}})

    described = admin.describe_configs(
        [
            ConfigResource(ConfigResourceType.TOPIC, name),
            ConfigResource(ConfigResourceType.BROKER, "2"),
        ],
        include_synonyms=True,
        config_filter="all",
    )

    retention = described["topic"][name]["retention.ms"]
    assert retention["value"] == "12345"
    assert retention["config_source"] == "DYNAMIC_TOPIC_CONFIG"
    assert [synonym["value"] for synonym in retention["synonyms"]] == ["12345", "604800000"]
    assert described["topic"][name]["cleanup.policy"]["value"] == "delete"
    assert described["broker"]["2"]["broker.id"]["value"] == "2"
    assert described["broker"]["2"]["broker.id"]["config_source"] == "STATIC_BROKER_CONFIG"


@pytest.mark.parametrize("incremental", [True, False])
def test_settings_of_a_broker_are_changed(admin: KafkaAdminClient, incremental: bool) -> None:
    """Without `incremental` the client sends everything that was changed before as well."""

    def alter(configs: dict[str, Any], *, incremental: bool = incremental) -> None:
        resource = ConfigResource(ConfigResourceType.BROKER, "2", configs=configs)
        admin.alter_configs([resource], incremental=incremental)

    def described() -> list[tuple[str, str]]:
        resource = ConfigResource(ConfigResourceType.BROKER, "2")
        entries = admin.describe_configs([resource], config_filter="all")["broker"]["2"]
        keys = ("log.roll.ms", "log.retention.bytes")
        return [(entries[key]["value"], entries[key]["config_source"]) for key in keys]

    alter({"log.roll.ms": "12345"})
    alter({"log.retention.bytes": "777"})
    assert described() == [("12345", "DYNAMIC_BROKER_CONFIG"), ("777", "DYNAMIC_BROKER_CONFIG")]
    alter(dict.fromkeys(("log.roll.ms", "log.retention.bytes"), ("DELETE", None)), incremental=True)
    assert described() == [("604800000", "DEFAULT_CONFIG"), ("-1", "DEFAULT_CONFIG")]
    with pytest.raises(ValueError, match=r"broker\.id"):
        alter({"broker.id": "7"})


def test_offsets_are_listed(
    cluster: Cluster, admin: KafkaAdminClient, consumer: KafkaConsumer, topic: str
) -> None:
    produce(cluster, topic, SAMPLES)
    first, last = TopicPartition(topic, 0), TopicPartition(topic, 2)

    assert consumer.beginning_offsets([first, last]) == {first: 0, last: 0}
    assert consumer.end_offsets([first, last]) == {first: 5, last: 200}
    found = consumer.offsets_for_times({first: NOW_MS + 3, last: NOW_MS + 100})
    assert (found[first].offset, found[first].timestamp) == (1, NOW_MS + 5)
    assert (found[last].offset, found[last].timestamp) == (100, NOW_MS + 100)
    assert consumer.offsets_for_times({last: NOW_MS + 1000}) == {last: None}
    newest = admin.list_partition_offsets({first: OffsetSpec.MAX_TIMESTAMP})
    assert newest[first].offset == 1


def test_records_are_deleted(
    cluster: Cluster, admin: KafkaAdminClient, consumer: KafkaConsumer, topic: str
) -> None:
    produce(cluster, topic, SAMPLES)
    first, last = TopicPartition(topic, 0), TopicPartition(topic, 2)

    deleted = admin.delete_records({first: -1, last: 150})

    assert {partition: each["low_watermark"] for partition, each in deleted.items()} == {
        first: 5,
        last: 150,
    }
    assert consumer.beginning_offsets([first, last]) == {first: 5, last: 150}
    with pytest.raises(errors.OffsetOutOfRangeError):
        admin.delete_records({last: 201})


def test_unknown_topic_is_an_error(admin: KafkaAdminClient) -> None:
    name = unique_name("missing")
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name])
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.create_partitions({name: 2})
    with pytest.raises(errors.UnknownTopicIdError):
        admin.delete_topics([uuid.uuid4()])
    assert name not in admin.list_topics()


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("existing", {}, errors.TopicAlreadyExistsError),
        ("refused", {"replication_factor": 4}, errors.InvalidReplicationFactorError),
        ("refused", {"num_partitions": 0}, errors.InvalidPartitionsError),
        ("a/b", {}, errors.InvalidTopicError),
        (".", {}, errors.InvalidTopicError),
        ("x" * 250, {}, errors.InvalidTopicError),
        ("refused", {"configs": {"no.such": "1"}}, errors.InvalidConfigurationError),
        ("refused", {"assignments": {0: [7]}}, errors.InvalidReplicationAssignmentError),
        ("refused", {"assignments": {1: [0]}}, errors.InvalidReplicationAssignmentError),
        (
            "refused",
            {"assignments": {0: [0]}, "num_partitions": 1},
            errors.InvalidRequestError,
        ),
    ],
)
def test_invalid_topics_are_refused(
    cluster: Cluster,
    admin: KafkaAdminClient,
    name: str,
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    if name == "existing" and name not in admin.list_topics():
        create_topic(cluster, name, replication_factor=1)

    with pytest.raises(error):
        admin.create_topics({name: options})


def test_too_large_message_is_refused(cluster: Cluster, admin: KafkaAdminClient) -> None:
    name = unique_name("small")
    admin.create_topics({name: {"configs": {"max.message.bytes": "1000"}}})

    (sent,) = produce(cluster, name, [Sample(0, None, bytes(2000))])

    assert isinstance(sent, errors.MessageSizeTooLargeError)


def test_fetch_beyond_the_end_starts_over(
    cluster: Cluster, consumer: KafkaConsumer, topic: str
) -> None:
    produce(cluster, topic, SAMPLES)
    partition = TopicPartition(topic, 1)
    consumer.assign([partition])
    consumer.seek(partition, 10_000)

    records = wait_until(lambda: consumer.poll(timeout_ms=200), "records")

    assert [record.offset for record in records[partition]] == [0, 1, 2, 3]


def test_producer_creates_missing_topics(cluster: Cluster, admin: KafkaAdminClient) -> None:
    name = unique_name("auto")

    (sent,) = produce(cluster, name, [Sample(0, b"k", b"v")])

    assert (sent.topic, sent.partition, sent.offset) == (name, 0, 0)
    (described,) = admin.describe_topics([name])
    assert [len(p["replica_nodes"]) for p in described["partitions"]] == [3]
