"""Shared by AlterConfigs and IncrementalAlterConfigs: the checks, and where each change is made.

The controller changes topic configs. A broker stores its own configs; the broker that receives the
request stores cluster-wide broker configs, group configs and client metrics subscriptions.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from cluster.brokers.handlers.access import (
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC_CONFIGS,
    check,
)
from cluster.brokers.handlers.broker_loggers import BROKER_LOGGER, check_levels, take_levels
from cluster.brokers.handlers.describe_configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    check_group_name,
    check_subscription_name,
    is_number,
)
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext
from cluster.brokers.handlers.services import AdminServices
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.client_metrics import CLIENT_METRICS_SETTINGS
from cluster.config.dynamic import CLUSTER_WIDE, OWN
from cluster.config.group import GROUP_SETTINGS
from cluster.config.setting import SettingError, SettingTable
from cluster.config.snapshot import Settings, Source
from cluster.config.topic import TOPIC_SETTINGS
from cluster.config.value_type import TypeCode
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome
from cluster.model.topics import TopicAlteration, check_topic_name

RIGHTS: Final = (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS)
"""The rights that a request may need, depending on its resources."""
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

Resource = tuple[int, str]
Operation = tuple[str, int, str | None]
"""Key, operation, value."""
StoredChange = Callable[..., None]
"""Called with the function that takes the outcome, and `is_dry`."""


def alter(
    asked: Sequence[tuple[Resource, Sequence[Operation]]],
    context: RequestContext,
    services: AdminServices,
    response: Callable[..., object],
    resource_response: Callable[..., object],
    *,
    is_whole: bool,
    validate_only: bool,
) -> NotYet:
    """Check every resource, change the valid ones, and answer with all outcomes.

    `is_whole`: the given values replace all values of the resource. `response` and
    `resource_response` build the answer and its entry for one resource.
    """

    def answer(outcomes: Mapping[Resource, Outcome]) -> None:
        context.answer(
            response(
                throttle_time=timedelta(0),
                responses=tuple(
                    resource_response(
                        error_code=outcome.code,
                        error_message=outcome.detail,
                        resource_type=resource_type,
                        resource_name=name,
                    )
                    for (resource_type, name), outcome in outcomes.items()
                ),
            )
        )

    _alter(asked, context, services, answer, is_whole=is_whole, validate_only=validate_only)
    return PARKED


def _alter(
    asked: Sequence[tuple[Resource, Sequence[Operation]]],
    context: RequestContext,
    services: AdminServices,
    on_done: Callable[[dict[Resource, Outcome]], None],
    *,
    is_whole: bool,
    validate_only: bool,
) -> None:
    outcomes: dict[Resource, Outcome] = {}
    topics: list[TopicAlteration] = []
    changes: list[tuple[Resource, StoredChange]] = []
    times = Counter(resource for resource, _ in asked)
    for resource, operations in asked:
        try:
            if times[resource] > 1:
                raise Refused(ErrorCode.invalid_request, "Each resource must appear at most once.")
            _check_keys(operations)
            _check_access(resource, context, services)
            if resource[0] == BROKER_LOGGER and not is_whole:
                _alter_loggers(resource[1], operations, services, validate_only=validate_only)
                outcomes[resource] = Outcome(ErrorCode.none)
            elif resource[0] in (BROKER, GROUP, CLIENT_METRICS):
                changes.append((resource, _stored_change(resource, operations, services, is_whole)))
            else:
                topic = _topic_of(resource)
                values = _values(operations, TOPIC_SETTINGS, partial(_of_topic, topic, services))
                topics.append(TopicAlteration(topic, is_whole, values))
        except Refused as refused:
            outcomes[resource] = Outcome(refused.code, refused.detail)

    unanswered = times.keys() - outcomes.keys()

    def end(resource: Resource, outcome: Outcome) -> None:
        outcomes[resource] = outcome
        unanswered.discard(resource)
        if not unanswered:
            on_done({each: outcomes[each] for each in times})

    def on_altered(by_topic: Mapping[str, Outcome] | None) -> None:
        no_answer = Outcome(ErrorCode.request_timed_out, "The controller did not answer in time.")
        for alteration in topics:
            found = no_answer if by_topic is None else by_topic.get(alteration.topic, no_answer)
            end((TOPIC, alteration.topic), found)

    if not unanswered:
        on_done({each: outcomes[each] for each in times})
    if topics:
        services.controller_client.alter_topic_configs(
            topics, validate_only=validate_only, on_done=on_altered
        )
    for resource, change in changes:
        change(partial(end, resource), is_dry=validate_only)


def _stored_change(
    resource: Resource, operations: Sequence[Operation], services: AdminServices, is_whole: bool
) -> StoredChange:
    """The change of a resource that this broker stores. Raises Refused."""
    kind, name = resource
    if kind == BROKER:
        level = _level_of(name, services)
        after = partial(_after, level, services, operations, is_whole)
        return partial(services.setting_changes.alter, level, after)
    if kind == GROUP:
        check_group_name(name)
        after = partial(_after_in_group, name, services, operations, is_whole)
        return partial(services.group_configs.alter, name, after)
    check_subscription_name(name)
    after = partial(_after_in_subscription, operations, is_whole)
    return partial(services.client_metrics.configs.alter, name, after)


def _check_access(resource: Resource, context: RequestContext, services: AdminServices) -> None:
    resource_type, name = resource
    if resource_type in (BROKER, BROKER_LOGGER, CLIENT_METRICS):
        check(services, context, ALTER_CLUSTER_CONFIGS)
    elif resource_type == GROUP:
        check(services, context, ALTER_GROUP_CONFIGS, name)
    elif resource_type == TOPIC:
        check(services, context, ALTER_TOPIC_CONFIGS, name)


def _topic_of(resource: Resource) -> str:
    resource_type, name = resource
    if resource_type != TOPIC:
        raise Refused(ErrorCode.invalid_request, f"Unknown resource type {resource_type}")
    if name == "":
        raise Refused(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    check_topic_name(name)
    return name


def _level_of(name: str, services: AdminServices) -> Source:
    if name == "":
        return CLUSTER_WIDE
    _check_broker(name, services)
    return OWN


def _check_broker(name: str, services: AdminServices) -> None:
    if not is_number(name):
        raise Refused(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")
    if int(name) != services.broker_id:
        raise Refused(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {services.broker_id}, but received {name}",
        )


def _alter_loggers(
    name: str, operations: Sequence[Operation], services: AdminServices, *, validate_only: bool
) -> None:
    """Change the levels of this broker's loggers immediately (KIP-412). Raises Refused."""
    _check_broker(name, services)
    levels: dict[str, str | None] = {}
    for logger, operation, level in operations:
        if operation not in (SET, DELETE):
            what = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}.get(operation, str(operation))
            raise Refused(
                ErrorCode.invalid_request,
                f"{what} operation is not allowed for the BROKER_LOGGER resource",
            )
        if operation == SET and level is None:
            raise Refused(ErrorCode.invalid_request, f"Null value not supported for : {logger}")
        levels[logger] = level if operation == SET else None
    check_levels(levels)
    if not validate_only:
        take_levels(levels)


def _after(
    level: Source,
    services: AdminServices,
    operations: Sequence[Operation],
    is_whole: bool,
    before: Mapping[str, str],
) -> dict[str, str]:
    """The values of a broker, or of all brokers, after the operations. Raises Refused."""
    live = services.settings
    below = live.now if level is OWN else live.started

    def present(key: str) -> str:
        return before[key] if key in before else _rendered(below, key)

    return _changed({} if is_whole else before, _values(operations, BROKER_SETTINGS, present))


def _after_in_group(
    group_id: str,
    services: AdminServices,
    operations: Sequence[Operation],
    is_whole: bool,
    before: Mapping[str, str],
) -> dict[str, str]:
    """The values of a group after the operations. Raises Refused."""
    present = partial(_rendered, services.group_configs.settings_of(group_id))
    return _changed({} if is_whole else before, _values(operations, GROUP_SETTINGS, present))


def _after_in_subscription(
    operations: Sequence[Operation], is_whole: bool, before: Mapping[str, str]
) -> dict[str, str]:
    """The values of a client metrics subscription after the operations. Raises Refused."""
    values = _values(operations, CLIENT_METRICS_SETTINGS, lambda key: before.get(key, ""))
    return _changed({} if is_whole else before, values)


def _changed(before: Mapping[str, str], values: Mapping[str, str | None]) -> dict[str, str]:
    after = {**before, **values}
    return {key: value for key, value in after.items() if value is not None}


def _of_topic(topic: str, services: AdminServices, key: str) -> str:
    known = services.metadata.topics.get(topic)
    return _rendered(services.topic_settings({} if known is None else known.configs), key)


def _rendered(settings: Settings, key: str) -> str:
    setting = settings.table.find(key)
    return setting.render(settings[setting]) or ""


def _check_keys(operations: Sequence[Operation]) -> None:
    keys = set()
    for key, _, _ in operations:
        if key in keys:
            raise Refused(ErrorCode.invalid_request, f"Error due to duplicate config keys : {key}")
        keys.add(key)


def _values(
    operations: Sequence[Operation], table: SettingTable, present: Callable[[str], str]
) -> dict[str, str | None]:
    """The new value of each key; None removes it. `present` returns the current value of a list.
    Raises Refused.
    """
    values: dict[str, str | None] = {}
    for key, operation, value in operations:
        if operation == DELETE:
            values[key] = None
        elif value is None:
            raise Refused(ErrorCode.invalid_request, f"Null value not supported for : {key}")
        elif operation == SET:
            values[key] = value
        elif operation in (APPEND, SUBTRACT):
            values[key] = _merged(key, value, operation, table, present)
        else:
            raise Refused(ErrorCode.invalid_request, f"Unknown operation type {operation}")
    return values


def _merged(
    key: str, value: str, operation: int, table: SettingTable, present: Callable[[str], str]
) -> str:
    try:
        setting = table.find(key)
    except SettingError as problem:
        raise Refused(ErrorCode.invalid_config, str(problem)) from None
    if setting.type.code != TypeCode.LIST:
        what = "append" if operation == APPEND else "subtract"
        raise Refused(
            ErrorCode.invalid_config, f"Config value {what} is not allowed for config key: {key}"
        )
    merged = [one for one in present(key).split(",") if one]
    for one in (part.strip() for part in value.split(",") if part.strip()):
        if operation == APPEND and one not in merged:
            merged.append(one)
        elif operation == SUBTRACT and one in merged:
            merged.remove(one)
    return ",".join(merged)
