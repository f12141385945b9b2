"""DeleteTopics (API key 20), versions 1-6.

The controller serves it. The answer is sent when every live broker has dropped the topics, or at
the timeout (REQUEST_TIMED_OUT, although they are deleted). A broker that is down drops its replicas
after it restarts.
v4 flexible; v5 error messages, topics over `controller_mutation_rate` are refused (KIP-599); v6
topics by id.
"""

import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DELETE_TOPIC, DESCRIBE_TOPIC, may
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.config.broker import DELETE_TOPIC_ENABLE
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

API: Final = Api(ApiKey.DELETE_TOPICS, 1, 6)


_Deleted = tuple[str | None, uuid.UUID | None, Outcome]


def handle(
    request: DeleteTopicsRequest, context: RequestContext, services: AdminServices
) -> DeleteTopicsResponse | NotYet:
    """Pass the topics to the controller."""
    wanted, refused = _usable(request.topics)
    topics: list[tuple[str | None, uuid.UUID | None]] = []
    for asked in wanted:
        denial = _denial(asked, context, services)
        if denial is None:
            topics.append((asked.name, asked.topic_id))
        else:
            refused.append(denial)
    repeated = _named_by_both(topics, services)
    gone = {key for name, topic_id, _ in repeated for key in ((name, None), (None, topic_id))}
    topics = [each for each in topics if each not in gone]
    refused += repeated
    if not services.settings[DELETE_TOPIC_ENABLE]:
        disabled = Outcome(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false")
        return _response([(name, topic_id, disabled) for name, topic_id in topics] + refused)
    if refused and not topics:  # nothing is left for the controller
        return _response(refused)
    services.controller.delete_topics(
        topics,
        request.timeout // timedelta(milliseconds=1),
        lambda outcomes: context.answer(_response(outcomes + refused)),
        admit=context.limit_mutations(5, lambda: services.loop.now_ms),
    )
    return PARKED


def _usable(
    asked: Sequence[DeleteTopicState],
) -> tuple[list[DeleteTopicState], list[_Deleted]]:
    """The valid items, each of which names a topic that no other item names; and refusals of the
    other items.

    A repeated topic is refused once (Kafka: `ControllerApis.deleteTopics`).
    """
    usable: dict[str | uuid.UUID, DeleteTopicState] = {}
    refused: list[_Deleted] = []
    repeated: set[str | uuid.UUID] = set()
    times = Counter(
        each.name or each.topic_id for each in asked if not (each.name and each.topic_id)
    )
    for each in asked:
        key, why = each.topic_id if each.name is None else each.name, None
        if each.name is not None and each.topic_id is not None:
            why = "You may not specify both topic name and topic id."
        elif key is None:
            why = "Neither topic name nor id were specified."
        elif times[key] > 1:
            why = "Duplicate topic id." if each.name is None else "Duplicate topic name."
            if key in repeated:
                continue
            repeated.add(key)
        if why is None and key is not None:
            usable[key] = each
        else:
            refused.append((each.name, each.topic_id, Outcome(ErrorCode.invalid_request, why)))
    return [*usable.values()], refused


def _named_by_both(
    topics: Sequence[tuple[str | None, uuid.UUID | None]], services: AdminServices
) -> list[_Deleted]:
    """A refusal of each topic that one item names by name and another one by id."""
    names = {name for name, _ in topics}
    why = "The provided topic name maps to an ID that was already supplied."
    mapped = [(services.metadata.topic_name(topic_id), topic_id) for _, topic_id in topics]
    return [
        (name, topic_id, Outcome(ErrorCode.invalid_request, why))
        for name, topic_id in mapped
        if topic_id is not None and name is not None and name in names
    ]


def _denial(
    asked: DeleteTopicState, context: RequestContext, services: AdminServices
) -> _Deleted | None:
    """The refusal, or None if the client may delete the topic. A client without the right to
    describe a topic does not learn the name of its id.
    """
    by_id = asked.name is None
    name = services.metadata.topic_name(asked.topic_id) if by_id else asked.name
    if name is None:
        if services.authorizer is None:
            return None
        # The controller may know the topic before this broker does, but it does not check rights.
        return None, asked.topic_id, Outcome(ErrorCode.unknown_topic_id)
    may_know = not by_id or may(services, context, DESCRIBE_TOPIC, name)
    if may_know and may(services, context, DELETE_TOPIC, name):
        return None
    denied = Outcome(ErrorCode.topic_authorization_failed)
    return name if may_know else None, asked.topic_id, denied


def _response(outcomes: list[_Deleted]) -> DeleteTopicsResponse:
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


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DELETE_TOPIC, DESCRIBE_TOPIC))
