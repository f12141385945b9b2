"""IncrementalAlterConfigs (API key 44), versions 0-1.

Topics: any broker serves the request; the controller makes the change, and the answer is sent when
every live broker has it. Broker configs: only the named broker serves them, any broker the
cluster-wide ones (""); the answer is sent when the registry has the change and this broker applies
it. Levels of a broker's loggers (KIP-412): only that broker, immediately.
v1 flexible.
"""

from typing import Final

from cluster.brokers.handlers.config_alterations import RIGHTS, alter
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

API: Final = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, services: AdminServices
) -> NotYet:
    """Set, delete, append or subtract values; other values are kept."""
    return alter(
        [
            (
                (each.resource_type, each.resource_name),
                [(config.name, config.config_operation, config.value) for config in each.configs],
            )
            for each in request.resources
        ],
        context,
        services,
        IncrementalAlterConfigsResponse,
        IncrementalAlterConfigsResourceResponse,
        is_whole=False,
        validate_only=request.validate_only,
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=RIGHTS)
