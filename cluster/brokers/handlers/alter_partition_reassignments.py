"""AlterPartitionReassignments (API key 45), versions 0-1 (KIP-455).

The controller serves it. The answer says which reassignments have begun, or are canceled; see
ListPartitionReassignments for when they are completed. It has the topics and partitions of the
request in the same order, as often as they are named there.
v1 may forbid to change the number of replicas (KIP-860).
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final, cast

from cluster.brokers.handlers.access import ALTER_CLUSTER, check
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import BrokerId, TopicPartition
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

API: Final = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext, services: AdminServices
) -> AlterPartitionReassignmentsResponse | NotYet:
    """Pass the partitions to the controller."""
    asked = [
        (
            TopicPartition(topic.name, each.partition_index),
            cast("tuple[BrokerId, ...] | None", each.replicas),
        )
        for topic in request.topics
        for each in topic.partitions
    ]
    try:
        check(services, context, ALTER_CLUSTER)
    except Refused as refused:
        outcome = Outcome(refused.code, refused.detail)
        return _response(request, outcome, [outcome] * len(asked))
    if not asked:
        return _response(request, Outcome(ErrorCode.none, None if request.topics else ""), ())
    services.controller.alter_reassignments(
        asked,
        may_change_factor=request.allow_replication_factor_change,
        timeout_ms=request.timeout // timedelta(milliseconds=1),
        on_done=lambda outcome, altered: context.answer(
            _response(request, outcome, (each for _, each in altered))
        ),
    )
    return PARKED


def _response(
    request: AlterPartitionReassignmentsRequest, outcome: Outcome, altered: Iterable[Outcome]
) -> AlterPartitionReassignmentsResponse:
    """`altered` has one outcome for each partition of the request, in order."""
    rest = iter(altered)
    return AlterPartitionReassignmentsResponse(
        throttle_time=timedelta(0),
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=outcome.code,
        error_message=outcome.detail,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=detail,
                    )
                    for each, (code, detail) in zip(topic.partitions, rest, strict=False)
                ),
            )
            for topic in request.topics
        ),
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER,))
