"""OffsetCommit (API key 8), versions 2-10.

The answer is sent when every in-sync replica has the offsets. This handler refuses each topic or
partition that does not exist; the coordinator receives only the others.
v2-4 retention time; v6 leader epochs (KIP-320); v7 static members (KIP-345); v8 flexible; v9 the
member epoch of the consumer protocol; v10 topic ids.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from cluster.brokers.handlers.access import READ_GROUP, READ_TOPIC, may
from cluster.brokers.handlers.group_requests import MILLISECOND, NO_TIME, answered
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import CommitOffsets, CommitReply, OffsetToCommit
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API: Final = Api(ApiKey.OFFSET_COMMIT, 2, 10)

_FIRST_WITH_MEMBER_EPOCHS: Final = 9
_FIRST_WITH_TOPIC_IDS: Final = 10

_Codes = Mapping[tuple[int, int], ErrorCode]
"""Error codes by the positions of topic and partition in the request."""


def handle(
    request: OffsetCommitRequest, context: RequestContext, services: GroupServices
) -> OffsetCommitResponse | NotYet:
    """Store a group's committed offsets."""
    codes: dict[tuple[int, int], ErrorCode] = {}
    places: list[tuple[int, int]] = []
    offsets: list[OffsetToCommit] = []
    may_commit = may(services, context, READ_GROUP, request.group_id)
    for topic_place, topic in enumerate(request.topics):
        name, code = _known_name(topic, context, services)
        if not may_commit:
            name, code = "", ErrorCode.group_authorization_failed
        known = services.metadata.topics.get(name)
        for partition_place, asked in enumerate(topic.partitions):
            place = topic_place, partition_place
            if known is None or asked.partition_index not in known.partitions:
                codes[place] = code
                continue
            places.append(place)
            offsets.append(
                OffsetToCommit(
                    name,
                    asked.partition_index,
                    asked.committed_offset,
                    asked.committed_leader_epoch,
                    asked.committed_metadata or "",
                )
            )
    if not offsets:
        return _response(request, codes)
    try:
        group = services.groups.find(request.group_id)
    except Refused as refused:
        return _response(request, codes | dict.fromkeys(places, refused.code))
    commit = CommitOffsets(
        group_id=request.group_id,
        offsets=tuple(offsets),
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_ms=request.retention_time // MILLISECOND,
        knows_member_epochs=context.version >= _FIRST_WITH_MEMBER_EPOCHS,
    )

    def response_of(reply: CommitReply) -> OffsetCommitResponse:
        errors = (partition.error for partition in reply.partitions)
        return _response(request, codes | dict(zip(places, errors, strict=True)))

    return answered(context, group, commit, response_of)


def _known_name(
    topic: OffsetCommitRequestTopic, context: RequestContext, services: GroupServices
) -> tuple[str, ErrorCode]:
    """A topic's name, or "" if its id is unknown or the client may not read it; and the error code
    for its partitions that do not exist.
    """
    name: str | None = topic.name
    if context.version >= _FIRST_WITH_TOPIC_IDS:
        name = services.metadata.topic_name(topic.topic_id)
    if name is None:
        return "", ErrorCode.unknown_topic_id
    if not may(services, context, READ_TOPIC, name):
        return "", ErrorCode.topic_authorization_failed
    return name, ErrorCode.unknown_topic_or_partition


def _response(request: OffsetCommitRequest, codes: _Codes) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        throttle_time=NO_TIME,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(_partitions(topic_place, topic, codes)),
            )
            for topic_place, topic in enumerate(request.topics)
        ),
    )


def _partitions(
    topic_place: int, topic: OffsetCommitRequestTopic, codes: _Codes
) -> Iterator[OffsetCommitResponsePartition]:
    for partition_place, asked in enumerate(topic.partitions):
        yield OffsetCommitResponsePartition(
            partition_index=asked.partition_index, error_code=codes[topic_place, partition_place]
        )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(READ_GROUP, READ_TOPIC))
