"""DescribeGroups (API key 15), versions 0-6.

Only the coordinator of a group can describe it (NOT_COORDINATOR from other brokers). Groups of the
consumer protocol are unknown here; ConsumerGroupDescribe describes them.
v3 authorized operations (KIP-430); v4 instance ids (KIP-345); v5 flexible; v6 GROUP_ID_NOT_FOUND,
before it an unknown group has the state Dead (KIP-1043).
"""

from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_GROUP, check
from cluster.brokers.handlers.authorized_operations import NOT_REQUESTED, authorized_operations
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import GroupDescription
from cluster.coordinator.groups.views.queries import DescribeConsumerGroup, DescribeGroup
from cluster.model.acls import ResourceType
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

API: Final = Api(ApiKey.DESCRIBE_GROUPS, 0, 6)

_FIRST_WITH_NOT_FOUND: Final = 6
_DEAD: Final = "Dead"


def handle(
    request: DescribeGroupsRequest, context: RequestContext, services: GroupServices
) -> DescribeGroupsResponse:
    """State, protocol and members of each group."""
    return DescribeGroupsResponse(
        throttle_time=NO_TIME,
        groups=tuple(
            _describe(group_id, request, context, services)
            for group_id in dict.fromkeys(request.groups)
        ),
    )


def _describe(
    group_id: str, request: DescribeGroupsRequest, context: RequestContext, services: GroupServices
) -> DescribedGroup:
    try:
        check(services, context, DESCRIBE_GROUP, group_id)
        shard = services.groups.find(group_id)
    except Refused as refused:
        return _nothing(group_id, refused.code, "", None)
    operations = NOT_REQUESTED
    if request.include_authorized_operations:
        operations = authorized_operations(services, context, ResourceType.GROUP, group_id)
    found = shard.ask(DescribeGroup(group_id))
    if found is not None:
        return _described(found, operations)
    if context.version >= _FIRST_WITH_NOT_FOUND:
        is_newer = shard.ask(DescribeConsumerGroup(group_id)) is not None
        message = f"Group {group_id} {'is not a classic group' if is_newer else 'not found'}."
        return _nothing(group_id, ErrorCode.group_id_not_found, _DEAD, message)
    return _nothing(group_id, ErrorCode.none, _DEAD, None, operations)


def _nothing(
    group_id: str,
    code: ErrorCode,
    state: str,
    message: str | None,
    operations: int = NOT_REQUESTED,
) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=operations,
    )


def _described(found: GroupDescription, operations: int) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=found.group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in found.members
        ),
        authorized_operations=operations,
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(DESCRIBE_GROUP,))
