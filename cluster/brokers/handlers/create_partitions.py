"""CreatePartitions (API key 37), versions 0-3.

The controller serves it. The answer is sent when every live broker knows the partitions, or at the
timeout (REQUEST_TIMED_OUT, although they exist).
v2 flexible; v3 topics over `controller_mutation_rate` are refused (KIP-599).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_TOPIC, allowed_among
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

API: Final = Api(ApiKey.CREATE_PARTITIONS, 0, 3)


def handle(
    request: CreatePartitionsRequest, context: RequestContext, services: AdminServices
) -> NotYet:
    """Pass the topics to the controller."""

    allowed = allowed_among(services, context, ALTER_TOPIC, (each.name for each in request.topics))
    refused = {
        each.name: Outcome(ErrorCode.topic_authorization_failed)
        for each in request.topics
        if each.name not in allowed
    }

    def on_done(outcomes: dict[str, Outcome]) -> None:
        context.answer(
            CreatePartitionsResponse(
                throttle_time=timedelta(0),
                results=tuple(
                    CreatePartitionsTopicResult(
                        name=name, error_code=outcome.code, error_message=outcome.detail
                    )
                    for name, outcome in (outcomes | refused).items()
                ),
            )
        )

    if refused and not allowed:  # nothing is left for the controller
        on_done({})
        return PARKED
    services.controller.create_partitions(
        [
            (topic.name, topic.count, _assignments(topic))
            for topic in request.topics
            if topic.name in allowed
        ],
        validate_only=request.validate_only,
        timeout_ms=request.timeout // timedelta(milliseconds=1),
        on_done=on_done,
        admit=context.limit_mutations(3, lambda: services.loop.now_ms),
    )
    return PARKED


def _assignments(topic: CreatePartitionsTopic) -> list[tuple[BrokerId, ...]] | None:
    if topic.assignments is None:
        return None
    return [tuple(map(BrokerId, assignment.broker_ids)) for assignment in topic.assignments]


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(ALTER_TOPIC,))
