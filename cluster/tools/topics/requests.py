"""The requests of `topics`, through confluent-kafka's admin client.

Prints nothing. Every request raises KafkaException with the cluster's refusal.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster.tools.configs.requests import topic_configs
from cluster.tools.kafka_connection import REQUEST_TIMEOUT_S, answer_of_controller
from cluster.tools.topics.description import PartitionDescription, TopicDescription, url_safe

if TYPE_CHECKING:
    from confluent_kafka import Node, TopicPartitionInfo, admin

_PATIENCE: Final = {"operation_timeout": REQUEST_TIMEOUT_S, "request_timeout": REQUEST_TIMEOUT_S}


def partition_counts(
    client: "admin.AdminClient", *, exclude_internal: bool = False
) -> dict[str, int]:
    """Every topic with the number of its partitions."""
    topics = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    if not exclude_internal:
        return {name: len(topic.partitions) for name, topic in topics.items()}
    described = _described(client, list(topics))
    return {topic.name: len(topic.partitions) for topic in described if not topic.is_internal}


def create_topic(
    client: "admin.AdminClient",
    name: str,
    *,
    partitions: int | None,
    replication_factor: int | None,
    replicas: list[list[int]] | None,
    configs: Mapping[str, str],
) -> None:
    """Create a topic; returns when every live broker knows it.

    None for `partitions` or `replication_factor` takes the broker's default (KIP-464). Raises
    ValueError for a number beyond the client's limits.
    """
    from confluent_kafka.admin import NewTopic

    if replicas is None:
        topic = NewTopic(name, partitions or -1, replication_factor or -1, config=dict(configs))
    else:
        topic = NewTopic(name, len(replicas), replica_assignment=replicas, config=dict(configs))
    answer_of_controller(client, lambda: client.create_topics([topic], **_PATIENCE))


def add_partitions(
    client: "admin.AdminClient", name: str, count: int, replicas: list[list[int]] | None
) -> None:
    """Grow a topic to `count` partitions; `replicas` are those of the new ones."""
    from confluent_kafka.admin import NewPartitions

    chosen: dict[str, Any] = {} if replicas is None else {"replica_assignment": replicas}
    topic = NewPartitions(name, count, **chosen)
    answer_of_controller(client, lambda: client.create_partitions([topic], **_PATIENCE))


def delete_topic(client: "admin.AdminClient", name: str) -> None:
    """Delete a topic; returns when no live broker knows it any more."""
    answer_of_controller(client, lambda: client.delete_topics([name], **_PATIENCE))


def describe_topics(client: "admin.AdminClient", names: Sequence[str]) -> list[TopicDescription]:
    """Descriptions in the order of the names, without topics that have been deleted meanwhile."""
    topics = _described(client, names)
    configs = topic_configs(client, [topic.name for topic in topics])
    return [
        TopicDescription(
            name=topic.name,
            id=url_safe(str(topic.topic_id)),
            configs={
                entry.name: entry.value
                for entry in configs.get(topic.name, ())
                if not entry.is_default
            },
            partitions=tuple(map(_partition, sorted(topic.partitions, key=lambda part: part.id))),
            min_isr=_min_isr(configs.get(topic.name, ())),
        )
        for topic in topics
    ]


def _described(client: "admin.AdminClient", names: Sequence[str]) -> "list[admin.TopicDescription]":
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    if not names:
        return []
    wanted = TopicCollection(list(names))
    futures = client.describe_topics(wanted, request_timeout=REQUEST_TIMEOUT_S)
    topics = []
    for name in names:
        try:
            topics.append(futures[name].result())
        except KafkaException as refusal:
            if refusal.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    return topics


def _partition(partition: "TopicPartitionInfo") -> PartitionDescription:
    return PartitionDescription(
        id=partition.id,
        leader=_id(partition.leader),
        replicas=tuple(replica.id for replica in partition.replicas),
        isr=tuple(replica.id for replica in partition.isr),
    )


def _id(node: "Node | None") -> int | None:
    """The broker's id; None for a partition without a leader."""
    return None if node is None else node.id


def _min_isr(entries: Iterable[Any]) -> int:
    """The value of `min.insync.replicas` among a topic's settings; Kafka's default without it."""
    found = {entry.name: entry.value for entry in entries}
    return int(found.get("min.insync.replicas") or 1)
