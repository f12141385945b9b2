"""Descriptions of topics, from the answers of a broker that knows what a test says."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from cluster.client.reassignment_requests import OngoingReassignment
from cluster.client.topic_requests import ClusterFacts, PartitionFacts, TopicFacts
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from cluster.tools.topics.description import PartitionDescription
from cluster.tools.topics.requests import describe_topics

ORDERS = TopicFacts(
    "orders",
    False,
    (PartitionFacts(0, 1, (1, 2), (1,)), PartitionFacts(1, None, (2, 0), (2,))),
    UUID("29cd1b73-32f8-41c7-9a48-7686f80d7b65"),
)


def setting(name: str, value: str, source: Source) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=False,
        is_sensitive=False,
        config_source=int(source),
        synonyms=(),
        documentation=None,
    )


class Broker:
    """Describes the settings of every topic but those that are gone."""

    def __init__(self, *gone: str) -> None:
        self.gone = gone
        self.reassignments: ListPartitionReassignmentsResponse | None = None

    def serves(self, _api_key: int) -> bool:
        return self.reassignments is not None

    def call(self, api_key: int, request: Any) -> Any:
        if api_key == ApiKey.LIST_PARTITION_REASSIGNMENTS:
            return self.reassignments
        return self._described(request)

    def _described(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        entries = (
            setting("retention.ms", "60000", Source.DYNAMIC_TOPIC),
            setting("min.insync.replicas", "2", Source.STATIC_BROKER),
            setting("cleanup.policy", "delete", Source.DEFAULT),
        )
        return DescribeConfigsResponse(
            throttle_time=timedelta(0),
            results=tuple(
                DescribeConfigsResult(
                    error_code=ErrorCode.unknown_topic_or_partition if is_gone else ErrorCode.none,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=() if is_gone else entries,
                )
                for each in request.resources
                for is_gone in [each.resource_name in self.gone]
            ),
        )


class Cluster:
    """An `Admin` with one broker."""

    def __init__(self, broker: Broker, *topics: TopicFacts) -> None:
        self._broker = broker
        self._topics = topics

    def facts(self) -> ClusterFacts:
        return ClusterFacts(0, self._topics)

    def any_broker(self, ask: Callable[[Any], Any]) -> Any:
        return ask(self._broker)

    def broker(self, broker_id: int, ask: Callable[[Any], Any]) -> Any:
        assert broker_id == 0
        return ask(self._broker)


def test_a_topic_is_described_with_what_was_set() -> None:
    admin: Any = Cluster(Broker(), ORDERS)
    (described,) = describe_topics(admin, ["orders"])
    assert described.id == "Kc0bczL4QceaSHaG-A17ZQ"
    assert described.configs == {"retention.ms": "60000", "min.insync.replicas": "2"}
    assert described.min_isr == 2
    assert described.partitions == (
        PartitionDescription(0, 1, (1, 2), (1,)),
        PartitionDescription(1, None, (2, 0), (2,)),
    )


def test_partitions_that_are_being_moved_are_described_so() -> None:
    broker = Broker()
    row = OngoingPartitionReassignment(
        partition_index=1, replicas=(2, 0), adding_replicas=(2,), removing_replicas=(0,)
    )
    broker.reassignments = ListPartitionReassignmentsResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        topics=(OngoingTopicReassignment(name="orders", partitions=(row,)),),
    )
    admin: Any = Cluster(broker, ORDERS)
    (described,) = describe_topics(admin, ["orders"])
    assert [each.reassignment for each in described.partitions] == [
        None,
        OngoingReassignment((2, 0), (2,), (0,)),
    ]
    broker.reassignments.error_code = ErrorCode.cluster_authorization_failed
    (described,) = describe_topics(admin, ["orders"])
    assert [each.reassignment for each in described.partitions] == [None, None]


def test_a_topic_that_is_deleted_meanwhile_is_left_out_or_has_no_settings() -> None:
    gone: Any = Cluster(Broker())
    assert describe_topics(gone, ["orders"]) == []
    going: Any = Cluster(Broker("orders"), ORDERS)
    assert describe_topics(going, ["orders"])[0].configs == {}


def test_internal_topics_are_counted_or_left_out() -> None:
    offsets = TopicFacts("__offsets", True, (PartitionFacts(0, 0, (0,), (0,)),))
    facts = ClusterFacts(0, (offsets, ORDERS))
    assert facts.partition_counts() == {"orders": 2, "__offsets": 1}
    assert facts.partition_counts(exclude_internal=True) == {"orders": 2}
