"""DeleteTopics (API key 20), versions 1-6.

Served by the controller. Answers when every live broker has dropped the topics, or at the timeout
(REQUEST_TIMED_OUT, although they are deleted); a broker that is down drops its replicas when it is
back.
v4 flexible; v5 error messages; v6 topics by id.
"""

import uuid
from datetime import timedelta
from typing import Final, Protocol

from cluster.brokers.handlers.ports import HasController, HasSettings
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.config.broker import DELETE_TOPIC_ENABLE
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

API: Final = Api(ApiKey.DELETE_TOPICS, 1, 6)


class Ports(HasController, HasSettings, Protocol):
    """What DeleteTopics needs of its broker."""


def handle(
    request: DeleteTopicsRequest, context: RequestContext, services: Ports
) -> DeleteTopicsResponse | NotYet:
    """Hand the topics to the controller."""
    topics = [(topic.name, topic.topic_id) for topic in request.topics]
    if not services.settings[DELETE_TOPIC_ENABLE]:
        disabled = Outcome(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false")
        return _response([(name, topic_id, disabled) for name, topic_id in topics])
    services.controller.delete_topics(
        topics,
        request.timeout // timedelta(milliseconds=1),
        lambda outcomes: context.answer(_response(outcomes)),
    )
    return PARKED


def _response(
    outcomes: list[tuple[str | None, uuid.UUID | None, Outcome]],
) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        throttle_time=timedelta(0),
        responses=tuple(
            DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=outcome.code,
                error_message=outcome.detail,
            )
            for name, topic_id, outcome in outcomes
        ),
    )


HANDLER: Final = adapted(API, handle)
