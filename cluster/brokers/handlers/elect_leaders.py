"""ElectLeaders (API key 43), versions 0-2.

The controller serves it. The answer is sent when every live broker knows the new leaders, or at the
timeout (REQUEST_TIMED_OUT, although they lead). A request without a list of partitions stands for
all partitions; those that need no election are then left out of the answer.
v1 unclean elections (KIP-460; v0 only preferred ones), top-level error; v2 flexible.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, check
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.coordinator.controller.leader_elections import ElectionType
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

API: Final = Api(ApiKey.ELECT_LEADERS, 0, 2)


def handle(
    request: ElectLeadersRequest, context: RequestContext, services: AdminServices
) -> ElectLeadersResponse | NotYet:
    """Pass the partitions to the controller."""
    partitions = _partitions(request)
    try:
        check(services, context, ALTER_CLUSTER)
        if partitions == []:  # as in Kafka, before the election type is checked
            return _response(Outcome(ErrorCode.none), [])
        election = _election_type(request)
    except Refused as refused:
        outcome = Outcome(refused.code, refused.detail)
        return _response(outcome, [(each, outcome) for each in partitions or ()])
    services.controller.elect_leaders(
        election,
        partitions,
        request.timeout // timedelta(milliseconds=1),
        lambda outcome, elected: context.answer(_response(outcome, elected)),
    )
    return PARKED


def _election_type(request: ElectLeadersRequest) -> ElectionType:
    try:
        return ElectionType(request.election_type)
    except ValueError:
        raise Refused(
            ErrorCode.invalid_request, f"Unknown election type {request.election_type}"
        ) from None


def _partitions(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return [
        TopicPartition(each.topic, number)
        for each in request.topic_partitions
        for number in each.partitions
    ]


def _response(
    outcome: Outcome, elected: Sequence[tuple[TopicPartition, Outcome]]
) -> ElectLeadersResponse:
    by_topic: dict[str, list[PartitionResult]] = {}
    for partition, (code, detail) in elected:
        by_topic.setdefault(partition.topic, []).append(
            PartitionResult(partition_id=partition.partition, error_code=code, error_message=detail)
        )
    return ElectLeadersResponse(
        throttle_time=timedelta(0),
        error_code=outcome.code,
        replica_election_results=tuple(
            ReplicaElectionResult(topic=topic, partition_result=tuple(results))
            for topic, results in by_topic.items()
        ),
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER,))
