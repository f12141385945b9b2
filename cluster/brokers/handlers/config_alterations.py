"""What AlterConfigs and IncrementalAlterConfigs share: checks, and the way to the controller."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from cluster.brokers.handlers.describe_configs import BROKER, TOPIC
from cluster.brokers.handlers.ports import AsksController, HasMetadata, HasTopicSettings
from cluster.config.setting import SettingError
from cluster.config.topic import TOPIC_SETTINGS
from cluster.config.value_type import TypeCode
from cluster.model.errors import ErrorCode, Refused
from cluster.model.plan import Outcome
from cluster.model.topics import TopicAlteration, check_topic_name

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3

Resource = tuple[int, str]
Operation = tuple[str, int, str | None]
"""Key, operation, value."""


class AltersConfigs(HasMetadata, HasTopicSettings, AsksController, Protocol):
    """What altering configs needs of the broker."""


def alter(
    asked: Sequence[tuple[Resource, Sequence[Operation]]],
    services: AltersConfigs,
    on_done: Callable[[dict[Resource, Outcome]], None],
    *,
    is_whole: bool,
    validate_only: bool,
) -> None:
    """Check every resource, have the valid ones changed, and call `on_done` with all outcomes.

    `is_whole`: the given values replace all overrides of the topic.
    """
    outcomes: dict[Resource, Outcome] = {}
    alterations: dict[str, TopicAlteration] = {}
    resources = [resource for resource, _ in asked]
    for resource, operations in asked:
        try:
            if resources.count(resource) > 1:
                raise Refused(ErrorCode.invalid_request, "Each resource must appear at most once.")
            name = _topic_of(resource, operations)
            values = _values(name, operations, services)
            alterations[name] = TopicAlteration(name, is_whole, values)
        except Refused as refused:
            outcomes[resource] = Outcome(refused.code, refused.detail)

    def on_altered(by_topic: dict[str, Outcome] | None) -> None:
        no_answer = Outcome(ErrorCode.request_timed_out, "The controller did not answer in time.")
        for name in alterations:
            found = no_answer if by_topic is None else by_topic.get(name, no_answer)
            outcomes[TOPIC, name] = found
        on_done(outcomes)

    if alterations:
        services.alter_topic_configs(
            list(alterations.values()), validate_only=validate_only, on_done=on_altered
        )
    else:
        on_done(outcomes)


def _topic_of(resource: Resource, operations: Sequence[Operation]) -> str:
    resource_type, name = resource
    if resource_type == TOPIC:
        check_topic_name(name)
        return name
    if resource_type == BROKER:
        keys = ", ".join(key for key, _, _ in operations) or "settings"
        raise Refused(
            ErrorCode.invalid_request,
            f"{keys}: brokers take their settings at start; change the broker's properties and"
            " restart it",
        )
    raise Refused(
        ErrorCode.invalid_request,
        f"Configs can be altered for topics only, but the resource type is {resource_type}",
    )


def _values(
    topic: str, operations: Sequence[Operation], services: AltersConfigs
) -> dict[str, str | None]:
    """The new override of each key, None to remove it. Raises Refused."""
    values: dict[str, str | None] = {}
    for key, operation, value in operations:
        if key in values:
            raise Refused(ErrorCode.invalid_request, f"Error due to duplicate config keys : {key}")
        if operation == DELETE:
            values[key] = None
        elif value is None:
            raise Refused(ErrorCode.invalid_request, f"Null value not supported for : {key}")
        elif operation == SET:
            values[key] = value
        elif operation in (APPEND, SUBTRACT):
            values[key] = _merged(topic, key, value, operation, services)
        else:
            raise Refused(ErrorCode.invalid_request, f"Unknown operation type {operation}")
    return values


def _merged(topic: str, key: str, value: str, operation: int, services: AltersConfigs) -> str:
    try:
        setting = TOPIC_SETTINGS.find(key)
    except SettingError as problem:
        raise Refused(ErrorCode.invalid_config, str(problem)) from None
    if setting.type.code != TypeCode.LIST:
        raise Refused(
            ErrorCode.invalid_request,
            f"Config value append or subtract is not allowed for config key: {key}",
        )
    known = services.metadata.topics.get(topic)
    settings = services.topic_settings({} if known is None else known.configs)
    present = [one for one in (setting.render(settings[setting]) or "").split(",") if one]
    given = [one.strip() for one in value.split(",") if one.strip()]
    if operation == APPEND:
        return ",".join([*present, *(one for one in given if one not in present)])
    return ",".join(one for one in present if one not in given)
