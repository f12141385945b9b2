"""IncrementalAlterConfigs (API key 44), versions 0-1.

Topics: any broker serves it; the change goes through the controller, and the answer comes when
every live broker has it. Settings of one broker: that broker alone, of all ("") any; the answer
comes when the registry has the change and this broker applies it. Levels of a broker's loggers
(KIP-412): that broker, at once. v1 flexible.
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.config_alterations import RIGHTS, AltersConfigs, Resource, alter
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.model.plan import Outcome
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

API: Final = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, services: AltersConfigs
) -> NotYet:
    """Set, delete, append or subtract values; what is not named stays."""

    def on_done(outcomes: dict[Resource, Outcome]) -> None:
        context.answer(
            IncrementalAlterConfigsResponse(
                throttle_time=timedelta(0),
                responses=tuple(
                    IncrementalAlterConfigsResourceResponse(
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
                [(config.name, config.config_operation, config.value) for config in each.configs],
            )
            for each in request.resources
        ],
        context,
        services,
        on_done,
        is_whole=False,
        validate_only=request.validate_only,
    )
    return PARKED


HANDLER: Final = adapted(API, handle, authorizes=RIGHTS)
