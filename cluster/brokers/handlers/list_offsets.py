"""ListOffsets (API key 2), versions 1-10.

Answers at once. Latest is the high watermark for both isolation levels (there are no transactions).
v4 leader epochs; v6 flexible; v7 -3 max timestamp; v8 -4 earliest local (as earliest, there is no
remote tier); v9 -5 latest tiered (none); v10 timeout.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.request import RequestContext, Services, adapted
from cluster.brokers.replication.partition import Partition
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API: Final = Api(ApiKey.LIST_OFFSETS, 1, 10)


def handle(
    request: ListOffsetsRequest, _context: RequestContext, services: Services
) -> ListOffsetsResponse:
    """One offset per asked partition."""
    return ListOffsetsResponse(
        throttle_time=timedelta(0),
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(_list(topic.name, asked, services) for asked in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _list(
    topic: str, asked: ListOffsetsPartition, services: Services
) -> ListOffsetsPartitionResponse:
    try:
        partition = find_partition(services, topic, asked.partition_index)
        timestamp, offset = _find_offset(partition, asked)
    except Refused as refused:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=refused.code
        )
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=ErrorCode.none,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=-1 if offset < 0 else partition.log.epochs.epoch_at(Offset(offset)),
    )


def _find_offset(partition: Partition, asked: ListOffsetsPartition) -> tuple[int, int]:
    """Timestamp (-1 where none is asked for) and offset (-1 where there is none)."""
    high_watermark = partition.check_leader(asked.current_leader_epoch).high_watermark
    match asked.timestamp:
        case -1:  # latest
            return -1, high_watermark
        case -2 | -4:  # earliest, earliest local
            return -1, partition.log.log_start_offset
        case -5:  # latest tiered
            return -1, -1
        case -3:  # max timestamp
            found = partition.log.max_timestamp_offset(upper_offset=high_watermark)
        case timestamp if timestamp >= 0:
            found = partition.log.offset_for_timestamp(timestamp, upper_offset=high_watermark)
        case timestamp:
            raise Refused(ErrorCode.invalid_request, f"unknown timestamp {timestamp}")
    return (-1, -1) if found is None else (found.timestamp_ms, found.offset)


HANDLER: Final = adapted(API, handle)
