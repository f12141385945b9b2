"""Finds the local replica that a request names."""

import uuid

from cluster.brokers.handlers.services import DataServices
from cluster.brokers.replication.partition import Partition
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition


def find_partition(
    services: DataServices,
    topic: str | None,
    index: int,
    topic_id: uuid.UUID | None = None,
    other_id: ErrorCode = ErrorCode.unknown_topic_id,
) -> Partition:
    """The local replica, whether it leads or not.

    `topic` is None if the topic id is unknown. Raises Refused: unknown_topic_id,
    unknown_topic_or_partition, not_leader_or_follower for a partition without a replica here,
    kafka_storage_error for one that is offline with its log directory (KIP-112), and `other_id` if
    the local replica belongs to an earlier topic of that name.
    """
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_id)
    partition = services.partitions.find((topic, index))
    if partition is None:
        if services.partitions.offline.find(TopicPartition(topic, index)) is not None:
            raise Refused(ErrorCode.kafka_storage_error, f"{topic}-{index} is offline")
        known = services.metadata.partition(TopicPartition(topic, index)) is not None
        raise Refused(
            ErrorCode.not_leader_or_follower if known else ErrorCode.unknown_topic_or_partition
        )
    if topic_id is not None and partition.topic_id != topic_id:
        raise Refused(other_id)
    return partition
