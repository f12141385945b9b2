"""OffsetDelete (API key 47), version 0.

The answer is sent when every in-sync replica has the tombstones. This handler refuses partitions
that do not exist; the coordinator refuses those of a topic that a member subscribes to
(GROUP_SUBSCRIBED_TO_TOPIC).
"""

from collections.abc import Collection
from typing import Final

from cluster.brokers.handlers.access import DELETE_GROUP, READ_TOPIC, allowed_among
from cluster.brokers.handlers.group_requests import NO_TIME, answered, find_group
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import DeleteOffsets, DeleteOffsetsReply, TopicPartitions
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API: Final = Api(ApiKey.OFFSET_DELETE, 0, 0)


def handle(
    request: OffsetDeleteRequest, context: RequestContext, services: GroupServices
) -> OffsetDeleteResponse | NotYet:
    """Delete committed offsets of a group."""
    known: dict[str, list[int]] = {}
    readable = allowed_among(services, context, READ_TOPIC, (each.name for each in request.topics))
    for topic in request.topics:
        for asked in topic.partitions:
            partition = TopicPartition(topic.name, asked.partition_index)
            if topic.name in readable and services.metadata.partition(partition) is not None:
                known.setdefault(topic.name, []).append(asked.partition_index)
    try:
        group = find_group(services, context, DELETE_GROUP, request.group_id)
    except Refused as refused:
        return _response(request, DeleteOffsetsReply(refused.code), readable)
    topics = tuple(TopicPartitions(name, tuple(numbers)) for name, numbers in known.items())
    deletion = DeleteOffsets(request.group_id, topics)

    def response_of(reply: DeleteOffsetsReply) -> OffsetDeleteResponse:
        return _response(request, reply, readable)

    return answered(context, group, deletion, response_of)


def _response(
    request: OffsetDeleteRequest, reply: DeleteOffsetsReply, readable: Collection[str]
) -> OffsetDeleteResponse:
    if reply.error is not ErrorCode.none:
        return OffsetDeleteResponse(error_code=reply.error, throttle_time=NO_TIME, topics=())
    codes = {(each.topic, each.partition): each.error for each in reply.partitions}
    return OffsetDeleteResponse(
        error_code=ErrorCode.none,
        throttle_time=NO_TIME,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=asked.partition_index,
                        error_code=codes.get(
                            (topic.name, asked.partition_index),
                            ErrorCode.unknown_topic_or_partition
                            if topic.name in readable
                            else ErrorCode.topic_authorization_failed,
                        ),
                    )
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(DELETE_GROUP, READ_TOPIC))
