"""JoinGroup (API key 11), versions 0-9.

Waits until the group's members have joined, or until the rebalance timeout.
v1 rebalance timeout, before it the session timeout; v4 MEMBER_ID_REQUIRED (KIP-394); v5 static
members (KIP-345); v6 flexible; v7 protocol type, null if there is no protocol; v8 the reason to
join (KIP-800); v9 the leader may be told to skip the assignment (KIP-814).
"""

from typing import Final

from cluster.brokers.handlers.access import READ_GROUP
from cluster.brokers.handlers.group_requests import (
    MILLISECOND,
    NO_TIME,
    answered,
    client_host,
    find_group,
)
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import GroupProtocol, JoinGroup, JoinGroupReply
from cluster.model.errors import Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

API: Final = Api(ApiKey.JOIN_GROUP, 0, 9)

_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_WITH_REQUIRED_MEMBER_ID: Final = 4
_FIRST_THAT_SKIPS_ASSIGNMENT: Final = 9


def handle(
    request: JoinGroupRequest, context: RequestContext, services: GroupServices
) -> JoinGroupResponse | NotYet:
    """Add a member to the next generation."""
    try:
        group = find_group(services, context, READ_GROUP, request.group_id)
    except Refused as refused:
        return _response(JoinGroupReply(refused.code, request.member_id))
    joining = _joining(request, context)
    return answered(context, group, joining, _response)


def _joining(request: JoinGroupRequest, context: RequestContext) -> JoinGroup:
    has_rebalance_timeout = context.version >= _FIRST_WITH_REBALANCE_TIMEOUT
    timeout = request.rebalance_timeout if has_rebalance_timeout else request.session_timeout
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        client_id=context.accounts.client.client_id,
        client_host=client_host(context),
        session_timeout_ms=request.session_timeout // MILLISECOND,
        rebalance_timeout_ms=timeout // MILLISECOND,
        protocol_type=request.protocol_type,
        protocols=tuple(GroupProtocol(each.name, each.metadata) for each in request.protocols),
        group_instance_id=request.group_instance_id,
        requires_known_member_id=context.version >= _FIRST_WITH_REQUIRED_MEMBER_ID,
        supports_skipping_assignment=context.version >= _FIRST_THAT_SKIPS_ASSIGNMENT,
        reason=request.reason or "",
    )


def _response(reply: JoinGroupReply) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time=NO_TIME,
        error_code=reply.error,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in reply.members
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(READ_GROUP,))
