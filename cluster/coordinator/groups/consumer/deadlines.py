"""Deadlines of the members of a group of the newer consumer protocol. Pure."""

from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.state.consumer_values import MemberState
from cluster.model.clocks import Moment


def rearm(group: ConsumerGroup, session_timeout_ms: int, now: Moment) -> None:
    """Set the deadlines that members must have after loading or a rollback. Running sessions
    continue."""
    for member in group.members.values():
        if member.session.deadline_ms is None:
            member.session.set_after(now, member.session_ms(session_timeout_ms))
        arm_rebalance(member, now)


def arm_rebalance(member: ConsumerMember, now: Moment) -> None:
    """Set or cancel the deadline for revoking partitions. Classic members have other deadlines: see
    `bridge/classic_members.py`."""
    if member.metadata.classic is not None:
        return
    current = member.current
    is_revoking = current.state is MemberState.UNREVOKED_PARTITIONS and current.member_epoch >= 0
    if not is_revoking:
        member.rebalance.cancel()
    elif member.rebalance.deadline_ms is None:
        member.rebalance.set_after(now, member.metadata.rebalance_timeout_ms)
