"""DeleteGroups (API key 42), versions 0-2.

The answer is sent when every in-sync replica has the tombstones of every group. A group with
members is refused (NON_EMPTY_GROUP).
v2 flexible.
"""

from typing import Final

from cluster.brokers.coordinators.led_shard import LedShard
from cluster.brokers.handlers.access import DELETE_GROUP, check
from cluster.brokers.handlers.group_requests import NO_TIME
from cluster.brokers.handlers.request import PARKED, NotYet, RequestContext, adapted
from cluster.brokers.handlers.services import GroupServices
from cluster.coordinator.groups.requests import DeletedGroup, DeleteGroups, DeleteGroupsReply
from cluster.coordinator.groups.shard import GroupShard
from cluster.model.errors import ErrorCode, Refused
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.messages import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

API: Final = Api(ApiKey.DELETE_GROUPS, 0, 2)


def handle(
    request: DeleteGroupsRequest, context: RequestContext, services: GroupServices
) -> DeleteGroupsResponse | NotYet:
    """Delete groups with all their committed offsets."""
    found: dict[LedShard[GroupShard], list[str]] = {}
    results: list[DeletedGroup] = []
    for group_id in dict.fromkeys(request.groups_names):
        try:
            check(services, context, DELETE_GROUP, group_id)
            found.setdefault(services.groups.find(group_id), []).append(group_id)
        except Refused as refused:
            results.append(DeletedGroup(group_id, refused.code))
    waiting = len(found)
    is_parked = False

    def on_reply(reply: DeleteGroupsReply) -> None:
        nonlocal waiting
        results.extend(reply.groups)
        waiting -= 1
        if waiting == 0 and is_parked:
            context.answer(_response(results))

    for shard, group_ids in found.items():
        shard.submit(DeleteGroups(tuple(group_ids)), on_reply)
    if waiting == 0:
        return _response(results)
    is_parked = True
    return PARKED


def _response(results: list[DeletedGroup]) -> DeleteGroupsResponse:
    codes: list[tuple[str, ErrorCode]] = [(each.group_id, each.error) for each in results]
    return DeleteGroupsResponse(
        throttle_time=NO_TIME,
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=code) for group_id, code in codes
        ),
    )


HANDLER: Final = adapted(API, handle, GroupServices, authorizes=(DELETE_GROUP,))
