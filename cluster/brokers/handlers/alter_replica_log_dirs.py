"""AlterReplicaLogDirs (API key 34), versions 1-2.

Answers immediately. This broker's replicas are moved in the background (KIP-113); DescribeLogDirs
reports the progress.
v2 flexible.
"""

from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, may
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

API: Final = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2)


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext, services: AdminServices
) -> AlterReplicaLogDirsResponse:
    """One result per partition. If a partition is listed with several directories, the last one
    counts, as in Kafka.
    """
    may_alter = may(services, context, ALTER_CLUSTER)
    wanted = {
        TopicPartition(topic.name, number): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for number in topic.partitions
    }
    results: defaultdict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for partition, path in wanted.items():
        results[partition.topic].append(
            AlterReplicaLogDirPartitionResult(
                partition_index=partition.partition,
                error_code=_move(partition, path, services)
                if may_alter
                else ErrorCode.cluster_authorization_failed,
            )
        )
    return AlterReplicaLogDirsResponse(
        throttle_time=timedelta(0),
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=tuple(partitions))
            for topic, partitions in results.items()
        ),
    )


def _move(partition: TopicPartition, path: str, services: AdminServices) -> ErrorCode:
    try:
        services.moves.move(partition, Path(path))
    except Refused as refused:
        return refused.code
    return ErrorCode.none


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER,))
