"""Configs of topics, changed in use: AlterConfigs, IncrementalAlterConfigs, their effect."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)

from cluster.model.errors import ErrorCode
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.compat

SET = AlterConfigOpType.SET
DELETE = AlterConfigOpType.DELETE
APPEND = AlterConfigOpType.APPEND
SUBTRACT = AlterConfigOpType.SUBTRACT


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def change(
    admin: AdminClient, topic: str, *operations: tuple[str, AlterConfigOpType, str], **options: bool
) -> None:
    """IncrementalAlterConfigs of one topic; raises KafkaException as the broker refuses it."""
    entries = [ConfigEntry(key, value, incremental_operation=op) for key, op, value in operations]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    (future,) = admin.incremental_alter_configs([resource], **options).values()
    future.result(DEADLINE_S)


def own_configs(cluster: Cluster, topic: str) -> list[dict[str, str]]:
    """The configs set for the topic itself, as each broker describes them."""
    found = []
    for host, port in cluster.addresses:
        asked = AdminClient({"bootstrap.servers": f"{host}:{port}"})
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (future,) = asked.describe_configs([resource]).values()
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        configs = future.result(DEADLINE_S).values()
        found.append({each.name: each.value for each in configs if each.source == own})
    return found


def produce_error(cluster: Cluster, topic: str, value: bytes, **config: object) -> int | None:
    """The code that the record's delivery fails with, None when it is acknowledged."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **config})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    (error,) = errors
    return None if error is None else error.code()


def test_values_are_set_appended_subtracted_and_deleted(
    cluster: Cluster, admin: AdminClient
) -> None:
    topic = create_topic(cluster, configs={"retention.ms": "1000"})

    change(admin, topic, ("cleanup.policy", APPEND, "compact"), ("segment.bytes", SET, "1048576"))
    assert own_configs(cluster, topic) == 3 * [
        {"retention.ms": "1000", "cleanup.policy": "delete,compact", "segment.bytes": "1048576"}
    ]

    change(admin, topic, ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, ""))
    assert own_configs(cluster, topic) == 3 * [
        {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    ]


def test_alter_configs_replaces_all_values_of_a_topic(cluster: Cluster, admin: AdminClient) -> None:
    topic = create_topic(cluster, configs={"retention.ms": "1000", "flush.ms": "5"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, {"retention.ms": "2000"})
    with pytest.warns(DeprecationWarning, match="incremental"):
        (future,) = admin.alter_configs([resource]).values()
    future.result(DEADLINE_S)
    assert own_configs(cluster, topic) == 3 * [{"retention.ms": "2000"}]


def test_a_change_counts_for_the_next_record(cluster: Cluster, admin: AdminClient) -> None:
    topic = create_topic(cluster, replication_factor=1)
    large = bytes(5_000)
    assert produce_error(cluster, topic, large, acks="all") is None

    change(admin, topic, ("max.message.bytes", SET, "1000"))
    assert produce_error(cluster, topic, large) == KafkaError.MSG_SIZE_TOO_LARGE
    change(admin, topic, ("max.message.bytes", DELETE, ""), ("min.insync.replicas", SET, "2"))
    assert (
        produce_error(cluster, topic, large, **{"acks": "all", "retries": 0})
        == KafkaError.NOT_ENOUGH_REPLICAS
    )
    assert produce_error(cluster, topic, large, acks=1) is None

    change(admin, topic, ("min.insync.replicas", DELETE, ""))
    assert produce_error(cluster, topic, large, acks="all") is None


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (("retention.ms", SET, "soon"), ErrorCode.invalid_config),
        (("max.message.bytes", SET, "-1"), ErrorCode.invalid_config),
        (("cleanup.policy", APPEND, "shred"), ErrorCode.invalid_config),
        (("retention", SET, "1"), ErrorCode.invalid_config),
        (("retention.ms", APPEND, "1"), ErrorCode.invalid_config),
    ],
)
def test_bad_values_are_refused_and_nothing_is_changed(
    cluster: Cluster,
    admin: AdminClient,
    operation: tuple[str, AlterConfigOpType, str],
    code: ErrorCode,
) -> None:
    topic = create_topic(cluster)
    with pytest.raises(KafkaException) as refused:
        change(admin, topic, ("flush.ms", SET, "7"), operation)
    assert (refused.value.args[0].code(), own_configs(cluster, topic)) == (code, [{}, {}, {}])


def test_validate_only_changes_nothing_and_an_unknown_topic_is_an_error(
    cluster: Cluster, admin: AdminClient
) -> None:
    topic = create_topic(cluster)
    change(admin, topic, ("flush.ms", SET, "7"), validate_only=True)
    assert own_configs(cluster, topic) == [{}, {}, {}]
    with pytest.raises(KafkaException) as refused:
        change(admin, "nowhere-at-all", ("flush.ms", SET, "7"))
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
