"""DescribeTopicPartitions (API key 75), version 0 (KIP-966).

The requested topics by name, or all that the client may see, up to a number of partitions; the
cursor in the answer is where the next request begins. Answered in slices if there are many.
The lists of eligible leader replicas are empty, as in a Kafka cluster without that feature.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from cluster.brokers.handlers.access import DESCRIBE_TOPIC, may
from cluster.brokers.handlers.authorized_operations import authorized_operations
from cluster.brokers.handlers.metadata import live_brokers, offline_replicas
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.brokers.handlers.sliced_answer import gathered
from cluster.config.broker import MAX_REQUEST_PARTITION_SIZE_LIMIT
from cluster.model.acls import ResourceType
from cluster.model.cluster import PartitionState, TopicState
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId
from cluster.model.topics import INTERNAL_TOPICS, check_topic_name
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicPartitionsCursor,
)
from cluster.protocol.messages.describe_topic_partitions import (
    write_describe_topic_partitions_response_partition,
)
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0)

_NO_LEADER: Final = -1
_PER_STEP: Final = 50


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext, services: AdminServices
) -> DescribeTopicPartitionsResponse | NotYet:
    """INVALID_REQUEST for every topic if the cursor is not in one of the requested topics."""
    cursor = request.cursor
    if cursor is not None and not _is_valid(cursor, request):
        return _response(
            [_failed(topic.name, ErrorCode.invalid_request) for topic in request.topics]
        )
    description = _Description(request, context, services)
    return gathered(description.steps(), description.answer, context, services.slices)


def _is_valid(cursor: TopicPartitionsCursor, request: DescribeTopicPartitionsRequest) -> bool:
    is_requested = not request.topics or any(
        topic.name == cursor.topic_name for topic in request.topics
    )
    return is_requested and cursor.partition_index >= 0


class _Description:
    """One answer while it is gathered."""

    def __init__(
        self,
        request: DescribeTopicPartitionsRequest,
        context: RequestContext,
        services: AdminServices,
    ) -> None:
        self._wants_all = not request.topics
        self._context = context
        self._services = services
        first = request.cursor
        self._first = first or TopicPartitionsCursor(topic_name="", partition_index=0)
        self._remaining = max(
            1,
            min(
                services.settings[MAX_REQUEST_PARTITION_SIZE_LIMIT],
                request.response_partition_limit,
            ),
        )
        asked = {topic.name for topic in request.topics} or services.metadata.topics
        self._names = sorted(name for name in asked if name >= self._first.topic_name)
        self._found: list[DescribeTopicPartitionsResponseTopic] = []
        self._denied: list[DescribeTopicPartitionsResponseTopic] = []
        self._next: TopicPartitionsCursor | None = None

    def answer(self) -> DescribeTopicPartitionsResponse:
        """The answer after the last of the steps."""
        return _response([*self._found, *self._denied], self._next)

    def steps(self) -> Iterator[None]:
        """Describe partitions until there are enough; a step takes less than a millisecond."""
        for count, name in enumerate(self._names, 1):
            if not may(
                self._services,
                self._context,
                DESCRIBE_TOPIC,
                name,
                is_audited=not self._wants_all,
            ):
                if not self._wants_all:
                    self._denied.append(_failed(name, ErrorCode.topic_authorization_failed))
            elif not self._remaining:
                self._next = TopicPartitionsCursor(topic_name=name, partition_index=0)
            else:
                yield from self._describe(name)
            if self._next is not None:
                return
            if count % _PER_STEP == 0:
                yield

    def _describe(self, name: str) -> Iterator[None]:
        services = self._services
        topic = services.metadata.topics.get(name)
        if topic is None:
            if not self._wants_all:
                self._found.append(self._missing(name))
            return
        start = self._first.partition_index if name == self._first.topic_name else 0
        end = min(len(topic.partitions), start + self._remaining)
        live = live_brokers(services)
        content = bytearray()
        for number in range(start, end):
            partition = self._partition(topic, number, topic.partitions[number], live)
            write_describe_topic_partitions_response_partition(content, partition, API.max_version)
            if (number - start) % _PER_STEP == _PER_STEP - 1:
                yield
        count = max(0, end - start)
        self._found.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.none,
                name=name,
                topic_id=topic.topic_id,
                is_internal=name in INTERNAL_TOPICS,
                partitions=EncodedItems(count, content),
                topic_authorized_operations=self._operations(name),
            )
        )
        self._remaining -= count
        if end < len(topic.partitions):
            self._next = TopicPartitionsCursor(topic_name=name, partition_index=end)

    def _partition(
        self, topic: TopicState, number: int, state: PartitionState, live: set[BrokerId]
    ) -> DescribeTopicPartitionsResponsePartition:
        services = self._services
        is_led = (
            state.leader in live
            and services.metadata.endpoint(state.leader, self._context.listener) is not None
        )
        return DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.none,
            partition_index=number,
            leader_id=state.leader if is_led else _NO_LEADER,
            leader_epoch=state.leader_epoch,
            replica_nodes=state.replicas,
            isr_nodes=state.isr,
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=offline_replicas(topic, number, state, live, services),
        )

    def _missing(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        code = ErrorCode.unknown_topic_or_partition
        try:
            check_topic_name(name)
        except Refused as refused:
            code = refused.code
        return _failed(
            name,
            code,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._operations(name),
        )

    def _operations(self, name: str) -> int:
        return authorized_operations(self._services, self._context, ResourceType.TOPIC, name)


def _failed(name: str, code: ErrorCode, **others: Any) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=None, partitions=(), **others
    )


def _response(
    topics: list[DescribeTopicPartitionsResponseTopic],
    next_cursor: TopicPartitionsCursor | None = None,
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        throttle_time=timedelta(0), topics=tuple(topics), next_cursor=next_cursor
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DESCRIBE_TOPIC,))
