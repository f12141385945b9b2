"""JoinGroup: checks who may be a member, and when a request starts a rebalance. Pure.

Kafka: `classicGroupJoinToClassicGroup`. KIP-394 (member ids), KIP-345 (static members), KIP-814 (a
static leader may skip the assignment).
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.requests import (
    NO_MEMBER_ID,
    GroupProtocol,
    JoinGroup,
    JoinGroupReply,
)
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.records import group_key, group_value
from cluster.coordinator.groups.shared.subscription import CONSUMER, subscribed_topics
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import GroupState, Rejoin, Replace
from cluster.coordinator.groups.state.classic_storage import stored_group
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.coordinator.shards.record_text import is_storable
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

MEMBER_ID_ADDED_BYTES: Final = 37
"""A member id is the client id or the instance id, followed by a hyphen and a UUID."""


class Joining:
    """Processes JoinGroup requests. Each is answered at once or waits at its member."""

    def __init__(self, parts: ShardParts, rebalancing: Rebalancing) -> None:
        self._parts = parts
        self._rebalancing = rebalancing

    def join(self, request: JoinGroup, token: object, now: Moment) -> None:
        options = self._parts.options
        error = check_join(request, options)
        if error is not ErrorCode.none:
            self._refuse(token, error, request.member_id)
            return
        group = self._parts.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER_ID:
                self._refuse(token, ErrorCode.unknown_member_id, request.member_id)
                return
            group = self._parts.group_or_new(request.group_id, now)
        if not group.has_room_for(request.member_id, options.max_size):
            self._refuse_for_size(group, request, token, now)
        elif not group.roster.supports(request.protocol_type, request.protocols):
            self._refuse(token, ErrorCode.inconsistent_group_protocol, request.member_id)
        elif request.member_id == NO_MEMBER_ID:
            self._join_new(group, request, token, now)
        else:
            self._join_known(group, request, token, now)
        if group.is_disposable:
            self._parts.remove(group, now)

    def _refuse(self, token: object, error: ErrorCode, member_id: str) -> None:
        self._parts.outbox.answer(token, JoinGroupReply(error, member_id=member_id))

    def _refuse_for_size(
        self, group: ClassicGroup, request: JoinGroup, token: object, now: Moment
    ) -> None:
        self._refuse(token, ErrorCode.group_max_size_reached, NO_MEMBER_ID)
        member = group.members.get(request.member_id)
        if member is not None:
            cause = Cause(CauseKind.OVER_CAPACITY, member.who)
            self._rebalancing.remove(group, member, cause, now)
        elif request.member_id in group.pending_join:
            self._rebalancing.forget_expected(group, request.member_id, now)

    # ------------------------------------------------------------------ without a member id

    def _join_new(
        self, group: ClassicGroup, request: JoinGroup, token: object, now: Moment
    ) -> None:
        instance_id = request.group_instance_id
        prefix = request.client_id if instance_id is None else instance_id
        new_id = f"{prefix}-{self._parts.new_uuid()}"
        if instance_id is None and request.requires_known_member_id:
            self._rebalancing.expect(group, new_id, request.session_timeout_ms, now)
            self._refuse(token, ErrorCode.member_id_required, new_id)
            return
        known_id = None if instance_id is None else group.static_members.get(instance_id)
        if known_id is None:
            self._add(group, request, new_id, token, now)
        else:
            log.info(
                "Static member with instance id %s joins group %s in state %s without its member"
                " id; it replaces member %s.",
                instance_id,
                group.group_id,
                group.state.value,
                known_id,
            )
            self._replace(group, group.members[known_id], request, new_id, token, now)

    def _add(
        self, group: ClassicGroup, request: JoinGroup, member_id: str, token: object, now: Moment
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
        )
        self._rebalancing.new_member(group, member)
        if group.state is GroupState.PREPARING_REBALANCE and group.is_initial:
            group.new_member_added = True
        group.roster.add(member, request.protocol_type)
        self._rebalancing.park_join(group, member, token, now)
        self._rebalancing.restart_session(member, now)
        cause = Cause(CauseKind.MEMBER_JOINED, member.who, detail=request.reason)
        self._rebalancing.prepare_or_complete(group, cause, now)

    # ------------------------------------------------------------------ with a member id

    def _join_known(
        self, group: ClassicGroup, request: JoinGroup, token: object, now: Moment
    ) -> None:
        if request.member_id in group.pending_join and request.group_instance_id is None:
            group.pending_join.pop(request.member_id).drop()
            self._add(group, request, request.member_id, token, now)
            return
        error = group.check_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.none:
            self._refuse(token, error, request.member_id)
            return
        member = group.members[request.member_id]
        is_leader = request.member_id == group.roster.leader_id
        is_same = member.matches(request.protocols)
        match group.rules.rejoin:
            case Rejoin.ANSWER_IF_SAME if is_same:
                self._answer_again(group, member, token, with_members=is_leader)
            case Rejoin.ANSWER_FOLLOWER_IF_SAME if is_same and not is_leader:
                self._answer_again(group, member, token, with_members=False)
            case Rejoin.UNKNOWN_MEMBER:
                self._refuse(token, ErrorCode.unknown_member_id, request.member_id)
            case _:
                self._update(group, member, request, token, now)

    def _answer_again(
        self, group: ClassicGroup, member: Member, token: object, *, with_members: bool
    ) -> None:
        """Repeat the reply, which the member may not have received."""
        reply = self._rebalancing.current_generation(group, member, with_members=with_members)
        self._parts.outbox.answer(token, reply)

    def _update(
        self, group: ClassicGroup, member: Member, request: JoinGroup, token: object, now: Moment
    ) -> None:
        kind = _kind_of_change(group, member.protocols, request.protocols)
        group.roster.update(
            member,
            request.protocols,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
        )
        self._rebalancing.park_join(group, member, token, now)
        if group.rules.may_rebalance:
            cause = Cause(kind, member.who, detail=request.reason)
            self._rebalancing.prepare(group, cause, now)
        else:
            self._rebalancing.complete_join_if_all_are_in(group, now)

    # ------------------------------------------------------------------ static members

    def _replace(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinGroup,
        new_id: str,
        token: object,
        now: Moment,
    ) -> None:
        """Give a static member a new member id: it came back without the old one."""
        before = _Before(
            member.member_id,
            group.roster.leader_id or "",
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
        )
        self._rebalancing.fence(group, member)
        group.roster.rename(member, new_id)
        group.roster.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
        )
        self._rebalancing.park_join(group, member, token, now)
        self._rebalancing.restart_session(member, now)
        cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, member.who, detail=request.reason)
        match group.rules.replace:
            case Replace.STORE if group.roster.select_protocol() == group.protocol_name:
                self._store_replacement(group, member, request, token, before)
            case Replace.STORE | Replace.REBALANCE:
                self._rebalancing.prepare(group, cause, now)
            case Replace.WAIT | Replace.IMPOSSIBLE:
                group.history.note(cause, now)
                self._rebalancing.complete_join_if_all_are_in(group, now)

    def _store_replacement(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinGroup,
        token: object,
        before: "_Before",
    ) -> None:
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        value = group_value(stored_group(group, assignments))
        after = _ReplacementStored(
            self._rebalancing,
            group,
            member,
            token,
            before,
            group.generation_id,
            may_skip_assignment=request.supports_skipping_assignment,
            new_id=member.member_id,
        )
        self._parts.outbox.append([CoordinatorRecord(group_key(group.group_id), value)], after)


def check_join(request: JoinGroup, options: GroupOptions) -> ErrorCode:
    """Check what does not depend on the group."""
    timeout_ms = request.session_timeout_ms
    if not options.min_session_timeout_ms <= timeout_ms <= options.max_session_timeout_ms:
        return ErrorCode.invalid_session_timeout
    return ErrorCode.none if _is_storable(request) else ErrorCode.invalid_request


def _kind_of_change(
    group: ClassicGroup, before: tuple[GroupProtocol, ...], after: tuple[GroupProtocol, ...]
) -> CauseKind:
    """The likely reason why a member rejoined, judged by its metadata."""
    if before == after:
        return CauseKind.LEADER_JOINED_AGAIN
    if group.roster.protocol_type == CONSUMER and _wishes(before) == _wishes(after):
        return CauseKind.OWNED_PARTITIONS_CHANGED
    return CauseKind.SUBSCRIPTION_CHANGED


def _wishes(protocols: tuple[GroupProtocol, ...]) -> list[tuple[str, frozenset[str] | None]]:
    """A consumer's protocols and topics, without the owned partitions in its metadata."""
    return [(each.name, subscribed_topics(each.metadata)) for each in protocols]


def _is_storable(request: JoinGroup) -> bool:
    """Whether the group's record can hold the member's texts and its member id. Kafka notices when
    it writes the record, and answers all members with UNKNOWN_SERVER_ERROR."""
    instance_id = request.group_instance_id
    prefix = request.client_id if instance_id is None else instance_id
    names = (request.protocol_type, *(each.name for each in request.protocols))
    return is_storable(prefix, MEMBER_ID_ADDED_BYTES) and all(map(is_storable, names))


@dataclass(frozen=True, slots=True)
class _Before:
    """The state of a static member before it was replaced."""

    member_id: str
    leader_id: str
    """The leader of the group."""
    protocols: tuple[GroupProtocol, ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int


@dataclass(slots=True)
class _ReplacementStored:
    """Answers a static member once its new id is stored; if the append fails the member keeps its
    old id.

    A rebalance that has begun in the meantime answers the member and stores its id instead.
    """

    rebalancing: Rebalancing
    group: ClassicGroup
    member: Member
    token: object
    before: _Before
    generation_id: int
    may_skip_assignment: bool
    new_id: str

    @property
    def _is_current(self) -> bool:
        """Whether the member and its group are unchanged since the append."""
        return (
            self.group.state is GroupState.STABLE
            and self.group.generation_id == self.generation_id
            and self.group.members.get(self.new_id) is self.member
        )

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        if is_stored or not self._is_current:
            return
        group, member, before = self.group, self.member, self.before
        log.warning(
            "Group %s: the id %s of the static member with instance id %s could not be stored;"
            " it keeps its id %s.",
            group.group_id,
            self.new_id,
            member.group_instance_id,
            before.member_id,
        )
        group.roster.rename(member, before.member_id)
        group.roster.update(
            member, before.protocols, before.rebalance_timeout_ms, before.session_timeout_ms
        )
        self.rebalancing.restart_session(member, now)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        group, member = self.group, self.member
        if member.join_token is not self.token:
            return
        if error is not ErrorCode.none:
            reply = JoinGroupReply(
                coordinator_error(error),
                generation_id=group.generation_id,
                protocol_type=group.roster.protocol_type,
                protocol_name=group.protocol_name,
                leader=self.before.leader_id,
            )
            if group.state is GroupState.STABLE:
                self.rebalancing.answer_join(group, member, reply)
            return
        if not self._is_current:
            return
        is_leader = member.member_id == group.roster.leader_id
        skips = is_leader and self.may_skip_assignment
        reply = self.rebalancing.current_generation(group, member, with_members=skips)
        # an older client that learns that it leads would assign again, to no effect
        leader = reply.leader if self.may_skip_assignment else self.before.leader_id
        self.rebalancing.answer_join(
            group, member, replace(reply, leader=leader, skip_assignment=skips)
        )
        self.rebalancing.restart_session(member, now)
