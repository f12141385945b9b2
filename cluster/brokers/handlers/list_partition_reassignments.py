"""ListPartitionReassignments (API key 46), version 0 (KIP-455).

The controller serves it, from the state that equals the registry's. Topics and partitions that are
not being reassigned are left out; those that the request repeats are repeated.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import groupby
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER, check
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.brokers.handlers.sliced_answer import gathered
from cluster.coordinator.controller.controller_requests import ControllerRequests
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import TopicPartition
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from cluster.protocol.messages.list_partition_reassignments import (
    write_ongoing_partition_reassignment,
)
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)

_PARTITIONS_PER_STEP: Final = 50
_NOT_CONTROLLER: Final = Outcome(
    ErrorCode.not_controller, "This is not the correct controller for this cluster."
)


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext, services: AdminServices
) -> ListPartitionReassignmentsResponse | NotYet:
    """If there are many of them, the answer is built in slices."""
    try:
        check(services, context, DESCRIBE_CLUSTER)
    except Refused as refused:
        return _response(Outcome(refused.code, refused.detail), ())
    controller = services.controller
    if not controller.is_active:
        return _response(_NOT_CONTROLLER, ())
    found: list[OngoingTopicReassignment] = []
    steps = _gather(_asked(request, controller), controller, context.version, found)
    return gathered(
        steps,
        lambda: _response(
            Outcome(ErrorCode.none) if controller.is_active else _NOT_CONTROLLER, found
        ),
        context,
        services.slices,
    )


def _asked(
    request: ListPartitionReassignmentsRequest, controller: ControllerRequests
) -> Iterator[tuple[str, Iterable[int]]]:
    """The partitions to look at, by topic."""
    if request.topics is not None:
        for topic in request.topics:
            yield topic.name, topic.partition_indexes
        return
    for name, partitions in groupby(controller.reassigning(), lambda each: each.topic):
        yield name, (each.partition for each in partitions)


def _gather(
    topics: Iterable[tuple[str, Iterable[int]]],
    controller: ControllerRequests,
    version: int,
    found: list[OngoingTopicReassignment],
) -> Iterator[None]:
    seen = 0
    for name, numbers in topics:
        content, count = bytearray(), 0
        for number in numbers:
            state = controller.reassignment(TopicPartition(name, number))
            if state is not None:
                row = OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=state.replicas,
                    adding_replicas=state.adding,
                    removing_replicas=state.removing,
                )
                write_ongoing_partition_reassignment(content, row, version)
                count += 1
            seen += 1
            if seen % _PARTITIONS_PER_STEP == 0:
                yield
        if count:
            found.append(
                OngoingTopicReassignment(name=name, partitions=EncodedItems(count, content))
            )


def _response(
    outcome: Outcome, topics: Iterable[OngoingTopicReassignment]
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time=timedelta(0),
        error_code=outcome.code,
        error_message=outcome.detail,
        topics=tuple(topics),
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DESCRIBE_CLUSTER,))
