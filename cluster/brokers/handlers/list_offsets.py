"""ListOffsets (API key 2), versions 1-10.

Answers immediately, unless batches have to be decoded that take long (mainly compressed ones).
Those are decoded on another thread, up to the timeout. The latest offset is the high watermark, or
the last stable offset with read_committed; searches end there as well.
A new leader whose high watermark is still below the start of its epoch answers
OFFSET_NOT_AVAILABLE, because its offset might later go backwards (KIP-207).
v4 leader epochs; v5 OFFSET_NOT_AVAILABLE, before it LEADER_NOT_AVAILABLE; v6 flexible; v7 -3 max
timestamp; v8 -4 earliest local (same as earliest, since there is no remote tier); v9 -5 latest
tiered (none); v10 timeout.
"""

import logging
from collections import Counter
from collections.abc import Generator, Mapping
from datetime import timedelta
from typing import Final, TypeVar

from cluster.brokers.handlers.access import DESCRIBE_TOPIC, check
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.replication.partition import Partition
from cluster.log.batch_search import BatchSearch, TimestampOffset
from cluster.log.time_search import search_max_timestamp, search_timestamp
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import NO_EPOCH, LeaderEpoch, TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from cluster.records.checked_batch import IsLong

log = logging.getLogger(__name__)

API: Final = Api(ApiKey.LIST_OFFSETS, 1, 10)

_READ_COMMITTED: Final = 1
_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_FIRST_VERSION_OF: Final[Mapping[int, int]] = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
}
_FIRST_WITH_OFFSET_NOT_AVAILABLE: Final = 5

_Found = tuple[int, int, LeaderEpoch]
"""Timestamp (-1 if not requested), offset (-1 if there is none), and its epoch."""
_NOTHING: Final[_Found] = (-1, -1, NO_EPOCH)

_T = TypeVar("_T")
_Searching = Generator[BatchSearch, TimestampOffset | None, _T]
"""Yields the batches that have to be decoded, and is sent what is found in them."""
_OPENED_AT_ONCE: Final = 8
"""The number of batches of a request that are decoded on the broker's thread; the rest go to
another thread.
"""
_TIMEOUT_MS: Final = 30_000
"""The timeout of requests that have none; an offset not found by then is REQUEST_TIMED_OUT."""
_MILLISECOND: Final = timedelta(milliseconds=1)


def handle(
    request: ListOffsetsRequest, context: RequestContext, services: DataServices
) -> ListOffsetsResponse | NotYet:
    """One offset per requested partition; a partition that is listed twice is refused once."""
    answering = _answer(request, context, services)
    opened = 0
    try:
        wanted = next(answering)
        while True:
            opened += 1
            try:
                if opened > _OPENED_AT_ONCE:
                    raise IsLong
                found = wanted.at_once()
            except Refused as refused:
                wanted = answering.throw(refused)
            else:
                wanted = answering.send(found)
    except StopIteration as end:
        answer: ListOffsetsResponse = end.value
        return answer
    except IsLong:
        asked_ms = request.timeout // _MILLISECOND
        deadline_ms = services.loop.now_ms + (asked_ms if asked_ms > 0 else _TIMEOUT_MS)
        services.long_work.start(
            _answer_later(answering, wanted, context, services, deadline_ms),
            context.channel.payer,
            lambda: context.channel.close("internal error while handling LIST_OFFSETS"),
        )
        return PARKED


def _answer_later(
    answering: "_Searching[ListOffsetsResponse]",
    wanted: BatchSearch,
    context: RequestContext,
    services: DataServices,
    deadline_ms: int,
) -> Generator[BatchSearch, TimestampOffset | None, None]:
    """Decode the remaining batches on another thread, up to the deadline."""
    try:
        while context.channel.is_open:
            try:
                if services.loop.now_ms >= deadline_ms:
                    raise Refused(ErrorCode.request_timed_out)
                found = yield wanted
            except Refused as refused:
                wanted = answering.throw(refused)
            else:
                wanted = answering.send(found)
    except StopIteration as end:
        context.answer(end.value)


def _answer(
    request: ListOffsetsRequest, context: RequestContext, services: DataServices
) -> "_Searching[ListOffsetsResponse]":
    asked_of: dict[str, dict[int, ListOffsetsPartition]] = {}
    times = Counter[tuple[str, int]]()
    for topic in request.topics:
        own = asked_of.setdefault(topic.name, {})
        for asked in topic.partitions:
            own[asked.partition_index] = asked
            times[topic.name, asked.partition_index] += 1
    topics = []
    for name, own in asked_of.items():
        partitions = []
        for index, asked in own.items():
            one = yield from _list(
                name,
                asked,
                context,
                services,
                is_repeated=times[name, index] > 1,
                is_committed=request.isolation_level == _READ_COMMITTED,
            )
            partitions.append(one)
        topics.append(ListOffsetsTopicResponse(name=name, partitions=tuple(partitions)))
    return ListOffsetsResponse(throttle_time=timedelta(0), topics=tuple(topics))


def _list(
    topic: str,
    asked: ListOffsetsPartition,
    context: RequestContext,
    services: DataServices,
    *,
    is_repeated: bool,
    is_committed: bool,
) -> "_Searching[ListOffsetsPartitionResponse]":
    index, version = asked.partition_index, context.version
    try:
        check(services, context, DESCRIBE_TOPIC, topic)
        if is_repeated:
            raise Refused(ErrorCode.invalid_request, "the partition is listed twice in the request")
        # An unsupported timestamp is an error of this partition alone, as in Kafka.
        if asked.timestamp < 0 and version < _FIRST_VERSION_OF.get(asked.timestamp, version + 1):
            raise Refused(ErrorCode.unsupported_version, f"timestamp {asked.timestamp}")
        partition = find_partition(services, topic, index)
        found = yield from _find_offset(partition, asked, is_committed=is_committed)
        timestamp, offset, epoch = found
    except Refused as refused:
        code = refused.code
        if code is ErrorCode.offset_not_available and version < _FIRST_WITH_OFFSET_NOT_AVAILABLE:
            code = ErrorCode.leader_not_available
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
    except StorageFailed as failure:
        log.error("offsets of %s-%d: %s", topic, index, failure)  # noqa: TRY400 - one line
        services.partitions.note_failure(TopicPartition(topic, index), failure)
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=ErrorCode.kafka_storage_error
        )
    return ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _find_offset(
    partition: Partition, asked: ListOffsetsPartition, *, is_committed: bool
) -> "_Searching[_Found]":
    leader = partition.check_leader(asked.current_leader_epoch)
    own = partition.log
    # A new leader may not know every committed offset until its followers have fetched.
    is_behind = leader.high_watermark < leader.epoch_start_offset
    if asked.timestamp == _LATEST:
        if is_behind:
            raise Refused(ErrorCode.offset_not_available)
        latest = partition.last_stable_offset if is_committed else leader.high_watermark
        return -1, latest, leader.leader_epoch
    if asked.timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        start = own.log_start_offset
        return -1, start, own.epochs.epoch_at(start)
    if asked.timestamp == _LATEST_TIERED:
        return _NOTHING
    readable_to = partition.last_stable_offset if is_committed else leader.high_watermark
    bounds = (own.log_start_offset, own.log_end_offset if is_behind else readable_to)
    if asked.timestamp == _MAX_TIMESTAMP:
        search = search_max_timestamp(own.segments, bounds)
    else:
        search = search_timestamp(own.segments, asked.timestamp, bounds)
    try:
        found = yield from search
    finally:  # meanwhile the replica may have lost leadership and truncated its log
        leader = partition.check_leader(asked.current_leader_epoch)
    if is_behind and (found is None or found.offset >= readable_to):
        raise Refused(ErrorCode.offset_not_available)
    if found is None:
        return _NOTHING
    return found.timestamp_ms, found.offset, own.epochs.epoch_at(found.offset)


HANDLER: Final = adapted(API, handle, DataServices, authorizes=(DESCRIBE_TOPIC,))
