"""DeleteAcls (API key 31), versions 1-3.

Any broker serves it. Each filter is answered with the rules that it matched on this broker, after
the registry has removed them and this broker has stopped applying them.
v1 name patterns (KIP-290); v2 flexible; v3 resource type USER (KIP-373).
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER
from cluster.brokers.handlers.acl_requests import acls_for, filter_of
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.stored.acl_changes import AclOutcomes
from cluster.model.acls import AclBinding
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

API: Final = Api(ApiKey.DELETE_ACLS, 1, 3)


def handle(
    request: DeleteAclsRequest, context: RequestContext, services: SecurityServices
) -> DeleteAclsResponse | NotYet:
    """Delete all rules that match any of the filters."""
    try:
        acls = acls_for(services, context, ALTER_CLUSTER)
    except Refused as refused:
        return _response([refused] * len(request.filters), {})
    outcomes: list[list[AclBinding] | Refused] = []
    for asked in request.filters:
        try:
            outcomes.append(acls.find(filter_of(asked)))
        except Refused as refused:
            outcomes.append(refused)
    acls.remove(
        {binding for each in outcomes if not isinstance(each, Refused) for binding in each},
        lambda stored: context.answer(_response(outcomes, stored)),
    )
    return PARKED


def _response(
    outcomes: Sequence[list[AclBinding] | Refused], stored: AclOutcomes
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        throttle_time=timedelta(0),
        filter_results=tuple(_result(each, stored) for each in outcomes),
    )


def _result(outcome: list[AclBinding] | Refused, stored: AclOutcomes) -> DeleteAclsFilterResult:
    if isinstance(outcome, Refused):
        return DeleteAclsFilterResult(
            error_code=outcome.code, error_message=outcome.detail or None, matching_acls=()
        )
    return DeleteAclsFilterResult(
        error_code=ErrorCode.none,
        error_message=None,
        matching_acls=tuple(_deleted(each, stored) for each in outcome),
    )


def _deleted(binding: AclBinding, stored: AclOutcomes) -> DeleteAclsMatchingAcl:
    made = stored[binding.pattern]
    return DeleteAclsMatchingAcl(
        error_code=made.code,
        error_message=made.detail,
        resource_type=binding.pattern.resource_type,
        resource_name=binding.pattern.name,
        pattern_type=binding.pattern.pattern_type,
        principal=binding.entry.principal,
        host=binding.entry.host,
        operation=binding.entry.operation,
        permission_type=binding.entry.permission,
    )


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=(ALTER_CLUSTER,))
