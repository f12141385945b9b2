"""Asks a broker for topics, their partitions and their own configs."""

from collections.abc import Collection
from typing import Final, NamedTuple

from cluster.client.config_requests import RESOURCE_TYPES
from cluster.client.quota_requests import Caller
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    MetadataRequest,
)

_NO_LEADER: Final = -1


class PartitionFacts(NamedTuple):
    """One partition, as the asked broker knows it."""

    number: int
    leader: int | None
    """None: the partition is offline."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is out of sync."""
        return len(self.isr) < len(self.replicas)


class TopicFacts(NamedTuple):
    """One topic."""

    name: str
    is_internal: bool
    partitions: tuple[PartitionFacts, ...]


class ClusterFacts(NamedTuple):
    """What Metadata says of a cluster."""

    controller: int | None
    topics: tuple[TopicFacts, ...]
    """By name."""


def cluster_facts(client: Caller) -> ClusterFacts:
    """Every topic that may be described. Raises UserError when the connection is lost."""
    told = client.call(
        ApiKey.METADATA,
        MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        ),
    )
    topics = [
        TopicFacts(
            topic.name,
            topic.is_internal,
            tuple(
                PartitionFacts(
                    each.partition_index,
                    None if each.leader_id == _NO_LEADER else each.leader_id,
                    each.replica_nodes,
                    each.isr_nodes,
                )
                for each in topic.partitions
            ),
        )
        for topic in told.topics
        if topic.name is not None and topic.error_code is ErrorCode.none
    ]
    controller = told.controller_id
    return ClusterFacts(
        None if controller < 0 else controller,
        tuple(sorted(topics, key=lambda topic: topic.name)),
    )


def own_configs(client: Caller, names: Collection[str]) -> dict[str, dict[str, str]]:
    """The configs that were set for each of these topics; one that is gone is left out.

    Raises UserError when the connection is lost.
    """
    if not names:
        return {}
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=RESOURCE_TYPES["topics"], resource_name=name, configuration_keys=None
            )
            for name in names
        )
    )
    return {
        result.resource_name: {
            entry.name: entry.value or ""
            for entry in result.configs
            if entry.config_source == Source.DYNAMIC_TOPIC
        }
        for result in client.call(ApiKey.DESCRIBE_CONFIGS, request).results
        if result.error_code is ErrorCode.none
    }
