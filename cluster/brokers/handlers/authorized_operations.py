"""The operations that a client may perform, as bit fields of AclOperation codes (KIP-430)."""

from collections.abc import Iterable
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER, may
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import Services
from cluster.model.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, ResourceType

NOT_REQUESTED: Final = -(2**31)


def _bits(operations: Iterable[AclOperation]) -> int:
    return sum(1 << operation for operation in operations)


_EVERYTHING: Final = {kind: _bits(operations) for kind, operations in SUPPORTED_OPERATIONS.items()}


def authorized_operations(
    services: Services, context: RequestContext, resource_type: ResourceType, name: str
) -> int:
    """The operations allowed on a resource; without an authorizer, all that its type supports."""
    authorizer = services.authorizer
    if authorizer is None:
        return _EVERYTHING[resource_type]
    return _bits(authorizer.allowed_operations(context.user, context.host, resource_type, name))


def cluster_operations(services: Services, context: RequestContext) -> int:
    """The operations allowed on the cluster; 0 if the client may not describe it."""
    if not may(services, context, DESCRIBE_CLUSTER):
        return 0
    return authorized_operations(services, context, ResourceType.CLUSTER, CLUSTER_NAME)
