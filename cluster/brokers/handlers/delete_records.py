"""DeleteRecords (API key 21), versions 0-2 (KIP-107).

The leader advances its log start; the next retention check deletes the segments below it. The
request waits in the purgatory until every live replica has followed, or until the timeout.
v2 flexible.
"""

import logging
from datetime import timedelta
from typing import ClassVar, Final

from cluster.brokers.handlers.access import DELETE_TOPIC, check
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.membership.peer_pings import LIVENESS
from cluster.brokers.replication.partition import Partition
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import LeaderEpoch, Offset
from cluster.model.topics import INTERNAL_TOPICS
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

log = logging.getLogger(__name__)

API: Final = Api(ApiKey.DELETE_RECORDS, 0, 2)

_NO_LOW_WATERMARK: Final = -1


class _Waiting:
    """One partition whose followers may not have deleted the records yet."""

    def __init__(
        self, partition: Partition, required: Offset, result: DeleteRecordsPartitionResult
    ) -> None:
        self.partition = partition
        self._required = required
        self._leader_epoch: LeaderEpoch = partition.leader_epoch
        self._result = result

    def try_answer(self, services: DataServices) -> bool:
        """Write the outcome into the result once it is known."""
        result, partition = self._result, self.partition
        if partition.leader is None or self._leader_epoch < partition.led_since:
            result.error_code = (
                ErrorCode.kafka_storage_error
                if partition.is_offline
                else ErrorCode.not_leader_or_follower
            )
            result.low_watermark = _NO_LOW_WATERMARK
            return True
        result.low_watermark = partition.low_watermark(services.metadata.brokers)
        return result.low_watermark >= self._required

    def expire(self) -> None:
        self._result.error_code = ErrorCode.request_timed_out


class _DelayedDeletion:
    """A DeleteRecords request in the purgatory."""

    kind: ClassVar[str] = "DeleteRecords"

    def __init__(
        self,
        context: RequestContext,
        services: DataServices,
        response: DeleteRecordsResponse,
        waiting: list[_Waiting],
    ) -> None:
        self._context = context
        self._services = services
        self._response = response
        self._waiting = waiting

    def try_complete(self) -> bool:
        self._waiting = [each for each in self._waiting if not each.try_answer(self._services)]
        if self._waiting:
            return False
        self._context.answer(self._response)
        return True

    def expire(self) -> None:
        for each in self._waiting:
            if not each.try_answer(self._services):
                each.expire()
        self._context.answer(self._response)


def handle(
    request: DeleteRecordsRequest, context: RequestContext, services: DataServices
) -> DeleteRecordsResponse | NotYet:
    """Advance each partition's log start, and answer when all replicas have done so.

    If a partition is listed twice, the last offset counts, as in Kafka.
    """
    asked_of: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        asked_of.setdefault(topic.name, {}).update(
            (asked.partition_index, asked) for asked in topic.partitions
        )
    waiting: list[_Waiting] = []
    response = DeleteRecordsResponse(
        throttle_time=timedelta(0),
        topics=tuple(
            DeleteRecordsTopicResult(
                name=name,
                partitions=tuple(
                    _delete(name, asked, context, services, waiting) for asked in own.values()
                ),
            )
            for name, own in asked_of.items()
        ),
    )
    waiting = [each for each in waiting if not each.try_answer(services)]
    if not waiting:
        return response
    parked = services.purgatory.park(
        _DelayedDeletion(context, services, response, waiting),
        [LIVENESS, *(each.partition.id for each in waiting)],
        services.loop.now_ms + max(0, request.timeout // timedelta(milliseconds=1)),
    )
    context.channel.on_close = parked.drop
    return PARKED


def _delete(
    topic: str,
    asked: DeleteRecordsPartition,
    context: RequestContext,
    services: DataServices,
    waiting: list[_Waiting],
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index,
        low_watermark=_NO_LOW_WATERMARK,
        error_code=ErrorCode.none,
    )
    try:
        check(services, context, DELETE_TOPIC, topic)
        if topic in INTERNAL_TOPICS:
            raise Refused(ErrorCode.invalid_topic_exception)
        partition = find_partition(services, topic, asked.partition_index)
        required = partition.delete_records(asked.offset)
    except Refused as refused:
        result.error_code = refused.code
    except StorageFailed as failure:
        log.error("%s: cannot delete records: %s", partition.id, failure)  # noqa: TRY400 - one line
        services.partitions.note_failure(partition.id, failure)
        result.error_code = ErrorCode.kafka_storage_error
    else:
        services.events.on_log_start_moved(partition, someone_waits=True)
        waiting.append(_Waiting(partition, required, result))
    return result


HANDLER: Final = adapted(API, handle, DataServices, authorizes=(DELETE_TOPIC,))
