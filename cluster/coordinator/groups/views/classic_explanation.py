"""Explains a classic group for `groups explain`. Pure."""

from collections.abc import Iterator
from itertools import islice

from cluster.coordinator.groups.history.explanation import (
    MEMBERS_MAX,
    ExplainedMember,
    GroupExplanation,
)
from cluster.coordinator.groups.shared.subscription import CONSUMER, assigned_partitions
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.views.rebalances import rebalances_of
from cluster.model.clocks import Moment
from cluster.model.printable import NAME_MAX_CHARACTERS


def explain(group: ClassicGroup, group_type: str, now: Moment) -> GroupExplanation:
    """The current group and its last rebalances, oldest first.

    Texts are cut to what a person reads. Takes some microseconds for each member and rebalance.
    """
    leader = None if group.roster.leader_id is None else group.members[group.roster.leader_id]
    members = tuple(_explained(group, now))
    return GroupExplanation(
        group_type,
        group.state.value,
        (group.roster.protocol_type or "")[:NAME_MAX_CHARACTERS],
        (group.protocol_name or "")[:NAME_MAX_CHARACTERS],
        group.generation_id,
        None if leader is None else leader.who,
        members,
        len(group.members) - len(members),
        group.times.by_state_ms(now),
        group.times.in_state_ms(now),
        _waits_at_most_ms(group, now),
        rebalances_of(group, now),
    )


def _explained(group: ClassicGroup, now: Moment) -> Iterator[ExplainedMember]:
    is_consumer = group.roster.protocol_type == CONSUMER
    for member in islice(group.members.values(), MEMBERS_MAX):
        yield ExplainedMember(
            member.who,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            _quiet_ms(member, now),
            member.join_token is not None,
            group.state is not GroupState.PREPARING_REBALANCE
            and member.member_id not in group.roster.pending_sync,
            assigned_partitions(member.assignment) if is_consumer else None,
        )


def _quiet_ms(member: Member, now: Moment) -> int | None:
    """Computed from the session timeout, which every request of the member restarts."""
    ends_ms = member.session.deadline_ms
    is_waiting = member.join_token is not None or member.sync_token is not None
    if ends_ms is None or member.is_new or is_waiting:
        return None
    return max(0, member.session_timeout_ms - (ends_ms - now.monotonic_ms))


def _waits_at_most_ms(group: ClassicGroup, now: Moment) -> int | None:
    match group.state:
        case GroupState.PREPARING_REBALANCE:
            alarm = group.join_alarm
        case GroupState.COMPLETING_REBALANCE:
            alarm = group.sync_alarm
        case _:
            alarm = None
    if alarm is None or alarm.deadline_ms is None:
        return None
    return max(0, alarm.deadline_ms - now.monotonic_ms)
