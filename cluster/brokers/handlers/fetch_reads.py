"""Reads the partitions of a Fetch request once: records, offsets, aborted transactions, errors."""

import logging
import uuid
from typing import Final

from cluster.brokers.fetching.read_replicas import ReadReplicas
from cluster.brokers.handlers.access import READ_TOPIC
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.leader_hints import endpoints_of, leader_hint
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.replication.partition import Partition
from cluster.log.damage import DamagedBatch
from cluster.model.errors import ErrorCode, Refused, StorageFailed
from cluster.model.ids import LeaderEpoch, Offset, TopicPartition
from cluster.protocol.endpoints import NodeEndpoint
from cluster.protocol.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
)

log = logging.getLogger(__name__)

_HINTED: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
_FIRST_LEADER_HINTS: Final = 16
_FIRST_READ_REPLICAS: Final = 11
_READ_COMMITTED: Final = 1
_new: Final = tuple.__new__  # skips the Python-level constructor of a NamedTuple


class Result:
    """The result of reading all partitions of a request once."""

    __slots__ = ("endpoints", "is_enough", "nearest", "size_bytes", "topics")

    def __init__(self, nearest: ReadReplicas | None = None) -> None:
        self.nearest = nearest
        """Chooses other replicas to read from; None if everybody reads from leaders."""
        self.topics: list[FetchedTopic] = []
        self.endpoints: dict[int, NodeEndpoint] = {}
        self.size_bytes = 0
        self.is_enough = False
        """Whether waiting cannot improve the answer: it has enough bytes, exceeds a limit or has an
        error, or a read ended with its segment and the next segment has more.
        """


def limits_of(
    request: FetchRequest, context: RequestContext, services: DataServices
) -> tuple[int, int, bool]:
    """The bytes that may be read, those that end the wait, and whether only committed records are
    read.
    """
    # Limited to what the quota admits at once; a larger answer could never be sent.
    admitted = context.accounts.fetch_bytes_max(services.loop.now_ms)
    budget = int(min(request.max_bytes, services.fetch_max_bytes, admitted))
    return budget, min(request.min_bytes, budget), request.isolation_level == _READ_COMMITTED


def nearest_to(
    request: FetchRequest, context: RequestContext, services: DataServices
) -> ReadReplicas | None:
    """Chooses the replicas in the client's rack; None if `replica.selector.class` does not."""
    if not services.has_read_replicas or context.version < _FIRST_READ_REPLICAS:
        return None
    return ReadReplicas(
        request.rack_id,
        context.listener,
        services.broker_id,
        services.metadata.brokers,
        services.liveness.is_lost,
        services.loop.now_ms,
    )


def read_all(request: FetchRequest, context: RequestContext, services: DataServices) -> Result:
    """Every partition of a full request."""
    admitted = context.accounts.fetch_bytes_max(services.loop.now_ms)  # as `limits_of` has it
    budget = int(min(request.max_bytes, services.fetch_max_bytes, admitted))
    min_bytes = min(request.min_bytes, budget)
    is_committed = request.isolation_level == _READ_COMMITTED
    result = Result(nearest_to(request, context, services) if request.rack_id else None)
    counted = 0
    authorizer = services.authorizer
    for name, topic_id, partitions in request.topics:
        topic = name if name is not None else services.metadata.topic_name(topic_id)
        if (
            authorizer is not None
            and topic is not None
            and not authorizer.allows(context.user, context.host, *READ_TOPIC, topic)
        ):
            result.topics.append((name, topic_id, [denied(each) for each in partitions]))
            result.is_enough = True
            continue
        fetched = []
        for wanted in partitions:
            item, held_back = read(
                topic, topic_id, wanted, is_committed, budget, result, context, services
            )
            size_bytes = item.records_size_bytes
            budget -= size_bytes
            result.size_bytes += size_bytes
            counted += size_bytes + held_back
            fetched.append(item)
        result.topics.append((name, topic_id, fetched))
    if counted >= min_bytes:
        result.is_enough = True
    return result


def denied(wanted: FetchPartition) -> FetchedPartition:
    """The answer for a partition that the user may not read."""
    return FetchedPartition(wanted.index, int(ErrorCode.topic_authorization_failed), -1, -1, -1)


def read(
    topic: str | None,
    topic_id: uuid.UUID | None,
    wanted: FetchPartition,
    is_committed: bool,
    budget: int,
    result: Result,
    context: RequestContext,
    services: DataServices,
) -> tuple[FetchedPartition, int]:
    """One partition's answer, and the unused bytes of its limit if there are more records: only
    whole batches are read.
    """
    index, leader_epoch, offset, last_fetched_epoch, _, max_bytes = wanted
    partition = None
    held_back = size_bytes = 0
    diverging = data = aborted = None
    try:
        found = None if topic is None else services.partitions.find((topic, index))
        if found is None or (topic_id is not None and found.topic_id != topic_id):
            found = find_partition(
                services, topic, index, topic_id, ErrorCode.inconsistent_topic_id
            )
        partition = found
        leader = partition.leader
        if leader is None and context.version >= _FIRST_READ_REPLICAS:
            partition.check_follower(leader_epoch)
            high_watermark = partition.high_watermark
        else:
            if leader is None or leader_epoch >= 0:
                leader = partition.check_leader(leader_epoch)
            high_watermark = leader.high_watermark
        own = partition.log
        log_start_offset = own.log_start_offset
        stable = high_watermark
        if is_committed and not own.transactions.are_none:
            stable = partition.last_stable_offset
        nearest = result.nearest
        preferred = -1 if nearest is None or leader is None else nearest.choose(leader, offset)
        if preferred >= 0:
            result.is_enough = True
            offsets = high_watermark, stable, log_start_offset
            return FetchedPartition(index, 0, *offsets, preferred_read_replica=preferred), 0
        if last_fetched_epoch >= 0:
            diverging = _diverging_epoch(partition, wanted)
        if diverging is None:
            # The first batch is returned whole even when it is larger than every limit (KIP-74).
            limit = max(0, min(budget, max_bytes))
            data = own.read(
                Offset(offset),
                limit,
                upper_offset=stable,
                at_least_one_batch=result.size_bytes == 0,
            )
            size_bytes = data.size_bytes
            if is_committed:
                seen = own.transactions
                aborted = () if seen.are_none else seen.aborted_in(offset, data.next_offset)
                if aborted is None:
                    stable, aborted, size_bytes = partition.last_stable_offset, (), 0
            if data.next_offset < stable:
                # Only whole batches are read: the limit counts as used up (Kafka cuts a batch).
                held_back = max(0, limit - size_bytes)
                if offset < own.segments[-1].base_offset:
                    result.is_enough = True
        else:
            result.is_enough = True
    except StorageFailed as failure:
        log.error("fetch from %s-%d: %s", topic, index, failure)  # noqa: TRY400 - one line
        services.partitions.note_failure(TopicPartition(str(topic), index), failure)
        result.is_enough = True
        return FetchedPartition(index, int(ErrorCode.kafka_storage_error)), 0
    except Refused as refused:
        if (
            partition is not None
            and isinstance(refused, DamagedBatch)
            and partition.log.damage.is_being_repaired
        ):
            # Treated as an empty read: the request waits for the repair, or fails later.
            hw, start = partition.high_watermark, partition.log.log_start_offset
            return FetchedPartition(index, 0, hw, hw, start), 0
        result.is_enough = True
        return _refusal(topic, index, refused, result, context, services), 0
    answer = (
        index,
        0,
        high_watermark,
        stable,
        log_start_offset,
        aborted,
        -1,
        diverging,
        None,
        size_bytes,
        data if size_bytes else None,
    )
    return _new(FetchedPartition, answer), held_back


def _refusal(
    topic: str | None,
    index: int,
    refused: Refused,
    result: Result,
    context: RequestContext,
    services: DataServices,
) -> FetchedPartition:
    hint = None
    if topic is not None and refused.code in _HINTED:
        hint = leader_hint(TopicPartition(topic, index), services)
        if hint is not None and context.version >= _FIRST_LEADER_HINTS:
            result.endpoints.update(endpoints_of(hint[0], context, services))
    return FetchedPartition(index, int(refused.code), current_leader=hint)


def _diverging_epoch(partition: Partition, wanted: FetchPartition) -> tuple[int, int] | None:
    """Epoch and end offset at which the client's log diverges from this one (KIP-595), or None.

    Raises Refused(offset_out_of_range) for an epoch that is newer than every epoch of this log.
    """
    if wanted.last_fetched_epoch < 0 or wanted.fetch_offset < partition.log.log_start_offset:
        return None  # before the log start the offset alone decides
    epoch, end_offset = partition.log.epochs.end_offset(
        LeaderEpoch(wanted.last_fetched_epoch), partition.log.log_end_offset
    )
    if epoch < 0:
        raise Refused(
            ErrorCode.offset_out_of_range,
            f"epoch {wanted.last_fetched_epoch} is newer than {partition.log.epochs.latest}",
        )
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return int(epoch), int(end_offset)
    return None
