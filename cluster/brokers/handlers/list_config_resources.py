"""ListConfigResources (API key 74), versions 0-1.

Answers immediately with the resources that can have configs: topics, brokers, their loggers, and
the groups that have configs, and the client metrics subscriptions, which alone version 0 lists.
UNSUPPORTED_VERSION for other resource types.
v1 resource types (KIP-1142).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER_CONFIGS, may
from cluster.brokers.handlers.broker_loggers import BROKER_LOGGER
from cluster.brokers.handlers.describe_configs import BROKER, CLIENT_METRICS, GROUP, TOPIC
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

API: Final = Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1)

_FIRST_WITH_TYPES: Final = 1


def handle(
    request: ListConfigResourcesRequest, context: RequestContext, services: AdminServices
) -> ListConfigResourcesResponse:
    """The resources of the requested types, or of all types if none is given."""
    if not may(services, context, DESCRIBE_CLUSTER_CONFIGS):
        return ListConfigResourcesResponse(
            throttle_time=NO_TIME,
            error_code=ErrorCode.cluster_authorization_failed,
            config_resources=(),
        )
    brokers = list(map(str, services.metadata.brokers))
    names: Mapping[int, Iterable[str]] = {
        GROUP: services.group_configs.group_ids(),
        CLIENT_METRICS: services.client_metrics.configs.names(),
        BROKER_LOGGER: brokers,
        BROKER: brokers,
        TOPIC: services.metadata.topics,
    }
    if context.version < _FIRST_WITH_TYPES:
        names = {CLIENT_METRICS: names[CLIENT_METRICS]}
    is_known = set(request.resource_types) <= names.keys()
    wanted = set(request.resource_types) or names.keys()
    return ListConfigResourcesResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.none if is_known else ErrorCode.unsupported_version,
        config_resources=tuple(
            ConfigResource(resource_type=kind, resource_name=name)
            for kind, listed in names.items()
            if is_known and kind in wanted
            for name in listed
        ),
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DESCRIBE_CLUSTER_CONFIGS,))
