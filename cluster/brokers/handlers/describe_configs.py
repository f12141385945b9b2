"""DescribeConfigs (API key 32), versions 1-4.

Describes topics, this broker and its loggers (KIP-412), groups (KIP-848) and client metrics
subscriptions (KIP-714), whether they exist or not. The broker name "" stands for the cluster-wide
broker configs that are set (KIP-226).
Other resource types get INVALID_REQUEST.
v1 synonyms; v3 documentation and types; v4 flexible.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import (
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC_CONFIGS,
    check,
)
from cluster.brokers.handlers.broker_loggers import BROKER_LOGGER, describe_loggers
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.config.describe import Entry, describe, describe_group, describe_level
from cluster.config.dynamic import CLUSTER_WIDE
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode, Refused
from cluster.model.topics import check_topic_name
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from cluster.protocol.messages.describe_configs import write_describe_configs_resource_result
from cluster.protocol.writer import EncodedItems

API: Final = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4)

TOPIC: Final = 2
BROKER: Final = 4
CLIENT_METRICS: Final = 16
GROUP: Final = 32

_RESOURCES_AT_ONCE: Final = 4
_CONFIGS_PER_STEP: Final = 20


def handle(
    request: DescribeConfigsRequest, context: RequestContext, services: AdminServices
) -> DescribeConfigsResponse | NotYet:
    """One result per requested resource; a large answer is built in slices.

    A resource requested again with the same keys is answered once: a few bytes name it, and its
    configs take about ten kilobytes.
    """
    asked = {
        (each.resource_type, each.resource_name, each.configuration_keys): each
        for each in request.resources
    }
    results: list[DescribeConfigsResult] = []
    steps = _describe_all(asked.values(), request, context, services, results)
    if len(asked) > _RESOURCES_AT_ONCE:
        services.slices.start(_answer_later(steps, results, context))
        return PARKED
    deque(steps, maxlen=0)
    return _answer(results)


def _answer_later(
    steps: Iterator[None], results: Sequence[DescribeConfigsResult], context: RequestContext
) -> Iterator[None]:
    while context.channel.is_open:
        try:
            next(steps)
        except StopIteration:
            context.answer(_answer(results))
            return
        yield


def _answer(results: Sequence[DescribeConfigsResult]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(throttle_time=timedelta(0), results=tuple(results))


def _describe_all(
    resources: Iterable[DescribeConfigsResource],
    request: DescribeConfigsRequest,
    context: RequestContext,
    services: AdminServices,
    results: list[DescribeConfigsResult],
) -> Iterator[None]:
    """Add a result for each resource with its configs already encoded: as objects they take ten
    times the memory.
    """
    for resource in resources:
        code, detail, entries = _found(resource, context, services)
        content = bytearray()
        count = 0
        for entry in entries:
            write_describe_configs_resource_result(
                content, _result(entry, request), context.version
            )
            count += 1
            if count % _CONFIGS_PER_STEP == 0:
                yield
        results.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=detail,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=EncodedItems(count, content),
            )
        )
        yield


def _found(
    resource: DescribeConfigsResource, context: RequestContext, services: AdminServices
) -> tuple[ErrorCode, str | None, list[Entry]]:
    """The requested configs of a resource, or the error."""
    try:
        _check_access(resource, context, services)
        entries = _entries(resource, services)
    except Refused as refused:
        return refused.code, refused.detail, []
    wanted = frozenset(resource.configuration_keys or ())
    return ErrorCode.none, None, [each for each in entries if not wanted or each.name in wanted]


def _check_access(
    resource: DescribeConfigsResource, context: RequestContext, services: AdminServices
) -> None:
    if resource.resource_type == TOPIC:
        check(services, context, DESCRIBE_TOPIC_CONFIGS, resource.resource_name)
    elif resource.resource_type in (BROKER, BROKER_LOGGER, CLIENT_METRICS):
        check(services, context, DESCRIBE_CLUSTER_CONFIGS)
    elif resource.resource_type == GROUP:
        check(services, context, DESCRIBE_GROUP_CONFIGS, resource.resource_name)


def _entries(resource: DescribeConfigsResource, services: AdminServices) -> list[Entry]:
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        check_topic_name(name)
        topic = services.metadata.topics.get(name)
        if topic is None:
            raise Refused(
                ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
            )
        return describe(services.topic_settings(topic.configs))
    if resource.resource_type == BROKER:
        if name == "":
            return describe_level(services.settings.now, CLUSTER_WIDE)
        _check_broker(name, services, " or empty string,")
        return describe(services.settings.now)
    if resource.resource_type == BROKER_LOGGER:
        if name == "":
            raise Refused(ErrorCode.invalid_request, "Broker id must not be empty")
        _check_broker(name, services, "")
        return describe_loggers()
    if resource.resource_type == GROUP:
        check_group_name(name)
        return describe_group(services.group_configs.settings_of(name))
    if resource.resource_type == CLIENT_METRICS:
        check_subscription_name(name)
        configs = services.client_metrics.configs
        return describe_group(configs.settings_of(name), Source.DYNAMIC_CLIENT_METRICS)
    raise Refused(ErrorCode.invalid_request, f"Unsupported resource type: {resource.resource_type}")


def _check_broker(name: str, services: AdminServices, or_what: str) -> None:
    if not is_number(name):
        raise Refused(ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}")
    if int(name) != services.broker_id:
        raise Refused(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {services.broker_id}{or_what} but received {name}",
        )


def check_group_name(name: str) -> None:
    """Raise Refused for a group name that cannot have configs."""
    if name == "":
        raise Refused(ErrorCode.invalid_request, "Group name must not be empty")


def check_subscription_name(name: str) -> None:
    """Raise Refused for a name that no client metrics subscription can have."""
    if name == "":
        raise Refused(ErrorCode.invalid_request, "Subscription name can't be empty")


def is_number(broker_id: str) -> bool:
    """Whether a broker name is an integer by Java's rules."""
    return re.fullmatch(r"[+-]?[0-9]{1,10}", broker_id) is not None


def _result(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=s.name, value=s.value, source=int(s.source))
            for s in entry.synonyms
        )
        if request.include_synonyms
        else (),
        config_type=int(entry.type),
        documentation=entry.documentation if request.include_documentation else None,
    )


HANDLER: Final = adapted(
    API,
    handle,
    AdminServices,
    authorizes=(DESCRIBE_TOPIC_CONFIGS, DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS),
)
