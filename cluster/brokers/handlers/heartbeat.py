"""Heartbeat (API key 12), versions 0-4.

Answers immediately. The answer tells the member whether it has to rejoin.
v3 static members (KIP-345); v4 flexible.
"""

from typing import Final

from cluster.brokers.handlers.access import READ_GROUP
from cluster.brokers.handlers.group_requests import NO_TIME, find_group
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import Heartbeat
from cluster.model.errors import Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import HeartbeatRequest, HeartbeatResponse

API: Final = Api(ApiKey.HEARTBEAT, 0, 4)


def handle(
    request: HeartbeatRequest, context: RequestContext, services: GroupServices
) -> HeartbeatResponse:
    """Extend a member's session."""
    try:
        group = find_group(services, context, READ_GROUP, request.group_id)
    except Refused as refused:
        return HeartbeatResponse(throttle_time=NO_TIME, error_code=refused.code)
    code = group.ask(
        Heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        )
    )
    return HeartbeatResponse(throttle_time=NO_TIME, error_code=code)


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(READ_GROUP,))
