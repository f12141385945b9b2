"""DescribeProducers (API key 61), version 0 (KIP-664): the producers that a replica remembers.

Followers answer too: kafka-transactions asks one broker about all its replicas.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import READ_TOPIC, may
from cluster.brokers.handlers.find_partition import find_partition
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import DataServices
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

API: Final = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)


def handle(
    request: DescribeProducersRequest, context: RequestContext, services: DataServices
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        throttle_time=timedelta(0),
        topics=tuple(
            DescribedProducersTopic(
                name=topic.name,
                partitions=tuple(
                    _described(topic.name, number, context, services)
                    for number in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def _described(
    topic: str, number: int, context: RequestContext, services: DataServices
) -> DescribedProducersPartition:
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
    return DescribedProducersPartition(
        partition_index=number,
        error_code=ErrorCode.none,
        active_producers=tuple(
            _producer(producer_id, entry)
            for producer_id, entry in partition.log.producers.entries.items()
        ),
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
