"""ExplainLastStableOffsets (API key 31002, specific to this cluster, version 0): the transactions
that hold read_committed consumers back, in partitions that this broker leads.

As ExplainGroup, Kafka does not have it; `coordinator/transactions/held_back.py` defines the bodies.
Partitions in which nothing is held back are only counted.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_TRANSACTIONAL_ID, READ_TOPIC, may
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.own_requests import own_request
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.transactions.held_back import (
    ANSWER,
    OPEN_MAX,
    QUESTION,
    ExplainPartitionsAnswer,
    HeldPartition,
    OpenTransaction,
    PartitionQuestion,
    UncommittedMarker,
    UnknownPartition,
)
from cluster.coordinator.transactions.requests import ProducerIdentity
from cluster.log.log_extents import bytes_between, timestamp_at
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import Offset, TopicPartition
from cluster.protocol.api import Api, OwnApiKey

API: Final = Api(OwnApiKey.EXPLAIN_LAST_STABLE_OFFSETS, 0, 0)


def handle(
    asked: tuple[PartitionQuestion, ...], context: RequestContext, services: DataServices
) -> ExplainPartitionsAnswer:
    """What holds the last stable offsets back."""
    found, unknown = _wanted(asked, context, services)
    held = [each for each in found if each.last_stable_offset < each.high_watermark]
    return ExplainPartitionsAnswer(
        services.broker_id,
        services.clock.wall_ms(),
        len(found),
        sum(len(each.log.producers.open_transactions()) for each in found),
        tuple(_held(each, context, services) for each in sorted(held, key=lambda each: each.id)),
        tuple(unknown),
    )


def _wanted(
    asked: Iterable[PartitionQuestion], context: RequestContext, services: DataServices
) -> tuple[list[Partition], list[UnknownPartition]]:
    names = {each.topic for each in asked if each.partition < 0}
    single = dict.fromkeys(each for each in asked if each.partition >= 0)
    found: list[Partition] = []
    unknown: list[UnknownPartition] = []
    rights: dict[str, bool] = {}

    def is_allowed(topic: str, *, is_named: bool) -> bool:
        if topic not in rights:
            rights[topic] = may(services, context, READ_TOPIC, topic, is_audited=is_named)
        return rights[topic]

    for topic, number in single:
        try:
            if not is_allowed(topic, is_named=True):
                raise Refused(ErrorCode.topic_authorization_failed)
            partition = find_partition(services, topic, number)
            partition.check_leader()
        except Refused as refused:
            unknown.append(UnknownPartition(topic, number, refused.code))
        else:
            found.append(partition)
    unknown += [
        UnknownPartition(topic, -1, ErrorCode.topic_authorization_failed)
        for topic in sorted(names)
        if not is_allowed(topic, is_named=True)
    ]
    if names or not asked:
        found += [
            each
            for each in services.partitions
            if each.leader is not None
            and (not names or each.id.topic in names)
            and is_allowed(each.id.topic, is_named=False)
        ]
    return found, unknown


def _held(partition: Partition, context: RequestContext, services: DataServices) -> HeldPartition:
    log = partition.log
    stable, high_watermark = partition.last_stable_offset, partition.high_watermark
    producers = log.producers
    shown = tuple(
        _open(log_id, first, partition, context, services)
        for log_id, first in islice(producers.open_transactions(), OPEN_MAX)
    )
    ended = log.transactions.first_uncommitted(high_watermark)
    place: TopicPartition = partition.id
    return HeldPartition(
        place.topic,
        place.partition,
        stable,
        high_watermark,
        log.log_end_offset,
        high_watermark - stable,
        bytes_between(log, stable, high_watermark),
        shown,
        len(producers.open_transactions()) - len(shown),
        None if ended is None else UncommittedMarker(*ended),
        log.transactions.is_index_damaged,
    )


def _open(
    producer_id: int,
    first_offset: int,
    partition: Partition,
    context: RequestContext,
    services: DataServices,
) -> OpenTransaction:
    entry = partition.log.producers.entries[producer_id]
    writer = services.transaction_writers.of(producer_id)
    is_hidden = writer is not None and not may(
        services, context, DESCRIBE_TRANSACTIONAL_ID, writer.transactional_id, is_audited=False
    )
    return OpenTransaction(
        ProducerIdentity(producer_id, entry.epoch),
        entry.coordinator_epoch,
        first_offset,
        timestamp_at(partition.log, Offset(first_offset)),
        entry.last_timestamp_ms,
        None if is_hidden else writer,
        is_hidden,
    )


HANDLER: Final = own_request(
    API,
    handle,
    DataServices,
    QUESTION.read,
    ANSWER.pack,
    authorizes=(READ_TOPIC, DESCRIBE_TRANSACTIONAL_ID),
)
