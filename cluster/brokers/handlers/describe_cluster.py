"""DescribeCluster (API key 60), versions 0-2.

Answers immediately from the broker's metadata cache.
v1 endpoint type (brokers only); v2 fenced brokers (none).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER
from cluster.brokers.handlers.authorized_operations import NOT_REQUESTED, cluster_operations
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import AdminServices
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API: Final = Api(ApiKey.DESCRIBE_CLUSTER, 0, 2)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(
    request: DescribeClusterRequest, context: RequestContext, services: AdminServices
) -> DescribeClusterResponse:
    """The cluster id, the controller, and the brokers with their endpoints of the client's
    listener.
    """
    metadata = services.metadata
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            throttle_time=timedelta(0),
            error_code=(
                ErrorCode.mismatched_endpoint_type
                if request.endpoint_type == _CONTROLLERS
                else ErrorCode.unsupported_endpoint_type
            ),
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of"
                " type CONTROLLER"
                if request.endpoint_type == _CONTROLLERS
                else f"Unsupported endpoint type {request.endpoint_type}"
            ),
            cluster_id="",
            brokers=(),
        )
    return DescribeClusterResponse(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        brokers=tuple(
            DescribeClusterBroker(
                broker_id=broker.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=False,
            )
            for broker in metadata.brokers.values()
            if (endpoint := broker.endpoint(context.listener)) is not None
        ),
        cluster_authorized_operations=(
            cluster_operations(services, context)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


HANDLER: Final = adapted(API, handle, AdminServices, authorizes=(DESCRIBE_CLUSTER,))
