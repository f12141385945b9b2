"""Asks brokers what their log directories hold, and moves replicas among them (KIP-113)."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from cluster.client.quota_requests import Caller
from cluster.client.topic_requests import Place, by_topic
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)


class ReplicaFacts(NamedTuple):
    """One replica in a log directory; `is_future` where it is being moved there."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirFacts(NamedTuple):
    """One log directory; sizes of its volume are -1 where the broker does not say."""

    path: str
    error: ErrorCode
    replicas: tuple[ReplicaFacts, ...]
    total_bytes: int
    usable_bytes: int


def describe_log_dirs(
    client: Caller, topics: Collection[str] = (), *, places: Iterable[Place] | None = None
) -> list[LogDirFacts]:
    """The log directories of the broker that the client is connected to, replicas sorted.

    With `topics` those of other topics are left out; the broker is asked for `places` alone if
    they are given. Raises Refused.
    """
    response = client.call(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=_asked(places)))
    if response.error_code is not ErrorCode.none:
        raise Refused(response.error_code, "")
    return [
        LogDirFacts(
            result.log_dir,
            result.error_code,
            tuple(
                sorted(
                    ReplicaFacts(
                        topic.name,
                        found.partition_index,
                        found.partition_size,
                        found.offset_lag,
                        found.is_future_key,
                    )
                    for topic in result.topics
                    if not topics or topic.name in topics
                    for found in topic.partitions
                )
            ),
            result.total_bytes,
            result.usable_bytes,
        )
        for result in response.results
    ]


def _asked(places: Iterable[Place] | None) -> tuple[DescribableLogDirTopic, ...] | None:
    if places is None:
        return None
    return tuple(
        DescribableLogDirTopic(topic=topic, partitions=tuple(numbers))
        for topic, numbers in by_topic(places).items()
    )


def alter_replica_log_dirs(client: Caller, paths: Mapping[Place, str]) -> dict[Place, ErrorCode]:
    """Have the broker that the client is connected to move replicas to other log directories.

    Returns whether each move has begun.
    """
    asked: dict[str, dict[str, list[int]]] = {}
    for place, path in paths.items():
        asked.setdefault(path, {}).setdefault(place.topic, []).append(place.partition)
    request = AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=topic, partitions=tuple(numbers))
                    for topic, numbers in topics.items()
                ),
            )
            for path, topics in asked.items()
        )
    )
    return {
        Place(topic.topic_name, each.partition_index): each.error_code
        for topic in client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, request).results
        for each in topic.partitions
    }
