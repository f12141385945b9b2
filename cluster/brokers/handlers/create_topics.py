"""CreateTopics (API key 19), versions 2-7.

The controller serves it (NOT_CONTROLLER from other brokers). The answer is sent when every live
broker knows the new topics, or at the timeout (REQUEST_TIMED_OUT, although they exist).
v4 default partition count and replication factor (-1); v5 flexible, configs; v6 topics over
`controller_mutation_rate` are refused (KIP-599); v7 topic ids.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import (
    CREATE_ON_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    allowed_among,
    may,
)
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.config.describe import describe
from cluster.model.cluster import TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.model.topics import NewTopic
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API: Final = Api(ApiKey.CREATE_TOPICS, 2, 7)


def handle(
    request: CreateTopicsRequest, context: RequestContext, services: AdminServices
) -> NotYet:
    """Pass the topics to the controller."""
    allowed = _creatable(request, context, services)
    null_config = {t.name for t in request.topics if any(c.value is None for c in t.configs)}
    duplicates = _duplicates([t.name for t in request.topics])
    topics = [_new_topic(t) for t in request.topics if t.name in allowed - null_config - duplicates]
    names = list(dict.fromkeys(topic.name for topic in request.topics))
    refused = dict.fromkeys(
        null_config, Outcome(ErrorCode.invalid_config, "Null value not supported for topic configs")
    ) | dict.fromkeys(duplicates, Outcome(ErrorCode.invalid_request, "Duplicate topic name."))
    for name in set(names) - allowed - duplicates:
        refused[name] = Outcome(ErrorCode.topic_authorization_failed, "Authorization failed.")
    described = allowed_among(services, context, DESCRIBE_TOPIC_CONFIGS, allowed, is_audited=False)

    def on_done(outcomes: dict[str, Outcome], planned: dict[str, TopicState]) -> None:
        outcomes = outcomes | refused
        context.answer(
            CreateTopicsResponse(
                throttle_time=timedelta(0),
                topics=tuple(
                    _result(name, outcomes[name], planned.get(name), services, described)
                    for name in names
                ),
            )
        )

    if names and not allowed:  # nothing is left for the controller
        on_done({}, {})
        return PARKED
    services.controller.create_topics(
        topics,
        validate_only=request.validate_only,
        timeout_ms=request.timeout // timedelta(milliseconds=1),
        on_done=on_done,
        admit=context.limit_mutations(6, lambda: services.loop.now_ms),
    )
    return PARKED


def _creatable(
    request: CreateTopicsRequest, context: RequestContext, services: AdminServices
) -> set[str]:
    """The names of the topics that the client may create."""
    names = {topic.name for topic in request.topics}
    if may(services, context, CREATE_ON_CLUSTER, is_audited=False):
        return names
    return allowed_among(services, context, CREATE_TOPIC, names)


def _duplicates(names: Sequence[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {a.partition_index: tuple(map(BrokerId, a.broker_ids)) for a in topic.assignments},
        {config.name: config.value for config in topic.configs if config.value is not None},
    )


def _result(
    name: str,
    outcome: Outcome,
    topic: TopicState | None,
    services: AdminServices,
    described: Collection[str],
) -> CreatableTopicResult:
    if outcome.code is not ErrorCode.none or topic is None:
        return CreatableTopicResult(
            name=name,
            topic_id=None,
            error_code=outcome.code,
            error_message=outcome.detail,
            configs=None,
        )
    if name not in described:
        return CreatableTopicResult(
            name=name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=int(ErrorCode.topic_authorization_failed),
            configs=None,
        )
    return CreatableTopicResult(
        name=name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=int(entry.source),
                is_sensitive=entry.sensitive,
            )
            for entry in describe(services.topic_settings(topic.configs))
        ),
    )


HANDLER: Final = adapted(
    API, handle, AdminServices, authorizes=(CREATE_ON_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS)
)
