"""AlterConfigs (API key 33), versions 0-2.

Like IncrementalAlterConfigs, but the given values replace all values of a topic or broker.
v2 flexible.
"""

from typing import Final

from cluster.brokers.handlers.config_alterations import RIGHTS, SET, alter
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API: Final = Api(ApiKey.ALTER_CONFIGS, 0, 2)


def handle(
    request: AlterConfigsRequest, context: RequestContext, services: AdminServices
) -> NotYet:
    return alter(
        [
            (
                (each.resource_type, each.resource_name),
                [(config.name, SET, config.value) for config in each.configs],
            )
            for each in request.resources
        ],
        context,
        services,
        AlterConfigsResponse,
        AlterConfigsResourceResponse,
        is_whole=True,
        validate_only=request.validate_only,
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=RIGHTS)
