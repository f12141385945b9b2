"""DescribeAcls (API key 29), versions 1-3.

Answers at once with the rules that this broker has. SECURITY_DISABLED without an authorizer.
v1 patterns of names (KIP-290); v2 flexible; v3 resources of type USER (KIP-373).
"""

from datetime import timedelta
from itertools import groupby
from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER
from cluster.brokers.handlers.acl_requests import acls_for, filter_of
from cluster.brokers.handlers.ports import HasAcls
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.model.acls import AclBinding, ResourcePattern
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

API: Final = Api(ApiKey.DESCRIBE_ACLS, 1, 3)


def handle(
    request: DescribeAclsRequest, context: RequestContext, services: HasAcls
) -> DescribeAclsResponse:
    """The rules that the filter selects, by resource pattern."""
    code, detail = ErrorCode.none, None
    found: list[AclBinding] = []
    try:
        found = acls_for(services, context, DESCRIBE_CLUSTER).find(filter_of(request))
    except Refused as refused:
        code, detail = refused.code, refused.detail or None
    return DescribeAclsResponse(
        throttle_time=timedelta(0),
        error_code=code,
        error_message=detail,
        resources=tuple(
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=tuple(
                    AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                    for _, entry in bindings
                ),
            )
            for pattern, bindings in groupby(found, key=_pattern)
        ),
    )


def _pattern(binding: AclBinding) -> ResourcePattern:
    return binding.pattern


HANDLER: Final = adapted(API, handle, authorizes=(DESCRIBE_CLUSTER,))
