"""ListGroups (API key 16), versions 0-5.

Lists the groups that this broker coordinates; a client sends it to every broker. While some groups
are being loaded, the others are listed with COORDINATOR_LOAD_IN_PROGRESS, as in Kafka.
v3 flexible; v4 states and a state filter (KIP-518); v5 types and a type filter (KIP-848).
"""

from typing import Final

from cluster.brokers.handlers.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP, may
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.views.queries import ListGroups
from cluster.model.errors import ErrorCode
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import ListedGroup, ListGroupsRequest, ListGroupsResponse

API: Final = Api(ApiKey.LIST_GROUPS, 0, 5)


def handle(
    request: ListGroupsRequest, context: RequestContext, services: GroupServices
) -> ListGroupsResponse:
    """Names, protocol types, states and types of groups."""
    groups = services.groups
    sees_all = may(services, context, DESCRIBE_CLUSTER, is_audited=False)
    is_loading = groups.is_loading
    asked = ListGroups(request.states_filter, request.types_filter)
    return ListGroupsResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode.coordinator_load_in_progress if is_loading else ErrorCode.none,
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for led in groups.all_loaded()
            for group in led.ask(asked)
            if sees_all or may(services, context, DESCRIBE_GROUP, group.group_id, is_audited=False)
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(DESCRIBE_CLUSTER, DESCRIBE_GROUP))
