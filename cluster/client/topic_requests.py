"""Asks a broker for topics, their partitions and configs, and makes, grows and deletes topics."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from cluster.client.config_requests import topic_configs
from cluster.client.quota_requests import Caller
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    MetadataRequest,
    MetadataRequestTopic,
)

_NO_LEADER: Final = -1
_DEFAULT: Final = -1
"""The brokers choose (KIP-464)."""
_NO_TOPIC: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception}
)
_TIMEOUT: Final = timedelta(seconds=25)
"""How long a controller may wait until live brokers know of a change."""


PartitionT = TypeVar("PartitionT")
LeaderT = TypeVar("LeaderT")


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic."""
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found


def by_leader(
    leaders: Iterable[tuple[PartitionT, LeaderT | None]],
) -> dict[LeaderT, list[PartitionT]]:
    """The partitions that each leader leads, from their leaders; None leads nothing."""
    found: dict[LeaderT, list[PartitionT]] = {}
    for partition, leader in leaders:
        if leader is not None:
            found.setdefault(leader, []).append(partition)
    return found


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
    """By number."""
    id: UUID | None = None


class ClusterFacts(NamedTuple):
    """What Metadata says of a cluster."""

    controller: int | None
    topics: tuple[TopicFacts, ...]
    """By name."""
    brokers: Mapping[int, tuple[str, int]] = {}
    """Host and port of each live broker, by id."""
    racks: Mapping[int, str | None] = {}
    """The rack of each live broker, None for one without."""

    def replicas(self) -> dict[Place, tuple[int, ...]]:
        """The replicas of every partition, the preferred leader first."""
        return {
            Place(topic.name, each.number): each.replicas
            for topic in self.topics
            for each in topic.partitions
        }

    def partition_counts(self, *, exclude_internal: bool = False) -> dict[str, int]:
        """Every topic with the number of its partitions."""
        return {
            topic.name: len(topic.partitions)
            for topic in self.topics
            if not (exclude_internal and topic.is_internal)
        }


def cluster_facts(client: Caller) -> ClusterFacts:
    """Every topic that may be described. Raises UserError when the connection is lost."""
    told = client.call(
        ApiKey.METADATA,
        MetadataRequest(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        ),
    )
    topics = [
        _facts_of(topic)
        for topic in told.topics
        if topic.name is not None and topic.error_code is ErrorCode.none
    ]
    controller = told.controller_id
    return ClusterFacts(
        None if controller < 0 else controller,
        tuple(sorted(topics, key=lambda topic: topic.name)),
        {broker.node_id: (broker.host, broker.port) for broker in told.brokers},
        {broker.node_id: broker.rack for broker in told.brokers},
    )


def topic_facts(client: Caller, name: str) -> TopicFacts | None:
    """One topic; None if it does not exist. Raises Refused, UserError."""
    asked = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=name),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    (topic,) = client.call(ApiKey.METADATA, asked).topics
    if topic.error_code in _NO_TOPIC:
        return None
    _check(topic.error_code, None)
    return _facts_of(topic)


def _facts_of(topic: Any) -> TopicFacts:
    return TopicFacts(
        topic.name or "",
        topic.is_internal,
        tuple(
            PartitionFacts(
                each.partition_index,
                None if each.leader_id == _NO_LEADER else each.leader_id,
                each.replica_nodes,
                each.isr_nodes,
            )
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ),
        topic.topic_id,
    )


def create_topic(
    client: Caller,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    replicas: Sequence[Sequence[int]] | None = None,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Have the controller create a topic; returns when every live broker knows it.

    The brokers choose numbers that are None; `replicas` lists the brokers of each partition.
    Raises Refused.
    """
    if replicas is not None:
        partitions = replication_factor = None
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions or _DEFAULT,
        replication_factor=replication_factor or _DEFAULT,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(brokers))
            for number, brokers in enumerate(replicas or ())
        ),
        configs=tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ),
    )
    told = client.call(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=(topic,), timeout=_TIMEOUT))
    for result in told.topics:
        _check(result.error_code, result.error_message)


def add_partitions(
    client: Caller, name: str, count: int, replicas: Sequence[Sequence[int]] | None = None
) -> None:
    """Have the controller grow a topic to `count` partitions; `replicas` are of the new ones.

    Raises Refused.
    """
    topic = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if replicas is None
        else tuple(CreatePartitionsAssignment(broker_ids=tuple(brokers)) for brokers in replicas),
    )
    request = CreatePartitionsRequest(topics=(topic,), timeout=_TIMEOUT, validate_only=False)
    for result in client.call(ApiKey.CREATE_PARTITIONS, request).results:
        _check(result.error_code, result.error_message)


def delete_topic(client: Caller, name: str) -> None:
    """Have the controller delete a topic; returns when no live broker knows it. Raises Refused."""
    request = DeleteTopicsRequest(
        topic_names=(name,),
        topics=(DeleteTopicState(name=name, topic_id=None),),
        timeout=_TIMEOUT,
    )
    for result in client.call(ApiKey.DELETE_TOPICS, request).responses:
        _check(result.error_code, result.error_message)


def _check(code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.none:
        raise Refused(code, message or "")


def own_configs(client: Caller, names: Collection[str]) -> dict[str, dict[str, str]]:
    """The configs that were set for each of these topics; one that is gone is left out.

    Raises UserError when the connection is lost.
    """
    return {
        name: {
            entry.name: entry.value or ""
            for entry in entries
            if entry.config_source == Source.DYNAMIC_TOPIC
        }
        for name, entries in topic_configs(client, names).items()
    }
