"""CreateAcls (API key 30), versions 1-3.

Any broker serves it. The answer is sent when the registry has the rules and this broker applies
them; the other brokers follow within a round trip to the registry. Each rule succeeds or fails on
its own.
v1 name patterns (KIP-290); v2 flexible; v3 resource type USER (KIP-373).
"""

from datetime import timedelta
from typing import Final

from cluster.brokers.handlers.access import ALTER_CLUSTER
from cluster.brokers.handlers.acl_requests import acls_for
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import SecurityServices
from cluster.brokers.stored.acl_changes import AclOutcomes
from cluster.coordinator.registry.documents.paths import is_node_name
from cluster.model.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    AclOperation,
    AclPermission,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

API: Final = Api(ApiKey.CREATE_ACLS, 1, 3)


def handle(
    request: CreateAclsRequest, context: RequestContext, services: SecurityServices
) -> CreateAclsResponse | NotYet:
    """Check every rule and store the valid ones."""
    try:
        acls = acls_for(services, context, ALTER_CLUSTER)
    except Refused as refused:
        return _response([refused] * len(request.creations), {})
    outcomes: list[AclBinding | Refused] = []
    for creation in request.creations:
        try:
            outcomes.append(_binding(creation))
        except Refused as refused:
            outcomes.append(refused)
    acls.add(
        [each for each in outcomes if isinstance(each, AclBinding)],
        lambda stored: context.answer(_response(outcomes, stored)),
    )
    return PARKED


def _binding(creation: AclCreation) -> AclBinding:
    """The rule that an item of the request creates. Raises Refused (Kafka: `AclApis`,
    `AclControlManager`).
    """
    kind = ResourceType.of_code(creation.resource_type)
    pattern_type = PatternType.of_code(creation.resource_pattern_type)
    operation = AclOperation.of_code(creation.operation)
    permission = AclPermission.of_code(creation.permission_type)
    name = creation.resource_name
    problem = None
    if kind <= ResourceType.ANY:
        problem = f"Invalid resourceType {kind.name}"
    elif pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"Invalid patternType {pattern_type.name}"
    elif operation <= AclOperation.ANY:
        problem = f"Invalid operation {operation.name}"
    elif permission <= AclPermission.ANY:
        problem = f"Invalid permissionType {permission.name}"
    elif kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif name == "":
        problem = "Invalid empty resource name"
    elif not is_node_name(name):
        problem = f"ACL binding contains invalid resource name: {name!r}"
    elif not all(creation.principal.partition(":")):
        problem = f"Could not parse principal from `{creation.principal}`: it is not type:name"
    elif creation.host == "":
        problem = "Invalid empty host"
    if problem is not None:
        raise Refused(ErrorCode.invalid_request, problem)
    return AclBinding(
        ResourcePattern(kind, name, pattern_type),
        AclEntry(creation.principal, creation.host, operation, permission),
    )


def _response(outcomes: list[AclBinding | Refused], stored: AclOutcomes) -> CreateAclsResponse:
    return CreateAclsResponse(
        throttle_time=timedelta(0), results=tuple(_result(each, stored) for each in outcomes)
    )


def _result(outcome: AclBinding | Refused, stored: AclOutcomes) -> AclCreationResult:
    if isinstance(outcome, Refused):
        return AclCreationResult(error_code=outcome.code, error_message=outcome.detail or None)
    made = stored[outcome.pattern]
    return AclCreationResult(error_code=made.code, error_message=made.detail)


HANDLER: Final = adapted(API, handle, SecurityServices, authorizes=(ALTER_CLUSTER,))
