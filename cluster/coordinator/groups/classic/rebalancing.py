"""The phases of a rebalance: their timeouts, and the replies to the members. Pure.

Kafka: `prepareRebalance` and `completeClassicGroupJoin` in `GroupMetadataManager`. KIP-134 (initial
delay), KIP-62 (rebalance timeout).
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.requests import JoinedMember, JoinGroupReply, SyncGroupReply
from cluster.coordinator.groups.shared.records import group_key, group_value
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import GroupState, MemberGone
from cluster.coordinator.groups.state.classic_storage import stored_group
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60_000
"""The longest time that a JoinGroup of a new member waits: its client may be gone, and sends no
heartbeats while it waits. Kafka: `group.new.member.join.timeout.ms`, an internal setting."""
NOBODY_JOINED_RETRY_MS: Final = 1_000
"""A lower bound: clients choose the rebalance timeout, which may be 0."""


@dataclass(slots=True)
class _EmptyGroupStored:
    """Appends the record of a group without members. If the append fails, a restart restores the
    generation before, and its members time out."""

    group_id: str

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        del now, is_stored

    def answer(self, error: ErrorCode, now: Moment) -> None:
        del now
        if error is not ErrorCode.none:
            reason = coordinator_error(error).name
            log.warning("Group %s is empty, which could not be stored: %s", self.group_id, reason)


class Rebalancing:
    """Invariant: the join alarm of a group in PreparingRebalance is set, and so is the sync alarm
    in CompletingRebalance; the session alarm of a member is always set."""

    def __init__(self, parts: ShardParts) -> None:
        self._parts = parts

    # ------------------------------------------------------------------ members come and go

    def new_member(self, group: ClassicGroup, member: Member) -> None:
        """Give a member its session alarm, which is not set yet."""
        member.session = self._parts.alarms.alarm(partial(self._on_session_over, group, member))

    def restart_session(self, member: Member, now: Moment) -> None:
        """Restart the session timeout of a member that is alive."""
        member.session.set_after(now, _session_ms(member))

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Moment) -> None:
        """Expect a JoinGroup with an assigned member id within the timeout."""
        alarm = self._parts.alarms.alarm(partial(self._on_pending_over, group, member_id))
        group.pending_join[member_id] = alarm
        alarm.set_after(now, timeout_ms)

    def forget_expected(self, group: ClassicGroup, member_id: str, now: Moment) -> None:
        """Remove an assigned member id that will not be used."""
        group.pending_join.pop(member_id).drop()
        self.complete_join_if_all_are_in(group, now)
        if group.is_disposable:
            self._parts.remove(group, now)

    def remove(self, group: ClassicGroup, member: Member, cause: Cause, now: Moment) -> None:
        """Remove a member that left or failed, and rebalance the group if its state demands it."""
        self.drop(group, member)
        match group.rules.member_gone:
            case MemberGone.REBALANCE:
                self.prepare(group, cause, now)
            case MemberGone.JOIN_MAY_BE_COMPLETE:
                group.history.note(cause, now)
                self.complete_join_if_all_are_in(group, now)
            case MemberGone.NOTHING:
                pass

    def drop(self, group: ClassicGroup, member: Member) -> None:
        """Remove a member, and answer its waiting requests with UNKNOWN_MEMBER_ID."""
        self.answer_join(group, member, JoinGroupReply(ErrorCode.unknown_member_id))
        self.answer_sync(member, SyncGroupReply(ErrorCode.unknown_member_id))
        group.roster.remove(member)

    def fence(self, group: ClassicGroup, member: Member) -> None:
        """Fence a member's waiting requests: another client joined with its instance id."""
        error = ErrorCode.fenced_instance_id
        self.answer_join(group, member, JoinGroupReply(error, member_id=member.member_id))
        self.answer_sync(member, SyncGroupReply(error))

    # ------------------------------------------------------------------ answers

    def answer_join(self, group: ClassicGroup, member: Member, reply: JoinGroupReply) -> bool:
        """Answer the member's JoinGroup if one waits; returns whether it did."""
        token = group.roster.take_join_token(member)
        if token is None:
            return False
        self._parts.outbox.answer(token, reply)
        return True

    def answer_sync(self, member: Member, reply: SyncGroupReply) -> bool:
        """Answer the member's SyncGroup if one waits; returns whether it did."""
        token, member.sync_token = member.sync_token, None
        if token is None:
            return False
        self._parts.outbox.answer(token, reply)
        return True

    def park_join(self, group: ClassicGroup, member: Member, token: object, now: Moment) -> None:
        """Let the member wait for the next generation. An earlier JoinGroup that still waits is
        answered with REBALANCE_IN_PROGRESS: its client has given up and sent another."""
        earlier = group.roster.wait_to_join(member, token, now)
        if earlier is not None:
            reply = JoinGroupReply(ErrorCode.rebalance_in_progress, member_id=member.member_id)
            self._parts.outbox.answer(earlier, reply)

    def refuse_syncs(self, group: ClassicGroup, error: ErrorCode, now: Moment) -> None:
        """Clear all assignments, and answer the waiting SyncGroups with an error."""
        for member in group.members.values():
            member.assignment = b""
        self.answer_syncs(group, error, now)

    def answer_syncs(self, group: ClassicGroup, error: ErrorCode, now: Moment) -> None:
        """Answer each waiting SyncGroup with the member's assignment, or with the error."""
        is_good = error is ErrorCode.none
        for member in group.members.values():
            reply = SyncGroupReply(
                error,
                group.roster.protocol_type if is_good else None,
                group.protocol_name if is_good else None,
                member.assignment,
            )
            if self.answer_sync(member, reply):
                self.restart_session(member, now)

    def current_generation(
        self, group: ClassicGroup, member: Member, *, with_members: bool
    ) -> JoinGroupReply:
        """The JoinGroup reply that makes a member part of the current generation."""
        return JoinGroupReply(
            ErrorCode.none,
            member_id=member.member_id,
            generation_id=group.generation_id,
            protocol_type=group.roster.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.roster.leader_id or "",
            members=_joined_members(group) if with_members else (),
        )

    # ------------------------------------------------------------------ the rebalance

    def prepare_or_complete(self, group: ClassicGroup, cause: Cause, now: Moment) -> None:
        """Start a rebalance; complete the join phase of a running one if all members have
        joined."""
        if group.rules.may_rebalance:
            self.prepare(group, cause, now)
        else:
            group.history.note(cause, now)
            self.complete_join_if_all_are_in(group, now)

    def prepare(self, group: ClassicGroup, cause: Cause, now: Moment) -> None:
        """Start a rebalance: all members have to rejoin."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_syncs(group, ErrorCode.rebalance_in_progress, now)
        group.roster.pending_sync.clear()
        if group.sync_alarm is not None:
            group.sync_alarm.cancel()
        is_initial = group.state is GroupState.EMPTY
        rebalance = group.history.begin(cause, now, group.generation_id, group.generation_size)
        group.transition(GroupState.PREPARING_REBALANCE, now)
        log.info(
            "Group %s in state %s starts a rebalance from generation %d: %s.",
            group.group_id,
            group.state.value,
            group.generation_id,
            _reason(cause),
        )
        group.is_initial = is_initial
        group.new_member_added = False
        if is_initial:
            delay_ms = self._parts.options.initial_rebalance_delay_ms
            group.remaining_delay_ms = max(group.roster.rebalance_timeout_ms() - delay_ms, 0)
            rebalance.initial_delay_ms = delay_ms
            self._set_join_alarm(group, delay_ms, now)
        elif group.have_all_joined:
            self._complete_join(group, now)
        else:
            self._set_join_alarm(group, group.roster.rebalance_timeout_ms(), now)

    def complete_join_if_all_are_in(self, group: ClassicGroup, now: Moment) -> None:
        """End the join phase if all members have joined; the initial delay of a group is kept."""
        if group.state is not GroupState.PREPARING_REBALANCE or not group.have_all_joined:
            return
        if not group.is_initial or not group.members:
            self._complete_join(group, now)

    def _set_join_alarm(self, group: ClassicGroup, delay_ms: int, now: Moment) -> None:
        if group.join_alarm is None:
            group.join_alarm = self._parts.alarms.alarm(partial(self._on_join_over, group))
        group.join_alarm.set_after(now, delay_ms)

    def _on_join_over(self, group: ClassicGroup, now: Moment) -> None:
        """The initial delay or the rebalance timeout has passed."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.is_initial and group.new_member_added and group.remaining_delay_ms:
            group.new_member_added = False
            delay_ms = self._parts.options.initial_rebalance_delay_ms
            more_ms = min(delay_ms, group.remaining_delay_ms)
            group.remaining_delay_ms = max(group.remaining_delay_ms - delay_ms, 0)
            if group.history.current is not None:
                group.history.current.initial_delay_ms += more_ms
            self._set_join_alarm(group, more_ms, now)
            return
        self._complete_join(group, now)

    def _complete_join(self, group: ClassicGroup, now: Moment) -> None:
        """Begin the next generation with the members that have joined and all static members."""
        timeout_ms = group.roster.rebalance_timeout_ms()
        group.history.joined(group.waited(), timeout_ms, now)
        self._drop_who_did_not_join(group, timeout_ms, now)
        if not group.roster.elect_leader() and group.members:
            # only static members are left and none has joined: wait until their sessions expire
            log.error(
                "Group %s cannot complete its rebalance yet: no member has rejoined.",
                group.group_id,
            )
            delay_ms = max(group.roster.rebalance_timeout_ms(), NOBODY_JOINED_RETRY_MS)
            self._set_join_alarm(group, delay_ms, now)
            return
        if group.join_alarm is not None:
            group.join_alarm.cancel()
        group.begin_generation(now)
        if group.members:
            self._begin_assigning(group, now)
        else:
            self._store_empty(group, now)

    def _drop_who_did_not_join(self, group: ClassicGroup, timeout_ms: int, now: Moment) -> None:
        gone = [each for each in group.roster.not_joined() if not each.is_static]
        for member in gone:
            self.drop(group, member)
            cause = Cause(CauseKind.JOIN_TIMEOUT, member.who, timeout_ms)
            group.history.note(cause, now)
        if gone:
            log.info(
                "Group %s removed members that have not rejoined in time: %s",
                group.group_id,
                ", ".join(each.member_id for each in gone[:10]),
            )

    def _begin_assigning(self, group: ClassicGroup, now: Moment) -> None:
        log.info(
            "Group %s begins generation %d with %d members.",
            group.group_id,
            group.generation_id,
            len(group.members),
        )
        for member in group.members.values():
            is_leader = member.member_id == group.roster.leader_id
            reply = self.current_generation(group, member, with_members=is_leader)
            self.answer_join(group, member, reply)
            member.is_new = False
            self.restart_session(member, now)
            group.roster.pending_sync.add(member.member_id)
            if is_leader:
                group.history.assigning(member.who)
        if group.sync_alarm is None:
            group.sync_alarm = self._parts.alarms.alarm(partial(self._on_sync_over, group))
        group.sync_alarm.set_after(now, group.roster.rebalance_timeout_ms())

    def _store_empty(self, group: ClassicGroup, now: Moment) -> None:
        log.info("Group %s is empty in generation %d.", group.group_id, group.generation_id)
        group.history.over(now, group.generation_id, 0, None, None)
        record = CoordinatorRecord(group_key(group.group_id), group_value(stored_group(group, {})))
        self._parts.outbox.append([record], _EmptyGroupStored(group.group_id))

    # ------------------------------------------------------------------ the end

    def abandon_all(self, now: Moment) -> None:
        """Answer all waiting requests with NOT_COORDINATOR: another broker coordinates the groups
        now."""
        error = ErrorCode.not_coordinator
        for group in self._parts.groups.values():
            if not group.members:
                continue
            for member in group.members.values():
                reply = JoinGroupReply(error, member_id=member.member_id)
                self.answer_join(group, member, reply)
                self.answer_sync(member, SyncGroupReply(error))
            group.history.abandon()
            group.transition(GroupState.DEAD, now)

    # ------------------------------------------------------------------ timeouts

    def _on_session_over(self, group: ClassicGroup, member: Member, now: Moment) -> None:
        if member.sync_token is not None or (member.join_token is not None and not member.is_new):
            # a member that waits for a reply is alive; its session starts with the reply
            self.restart_session(member, now)
            return
        log.info(
            "Removed member %s from group %s: its session has expired.",
            member.member_id,
            group.group_id,
        )
        kind = CauseKind.NEW_MEMBER_TIMEOUT if member.is_new else CauseKind.SESSION_TIMEOUT
        cause = Cause(kind, member.who, _session_ms(member))
        self.remove(group, member, cause, now)

    def _on_pending_over(self, group: ClassicGroup, member_id: str, now: Moment) -> None:
        log.info(
            "Removed the unused member id %s from group %s.",
            member_id,
            group.group_id,
        )
        self.forget_expected(group, member_id, now)

    def _on_sync_over(self, group: ClassicGroup, now: Moment) -> None:
        """Remove members that have not sent their SyncGroup within the rebalance timeout."""
        if not group.roster.pending_sync or group.state not in (
            GroupState.COMPLETING_REBALANCE,
            GroupState.STABLE,
        ):
            return
        timeout_ms = group.roster.rebalance_timeout_ms()
        gone = [group.members[member_id] for member_id in sorted(group.roster.pending_sync)]
        causes = [Cause(CauseKind.SYNC_TIMEOUT, each.who, timeout_ms) for each in gone]
        log.info(
            "Group %s removed members that have not sent SyncGroup in time: %s",
            group.group_id,
            ", ".join(each.member_id for each in gone[:10]),
        )
        for member in gone:
            self.drop(group, member)
        self.prepare(group, causes[0], now)
        for cause in causes[1:]:
            group.history.note(cause, now)


def _joined_members(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    name = str(group.protocol_name)
    return tuple(
        JoinedMember(each.member_id, each.group_instance_id, each.metadata(name))
        for each in group.members.values()
    )


def _session_ms(member: Member) -> int:
    return NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms


def _reason(cause: Cause) -> str:
    member = "" if cause.member is None else f": {cause.member.member_id}"
    detail = f"; client reason: {cause.detail}" if cause.detail else ""
    timeout = "" if cause.timeout_ms is None else f" ({cause.timeout_ms} ms)"
    return f"{cause.kind.value}{timeout}{member}{detail}"
