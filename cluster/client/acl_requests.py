"""Asks a cluster for access control lists, and to change them (KIP-140, KIP-290)."""

from collections.abc import Iterable, Sequence

from cluster.client.quota_requests import Caller
from cluster.model.acls import (
    AclBinding,
    AclEntry,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import ApiKey
from cluster.protocol.messages import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)


def create_acls(client: Caller, bindings: Iterable[AclBinding]) -> None:
    """Add rules; those that are there already stay. Raises Refused for the first refusal."""
    request = CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for pattern, entry in bindings
        )
    )
    for result in client.call(ApiKey.CREATE_ACLS, request).results:
        _check(result.error_code, result.error_message)


def delete_acls(client: Caller, filters: Sequence[AclFilter]) -> list[AclBinding]:
    """Remove the rules that any filter selects; returns these. Raises Refused."""
    request = DeleteAclsRequest(
        filters=tuple(
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        )
    )
    removed = []
    for result in client.call(ApiKey.DELETE_ACLS, request).filter_results:
        _check(result.error_code, result.error_message)
        for acl in result.matching_acls:
            _check(acl.error_code, acl.error_message)
            removed.append(
                AclBinding(
                    ResourcePattern(
                        ResourceType.of_code(acl.resource_type),
                        acl.resource_name,
                        PatternType.of_code(acl.pattern_type),
                    ),
                    _entry(acl.principal, acl.host, acl.operation, acl.permission_type),
                )
            )
    return removed


def describe_acls(client: Caller, wanted: AclFilter) -> list[AclBinding]:
    """The rules that a filter selects. Raises Refused."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    told = client.call(ApiKey.DESCRIBE_ACLS, request)
    _check(told.error_code, told.error_message)
    return [
        AclBinding(
            ResourcePattern(
                ResourceType.of_code(resource.resource_type),
                resource.resource_name,
                PatternType.of_code(resource.pattern_type),
            ),
            _entry(acl.principal, acl.host, acl.operation, acl.permission_type),
        )
        for resource in told.resources
        for acl in resource.acls
    ]


def _entry(principal: str, host: str, operation: int, permission: int) -> AclEntry:
    return AclEntry(
        principal, host, AclOperation.of_code(operation), AclPermission.of_code(permission)
    )


def _check(code: ErrorCode, message: str | None) -> None:
    if code is not ErrorCode.none:
        raise Refused(code, message or "")
