"""SyncGroup: stores the leader's assignment, then sends each member its part. Pure.

Kafka: `classicGroupSyncToClassicGroup`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.requests import SyncGroup, SyncGroupReply
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.records import group_key, group_value
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import GroupState, Sync
from cluster.coordinator.groups.state.classic_storage import stored_group
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Syncing:
    """Processes SyncGroup requests. Each is answered at once or waits at its member."""

    def __init__(self, parts: ShardParts, rebalancing: Rebalancing) -> None:
        self._parts = parts
        self._rebalancing = rebalancing

    def sync(self, request: SyncGroup, token: object, now: Moment) -> None:
        """Answer a request or let it wait; the leader's request stores the assignment."""
        group = self._parts.groups.get(request.group_id)
        if group is None:
            self._refuse(token, ErrorCode.unknown_member_id)
            return
        error = _check(group, request)
        if error is not ErrorCode.none:
            self._refuse(token, error)
            return
        match group.rules.sync:
            case Sync.UNKNOWN_MEMBER:
                self._refuse(token, ErrorCode.unknown_member_id)
            case Sync.REBALANCE_IN_PROGRESS:
                self._refuse(token, ErrorCode.rebalance_in_progress)
            case Sync.ANSWER:
                self._answer_again(group, group.members[request.member_id], token, now)
            case Sync.WAIT:
                self._wait(group, request, token)

    def _refuse(self, token: object, error: ErrorCode) -> None:
        self._parts.outbox.answer(token, SyncGroupReply(error))

    def _answer_again(
        self, group: ClassicGroup, member: Member, token: object, now: Moment
    ) -> None:
        group.roster.pending_sync.discard(member.member_id)
        reply = SyncGroupReply(
            ErrorCode.none, group.roster.protocol_type, group.protocol_name, member.assignment
        )
        self._parts.outbox.answer(token, reply)
        self._rebalancing.restart_session(member, now)

    def _wait(self, group: ClassicGroup, request: SyncGroup, token: object) -> None:
        member = group.members[request.member_id]
        # the client gave up on an earlier request and repeats it
        self._rebalancing.answer_sync(member, SyncGroupReply(ErrorCode.rebalance_in_progress))
        member.sync_token = token
        group.roster.pending_sync.discard(member.member_id)
        if member.member_id != group.roster.leader_id:
            return
        log.info(
            "Leader %s of group %s sent the assignment of generation %d: %d members, %d of them"
            " static.",
            member.member_id,
            group.group_id,
            group.generation_id,
            len(group.members),
            len(group.static_members),
        )
        value = group_value(stored_group(group, request.assignments))
        after = _AssignmentStored(
            self._rebalancing,
            self._parts.counts,
            group,
            member,
            request.assignments,
            group.generation_id,
        )
        self._parts.outbox.append([CoordinatorRecord(group_key(group.group_id), value)], after)


def _check(group: ClassicGroup, request: SyncGroup) -> ErrorCode:
    error = group.check_generation(
        request.member_id, request.group_instance_id, request.generation_id
    )
    if error is not ErrorCode.none:
        return error
    other_type = request.protocol_type not in (None, group.roster.protocol_type)
    other_name = request.protocol_name not in (None, group.protocol_name)
    return ErrorCode.inconsistent_group_protocol if other_type or other_name else ErrorCode.none


@dataclass(slots=True)
class _AssignmentStored:
    """Makes the group Stable once the assignment is stored; if the append fails the group
    rebalances.

    Does nothing if the group has left this generation in the meantime.
    """

    rebalancing: Rebalancing
    counts: GroupCounts
    group: ClassicGroup
    leader: Member
    assignments: Mapping[str, bytes]
    generation_id: int

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        del now, is_stored

    def answer(self, error: ErrorCode, now: Moment) -> None:
        group = self.group
        if (
            group.state is not GroupState.COMPLETING_REBALANCE
            or group.generation_id != self.generation_id
        ):
            return
        if error is not ErrorCode.none:
            reply_error = coordinator_error(error)
            self.rebalancing.refuse_syncs(group, reply_error, now)
            cause = Cause(
                CauseKind.ASSIGNMENT_NOT_STORED, self.leader.who, detail=reply_error.name.upper()
            )
            self.rebalancing.prepare(group, cause, now)
            return
        for member in group.members.values():
            member.assignment = self.assignments.get(member.member_id, b"")
        self.rebalancing.answer_syncs(group, ErrorCode.none, now)
        group.transition(GroupState.STABLE, now)
        self.counts.note_rebalance(group.group_id, group.generation_id, len(group.members))
        group.history.over(
            now, group.generation_id, len(group.members), self.leader.who, group.protocol_name
        )
