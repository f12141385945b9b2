"""OffsetForLeaderEpoch (API key 23), versions 2-4.

Answers immediately with the end offset of a leader epoch. After a leader change a consumer checks
with it whether the records it has read are still in the log (KIP-320); franz-go does not continue
without it. The newest epoch ends at the log end offset, which may be above the high watermark.
v3 replica id (ignored); v4 flexible.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import CLUSTER_ACTION, DESCRIBE_TOPIC, may
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import DataServices
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import LeaderEpoch
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API: Final = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext, services: DataServices
) -> OffsetForLeaderEpochResponse:
    """For each requested partition, the largest epoch not above the requested one, and its end."""
    is_broker = may(services, context, CLUSTER_ACTION, is_audited=False)
    return OffsetForLeaderEpochResponse(
        throttle_time=timedelta(0),
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _end(topic.topic, asked, services)
                    if is_allowed
                    else _refusal(asked, ErrorCode.topic_authorization_failed)
                    for asked in topic.partitions
                ),
            )
            for topic in request.topics
            for is_allowed in (is_broker or may(services, context, DESCRIBE_TOPIC, topic.topic),)
        ),
    )


def _end(topic: str, asked: OffsetForLeaderPartition, services: DataServices) -> EpochEndOffset:
    try:
        partition = find_partition(services, topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
    except Refused as refused:
        return _refusal(asked, refused.code)
    own = partition.log
    epoch, end_offset = own.epochs.end_offset(LeaderEpoch(asked.leader_epoch), own.log_end_offset)
    return EpochEndOffset(
        error_code=ErrorCode.none,
        partition=asked.partition,
        leader_epoch=epoch,
        end_offset=end_offset,
    )


def _refusal(asked: OffsetForLeaderPartition, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=asked.partition)


HANDLER: Final = adapted(API, handle, DataServices, authorizes=(CLUSTER_ACTION, DESCRIBE_TOPIC))
