"""Asks brokers what their log directories hold (KIP-113)."""

from collections.abc import Collection
from typing import Final, NamedTuple

from cluster.client.quota_requests import Caller
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import DescribeClusterRequest, DescribeLogDirsRequest

_BROKERS: Final = 1


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


def brokers_of(client: Caller) -> dict[int, tuple[str, int]]:
    """Host and port of every live broker, by id. Raises Refused."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=_BROKERS,
        include_fenced_brokers=False,
    )
    response = client.call(ApiKey.DESCRIBE_CLUSTER, request)
    if response.error_code is not ErrorCode.none:
        raise Refused(response.error_code, response.error_message or "")
    return {broker.broker_id: (broker.host, broker.port) for broker in response.brokers}


def describe_log_dirs(client: Caller, topics: Collection[str] = ()) -> list[LogDirFacts]:
    """The log directories of the broker that the client is connected to, replicas sorted.

    With `topics` those of other topics are left out. Raises Refused.
    """
    response = client.call(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
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
