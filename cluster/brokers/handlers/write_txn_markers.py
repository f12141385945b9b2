"""WriteTxnMarkers (API key 27), version 1.

Ends transactions in partitions that this broker leads. Administrators abort hanging transactions
with it (KIP-664); brokers of this cluster send each other `WriteMarkers` instead.
v1 flexible. Version 0 was sent by brokers of Kafka 2 only.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, CLUSTER_ACTION, check, may
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted, now_or_later
from cluster.brokers.handlers.services import TransactionServices
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from cluster.records.markers import EndMarker

API: Final = Api(ApiKey.WRITE_TXN_MARKERS, 1, 1)

_Codes = Mapping[TopicPartition, ErrorCode]


def handle(
    request: WriteTxnMarkersRequest, context: RequestContext, services: TransactionServices
) -> WriteTxnMarkersResponse | NotYet:
    markers = request.markers
    try:
        # Kafka accepts the right to alter the cluster, too, which administrators have.
        if not may(services, context, ALTER_CLUSTER, is_audited=False):
            check(services, context, CLUSTER_ACTION)
    except Refused as refused:
        codes = [dict.fromkeys(_partitions(each), refused.code) for each in markers]
        return _response(request, codes)
    if not markers:
        return _response(request, [])
    written: dict[int, _Codes] = {}

    def begin(respond: Callable[[WriteTxnMarkersResponse], None]) -> None:
        def take(number: int, codes: _Codes) -> None:
            written[number] = codes
            if len(written) == len(markers):
                respond(_response(request, [written[each] for each in range(len(markers))]))

        for number, marker in enumerate(markers):
            _write(marker, services, partial(take, number))

    return now_or_later(begin, context)


def _write(
    marker: WritableTxnMarker, services: TransactionServices, on_written: Callable[[_Codes], None]
) -> None:
    refused: dict[TopicPartition, ErrorCode] = {}
    wanted = []
    for partition in _partitions(marker):
        if services.metadata.partition(partition) is None:
            refused[partition] = ErrorCode.unknown_topic_or_partition
        elif marker.producer_id < 0 or marker.producer_epoch < 0:
            refused[partition] = ErrorCode.invalid_request
        else:
            wanted.append(partition)
    services.markers.write(
        EndMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
        ),
        wanted,
        lambda codes: on_written({**refused, **codes}),
    )


def _partitions(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number)
        for topic in marker.topics
        for number in topic.partition_indexes
    ]


def _response(request: WriteTxnMarkersRequest, codes: Sequence[_Codes]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(
                                partition_index=number,
                                error_code=found[TopicPartition(topic.name, number)],
                            )
                            for number in topic.partition_indexes
                        ),
                    )
                    for topic in marker.topics
                ),
            )
            for marker, found in zip(request.markers, codes, strict=True)
        )
    )


HANDLER: Final = adapted(
    API, handle, TransactionServices, authorizes=(CLUSTER_ACTION, ALTER_CLUSTER)
)
