"""AlterConfigs (API key 33), versions 0-2.

As IncrementalAlterConfigs, but the given values replace all that a topic or a broker has.
v2 flexible.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.config_alterations import RIGHTS, SET, AltersConfigs, Resource, alter
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API: Final = Api(ApiKey.ALTER_CONFIGS, 0, 2)


def handle(
    request: AlterConfigsRequest, context: RequestContext, services: AltersConfigs
) -> NotYet:
    """Replace the configs of each resource."""

    def on_done(outcomes: dict[Resource, Outcome]) -> None:
        context.answer(
            AlterConfigsResponse(
                throttle_time=timedelta(0),
                responses=tuple(
                    AlterConfigsResourceResponse(
                        error_code=outcome.code,
                        error_message=outcome.detail,
                        resource_type=resource_type,
                        resource_name=name,
                    )
                    for (resource_type, name), outcome in outcomes.items()
                ),
            )
        )

    alter(
        [
            (
                (each.resource_type, each.resource_name),
                [(config.name, SET, config.value) for config in each.configs],
            )
            for each in request.resources
        ],
        context,
        services,
        on_done,
        is_whole=True,
        validate_only=request.validate_only,
    )
    return PARKED


HANDLER: Final = adapted(API, handle, authorizes=RIGHTS)
