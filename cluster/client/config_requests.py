"""Asks a cluster to change settings of topics (KIP-339)."""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.client.quota_requests import Caller
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

RESOURCE_TYPES: Final = {"topics": 2, "brokers": 4}

_SET: Final = 0
_DELETE: Final = 1


def alter_configs(
    client: Caller,
    entity_type: str,
    name: str,
    added: Mapping[str, str],
    deleted: Iterable[str],
) -> None:
    """Set and remove values of one topic or broker. Raises Refused."""
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
