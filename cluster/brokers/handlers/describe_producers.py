"""DescribeProducers (API key 61), version 0 (KIP-664): the producers that a replica remembers.

Followers answer too: kafka-transactions asks one broker about all its replicas.
"""

from collections.abc import Generator, Iterator, Sequence
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import READ_TOPIC, may
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import DataServices
from cluster.brokers.handlers.sliced_answer import gathered
from cluster.log.producer_state import ProducerEntry
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribedProducer,
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from cluster.protocol.messages.describe_producers import write_described_producer
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)

_PRODUCERS_PER_STEP: Final = 100


def handle(
    request: DescribeProducersRequest, context: RequestContext, services: DataServices
) -> DescribeProducersResponse | NotYet:
    """If there are many producers, the answer is built in slices."""
    found: list[DescribedProducersTopic] = []
    steps = _describe_all(request, context, services, found)
    return gathered(steps, lambda: _answer(found), context, services.slices)


def _answer(found: Sequence[DescribedProducersTopic]) -> DescribeProducersResponse:
    return DescribeProducersResponse(throttle_time=timedelta(0), topics=tuple(found))


def _describe_all(
    request: DescribeProducersRequest,
    context: RequestContext,
    services: DataServices,
    found: list[DescribedProducersTopic],
) -> Iterator[None]:
    for topic in request.topics:
        partitions = []
        for number in topic.partition_indexes:
            described = yield from _describe(topic.name, number, context, services)
            partitions.append(described)
            yield
        found.append(DescribedProducersTopic(name=topic.name, partitions=tuple(partitions)))


def _describe(
    topic: str, number: int, context: RequestContext, services: DataServices
) -> Generator[None, None, DescribedProducersPartition]:
    try:
        if not may(services, context, READ_TOPIC, topic):
            raise Refused(ErrorCode.topic_authorization_failed)
        partition = find_partition(services, topic, number)
    except Refused as refused:
        return DescribedProducersPartition(
            partition_index=number,
            error_code=refused.code,
            error_message=refused.detail or None,
            active_producers=(),
        )
    entries = partition.log.producers.entries
    content = bytearray()
    count = 0
    for producer_id in list(entries):
        entry = entries.get(producer_id)
        if entry is None:  # forgotten between two steps
            continue
        write_described_producer(content, _producer(producer_id, entry), context.version)
        count += 1
        if count % _PRODUCERS_PER_STEP == 0:
            yield
    return DescribedProducersPartition(
        partition_index=number,
        error_code=ErrorCode.none,
        active_producers=EncodedItems(count, content),
    )


def _producer(producer_id: int, entry: ProducerEntry) -> DescribedProducer:
    return DescribedProducer(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_offset,
    )


HANDLER: Final = adapted(API, handle, DataServices, authorizes=(READ_TOPIC,))
