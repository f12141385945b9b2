"""ElectLeaders (API key 43), versions 0-2.

The controller serves it. The answer is sent when every live broker knows the new leaders, or at the
timeout (REQUEST_TIMED_OUT, although they lead). It has the topics and partitions of the request in
the same order, as often as they are named there. A request without a list of partitions stands for
all partitions; those that need no election are then left out of the answer.
v1 unclean elections (KIP-460; v0 only preferred ones), top-level error; v2 flexible.
"""

from collections.abc import Iterable
from datetime import timedelta
from itertools import groupby, islice
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER, check
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.coordinator.controller.leader_elections import Elected, ElectionType
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
            return _response(request, Outcome(ErrorCode.none), [])
        election = _election_type(request)
    except Refused as refused:
        return _refusal(Outcome(refused.code, refused.detail), request, context, services)

    def on_done(outcome: Outcome, elected: Elected) -> None:
        if partitions is None and outcome.code is not ErrorCode.none:
            context.answer(_refusal(outcome, request, context, services))
        else:
            context.answer(_response(request, outcome, elected))

    timeout_ms = request.timeout // timedelta(milliseconds=1)
    services.controller.elect_leaders(election, partitions, timeout_ms, on_done)
    return PARKED


def _refusal(
    outcome: Outcome, request: ElectLeadersRequest, context: RequestContext, services: AdminServices
) -> ElectLeadersResponse:
    """The answer with an outcome for the whole request.

    In version 0, whose answer has no top-level error, every partition has it, as in Kafka: to leave
    all of them out would mean that no election was needed.
    """
    partitions: Iterable[TopicPartition] = _partitions(request) or ()
    if request.topic_partitions is None and context.version == 0:
        partitions = (
            TopicPartition(topic.name, number)
            for topic in services.metadata.topics.values()
            for number in topic.partitions
        )
    return _response(request, outcome, [(each, outcome) for each in partitions])


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
    request: ElectLeadersRequest, outcome: Outcome, elected: Elected
) -> ElectLeadersResponse:
    """`elected` has one outcome for each partition of the request, in order."""
    if request.topic_partitions is None:
        topics = [(name, list(each)) for name, each in groupby(elected, lambda one: one[0].topic)]
    else:
        rest = iter(elected)
        topics = [
            (each.topic, list(islice(rest, len(each.partitions))))
            for each in request.topic_partitions
        ]
    return ElectLeadersResponse(
        throttle_time=timedelta(0),
        error_code=outcome.code,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=partition.partition, error_code=code, error_message=detail
                    )
                    for partition, (code, detail) in results
                ),
            )
            for topic, results in topics
        ),
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_CLUSTER,))
