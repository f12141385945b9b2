"""Shared by the handlers of ACL requests: access to the rules, and decoding of filters."""

from cluster.brokers.handlers.access import check
from cluster.brokers.handlers.request import RequestContext
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.stored.acl_changes import AclChanges
from cluster.model.acls import (
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    Right,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.messages import DeleteAclsFilter, DescribeAclsRequest


def acls_for(services: SecurityServices, context: RequestContext, right: Right) -> AclChanges:
    """The ACLs, for a client with that right.
    Raises Refused: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED.
    """
    check(services, context, right)
    if services.acls is None:
        raise Refused(ErrorCode.security_disabled, "No Authorizer is configured.")
    return services.acls


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter of a request. Raises Refused if it contains unknown codes."""
    found = AclFilter(
        ResourceType.of_code(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.of_code(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        AclOperation.of_code(asked.operation),
        AclPermission.of_code(asked.permission_type),
    )
    if found.has_unknown:
        raise Refused(ErrorCode.invalid_request, "The AclBindingFilter contains UNKNOWN elements.")
    return found
