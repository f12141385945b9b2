"""Changes settings of topics, brokers and groups (KIP-339), asks which have their full effect."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from cluster.client.quota_requests import Caller
from cluster.config.effect import remark_of
from cluster.config.snapshot import Source
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)

RESOURCE_TYPES: Final = {
    "topics": 2,
    "brokers": 4,
    "broker-loggers": 8,
    "client-metrics": 16,
    "groups": 32,
}

_SET: Final = 0
_DELETE: Final = 1


def alter_configs(
    client: Caller,
    entity_type: str,
    name: str,
    added: Mapping[str, str],
    deleted: Iterable[str],
) -> None:
    """Set and remove values of one topic, broker or group, or of all brokers ("").

    A broker's values must be changed by that broker. Raises Refused.
    """
    operations = [(key, _SET, value) for key, value in added.items()]
    operations += [(key, _DELETE, "") for key in deleted]
    request = IncrementalAlterConfigsRequest(
        resources=(
            IncrementalAlterConfigsResource(
                resource_type=RESOURCE_TYPES[entity_type],
                resource_name=name,
                configs=tuple(
                    IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in operations
                ),
            ),
        ),
        validate_only=False,
    )
    for response in client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request).responses:
        if response.error_code is not ErrorCode.none:
            raise Refused(response.error_code, response.error_message or "")


def names_with_configs(client: Caller, entity_type: str) -> list[str]:
    """The groups, or client metrics subscriptions, that have configs of their own.

    Raises Refused and UserError.
    """
    request = ListConfigResourcesRequest(resource_types=(RESOURCE_TYPES[entity_type],))
    told = client.call(ApiKey.LIST_CONFIG_RESOURCES, request)
    if told.error_code is not ErrorCode.none:
        raise Refused(told.error_code)
    return [each.resource_name for each in told.config_resources]


def topic_configs(
    client: Caller, names: Collection[str], keys: Collection[str] | None = None
) -> dict[str, tuple[DescribeConfigsResourceResult, ...]]:
    """The settings of each of these topics, without documentation; one that is gone is left out.

    `keys` are the settings to ask for, None for all. Raises UserError when the connection is lost.
    """
    if not names:
        return {}
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(
                resource_type=RESOURCE_TYPES["topics"],
                resource_name=name,
                configuration_keys=None if keys is None else tuple(keys),
            )
            for name in names
        )
    )
    return {
        result.resource_name: result.configs
        for result in client.call(ApiKey.DESCRIBE_CONFIGS, request).results
        if result.error_code is ErrorCode.none
    }


class Shortfall(NamedTuple):
    """A setting that the cluster accepts, but that lacks some or all of its documented effect."""

    remark: str
    default: str | None


def described(
    client: Caller, entity_type: str, name: str, keys: Iterable[str] | None = None
) -> tuple[DescribeConfigsResourceResult, ...]:
    """The settings of one topic or broker, documented; of all brokers where the name is empty.

    `keys` are the settings to ask for, None for all. A broker's settings, and the levels of its
    loggers, must be requested from that broker. Raises Refused.
    """
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(
                resource_type=RESOURCE_TYPES[entity_type],
                resource_name=name,
                configuration_keys=None if keys is None else tuple(keys),
            ),
        ),
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, request).results
    if result.error_code is not ErrorCode.none:
        raise Refused(result.error_code, result.error_message or "")
    configs: tuple[DescribeConfigsResourceResult, ...] = result.configs
    return configs


def shortfalls(client: Caller, entity_type: str, name: str) -> dict[str, Shortfall]:
    """The settings of one topic or broker that lack an effect, by name; empty for Apache Kafka.

    A broker's settings must be requested from that broker. Raises Refused.
    """
    return {
        entry.name: Shortfall(
            remark,
            next((each.value for each in entry.synonyms if each.source == Source.DEFAULT), None),
        )
        for entry in described(client, entity_type, name)
        if (remark := remark_of(entry.documentation)) is not None
    }
