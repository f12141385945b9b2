"""SyncGroup (API key 14), versions 0-5.

Waits until the leader has sent the assignment of all members and it is stored.
v3 static members (KIP-345); v4 flexible; v5 protocol type and name, which a member must give
(INCONSISTENT_GROUP_PROTOCOL).
"""

from typing import Final

from cluster.brokers.handlers.access import READ_GROUP
from cluster.brokers.handlers.group_requests import NO_TIME, answered, find_group
from cluster.brokers.handlers.request import NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import SyncGroup, SyncGroupReply
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import SyncGroupRequest, SyncGroupResponse

API: Final = Api(ApiKey.SYNC_GROUP, 0, 5)

_FIRST_WITH_PROTOCOL: Final = 5


def handle(
    request: SyncGroupRequest, context: RequestContext, services: GroupServices
) -> SyncGroupResponse | NotYet:
    """Answer with a member's assignment."""
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    try:
        if context.version >= _FIRST_WITH_PROTOCOL and not has_protocol:
            raise Refused(ErrorCode.inconsistent_group_protocol)
        group = find_group(services, context, READ_GROUP, request.group_id)
    except Refused as refused:
        return _response(SyncGroupReply(refused.code))
    syncing = SyncGroup(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={each.member_id: each.assignment for each in request.assignments},
    )
    return answered(context, group, syncing, _response)


def _response(reply: SyncGroupReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        throttle_time=NO_TIME,
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(READ_GROUP,))
