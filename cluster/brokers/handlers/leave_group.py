"""LeaveGroup (API key 13), versions 0-5.

v3 several members, also static ones by instance id, each with its own error (KIP-345); v4 flexible;
v5 the reason to leave (KIP-800).
"""

from typing import Final

from cluster.brokers.handlers.access import READ_GROUP
from cluster.brokers.handlers.group_requests import NO_TIME, answered, find_group
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import LeaveGroup, LeaveGroupReply, LeavingMember
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

API: Final = Api(ApiKey.LEAVE_GROUP, 0, 5)

_FIRST_WITH_SEVERAL: Final = 3


def handle(
    request: LeaveGroupRequest, context: RequestContext, services: GroupServices
) -> LeaveGroupResponse | NotYet:
    try:
        group = find_group(services, context, READ_GROUP, request.group_id)
    except Refused as refused:
        return _response(LeaveGroupReply(refused.code), context.version)
    if context.version >= _FIRST_WITH_SEVERAL:
        members = tuple(
            LeavingMember(each.member_id, each.group_instance_id, each.reason or "")
            for each in request.members
        )
    else:
        members = (LeavingMember(request.member_id),)
    leaving = LeaveGroup(request.group_id, members)

    def response_of(reply: LeaveGroupReply) -> LeaveGroupResponse:
        return _response(reply, context.version)

    return answered(context, group, leaving, response_of)


def _response(reply: LeaveGroupReply, version: int) -> LeaveGroupResponse:
    code = reply.error
    if version < _FIRST_WITH_SEVERAL:  # the member's error is the error of the whole request
        errors = (code, *(member.error for member in reply.members))
        code = next((error for error in errors if error is not ErrorCode.none), code)
    return LeaveGroupResponse(
        throttle_time=NO_TIME,
        error_code=code,
        members=tuple(
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=member.error,
            )
            for member in reply.members
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(READ_GROUP,))
