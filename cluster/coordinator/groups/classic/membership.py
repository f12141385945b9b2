"""Heartbeat and LeaveGroup. Pure.

Kafka: `classicGroupHeartbeat`, `classicGroupLeave`.
"""

import logging

from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.requests import (
    NO_MEMBER_ID,
    Heartbeat,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
)
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Membership:
    """Processes the Heartbeat and LeaveGroup requests of members."""

    def __init__(self, parts: ShardParts, rebalancing: Rebalancing) -> None:
        self._parts = parts
        self._rebalancing = rebalancing

    def heartbeat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """Restart the member's session; REBALANCE_IN_PROGRESS if the member has to rejoin."""
        group = self._parts.groups.get(request.group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        error = group.check_generation(
            request.member_id, request.group_instance_id, request.generation_id
        )
        if error is not ErrorCode.none:
            return error
        rules = group.rules
        if rules.heartbeat_counts:
            self._rebalancing.restart_session(group.members[request.member_id], now)
        return rules.heartbeat

    def leave(self, request: LeaveGroup, token: object, now: Moment) -> None:
        """Remove members; each of them is answered separately."""
        left = tuple(
            LeftMember(
                each.member_id,
                each.group_instance_id,
                self._leave_one(self._parts.groups.get(request.group_id), each, now),
            )
            for each in request.members
        )
        self._parts.outbox.answer(token, LeaveGroupReply(ErrorCode.none, left))

    def _leave_one(
        self, group: ClassicGroup | None, leaving: LeavingMember, now: Moment
    ) -> ErrorCode:
        if group is None:
            return ErrorCode.unknown_member_id
        member_id = leaving.member_id
        if member_id == NO_MEMBER_ID:
            # an administrator removes a static member by its instance id (KIP-571)
            instance_id = leaving.group_instance_id
            known_id = None if instance_id is None else group.static_members.get(instance_id)
            if known_id is None:
                return ErrorCode.unknown_member_id
            member_id = known_id
        elif member_id in group.pending_join:
            log.info("Unused member id %s leaves group %s.", member_id, group.group_id)
            self._rebalancing.forget_expected(group, member_id, now)
            return ErrorCode.none
        else:
            error = group.check_member(member_id, leaving.group_instance_id)
            if error is not ErrorCode.none:
                return error
        member = group.members[member_id]
        log.info(
            "Member %s left group %s by LeaveGroup; client reason: %s",
            member_id,
            group.group_id,
            leaving.reason or "not provided",
        )
        cause = Cause(CauseKind.MEMBER_LEFT, member.who, detail=leaving.reason)
        self._rebalancing.remove(group, member, cause, now)
        return ErrorCode.none
