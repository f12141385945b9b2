"""OffsetFetch (API key 9), versions 1-10.

Answers immediately with the committed offsets. A partition without a committed offset gets offset
-1 and no error, whether it exists or not.
v2 null stands for all offsets of the group, top-level error; v5 leader epochs (KIP-320); v6
flexible; v7 require_stable (KIP-447); v8 several groups (KIP-709); v9 member id and epoch of the
consumer protocol; v10 topic ids.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Final, TypeVar
from uuid import UUID

from cluster.brokers.handlers.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, allowed_among, check
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import (
    FetchedOffset,
    FetchedOffsets,
    FetchOffsets,
    TopicPartitions,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

API: Final = Api(ApiKey.OFFSET_FETCH, 1, 10)

_FIRST_WITH_ERROR: Final = 2
_FIRST_WITH_GROUPS: Final = 8
_FIRST_WITH_TOPIC_IDS: Final = 10

K = TypeVar("K")


def handle(
    request: OffsetFetchRequest, context: RequestContext, services: GroupServices
) -> OffsetFetchResponse:
    """Answer with the committed offsets of groups. A repeated group or partition is answered once:
    a few bytes name it, and its committed offset may take several kilobytes.
    """
    if context.version < _FIRST_WITH_GROUPS:
        return _of_one_group(request, context, services)
    return OffsetFetchResponse(
        throttle_time=NO_TIME,
        groups=tuple(
            _of_group(asked, context, services, require_stable=request.require_stable)
            for asked in _each_once(request.groups)
        ),
    )


def _each_once(groups: Iterable[OffsetFetchRequestGroup]) -> Iterable[OffsetFetchRequestGroup]:
    """Each group once, with the topics of all its occurrences."""
    found: dict[str, list[OffsetFetchRequestGroup]] = {}
    for each in groups:
        found.setdefault(each.group_id, []).append(each)
    for first, *others in found.values():
        if not others:
            yield first
            continue
        topics: list[OffsetFetchRequestTopics] = []
        for each in (first, *others):
            topics += each.topics or ()
        is_all = any(each.topics is None for each in (first, *others))
        yield replace(first, topics=None if is_all else tuple(topics))


def _merged(topics: Iterable[tuple[K, Iterable[int]]]) -> dict[K, tuple[int, ...]]:
    """Each topic once, with each of its partitions once."""
    found: dict[K, dict[int, None]] = {}
    for topic, numbers in topics:
        found.setdefault(topic, {}).update(dict.fromkeys(numbers))
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def _of_one_group(
    request: OffsetFetchRequest, context: RequestContext, services: GroupServices
) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        asked_topics = _merged((each.name, each.partition_indexes) for each in request.topics)
        topics = tuple(TopicPartitions(*each) for each in asked_topics.items())
    asked = FetchOffsets(request.group_id, topics, require_stable=request.require_stable)
    found = _fetch(asked, context, services)
    if found.error is not ErrorCode.none and context.version < _FIRST_WITH_ERROR:
        refused = tuple(
            FetchedOffset(each.topic, number, error=found.error)
            for each in topics or ()
            for number in each.partitions
        )
        found = FetchedOffsets(ErrorCode.none, refused)
    return OffsetFetchResponse(
        throttle_time=NO_TIME,
        error_code=found.error,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error,
                    )
                    for each in offsets
                ),
            )
            for name, offsets in groupby(found.offsets, key=_topic)
        ),
        groups=(),
    )


def _of_group(
    asked: OffsetFetchRequestGroup,
    context: RequestContext,
    services: GroupServices,
    *,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    by_id = context.version >= _FIRST_WITH_TOPIC_IDS
    unknown: list[OffsetFetchResponseTopics] = []
    topics: list[TopicPartitions] | None = None
    if asked.topics is not None:
        topics = []
        named = _merged(
            (
                (each.name, each.topic_id) if not by_id else ("", each.topic_id),
                each.partition_indexes,
            )
            for each in asked.topics
        )
        for (name_given, topic_id), numbers in named.items():
            name = services.metadata.topic_name(topic_id) if by_id else name_given
            if name is None:
                unknown.append(_unknown_topic(topic_id, numbers))
            else:
                topics.append(TopicPartitions(name, numbers))
    found = _fetch(
        FetchOffsets(
            asked.group_id,
            None if topics is None else tuple(topics),
            require_stable=require_stable,
            member_id=asked.member_id,
            member_epoch=asked.member_epoch,
        ),
        context,
        services,
    )
    known = []
    for name, offsets in groupby(found.offsets, key=_topic):
        topic = services.metadata.topics.get(name) if by_id else None
        if by_id and topic is None:  # the topic has been deleted, so there is no id to answer with
            continue
        known.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=None if topic is None else topic.topic_id,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error,
                    )
                    for each in offsets
                ),
            )
        )
    is_refused = found.error is not ErrorCode.none
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=() if is_refused else (*known, *unknown),
        error_code=found.error,
    )


def _fetch(asked: FetchOffsets, context: RequestContext, services: GroupServices) -> FetchedOffsets:
    """The offsets of topics that the client may describe; refusals of the other requested
    topics.
    """
    named = asked.topics
    if named is not None:
        seen = allowed_among(services, context, DESCRIBE_TOPIC, (each.topic for each in named))
        asked = replace(asked, topics=tuple(each for each in named if each.topic in seen))
    try:
        check(services, context, DESCRIBE_GROUP, asked.group_id)
        found = services.groups.find(asked.group_id).ask(asked)
    except Refused as refused:
        return FetchedOffsets(refused.code)
    if named is None:
        topics = (each.topic for each in found.offsets)
        seen = allowed_among(services, context, DESCRIBE_TOPIC, topics, is_audited=False)
        return FetchedOffsets(
            found.error, tuple(each for each in found.offsets if each.topic in seen)
        )
    denied = tuple(
        FetchedOffset(each.topic, number, error=ErrorCode.topic_authorization_failed)
        for each in named
        if each.topic not in seen
        for number in each.partitions
    )
    return FetchedOffsets(found.error, (*found.offsets, *denied))


def _topic(fetched: FetchedOffset) -> str:
    return fetched.topic


def _unknown_topic(topic_id: UUID | None, numbers: tuple[int, ...]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=number,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.unknown_topic_id,
            )
            for number in numbers
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(DESCRIBE_GROUP, DESCRIBE_TOPIC))
