"""SyncGroup and Heartbeat of classic members in a group of the newer protocol. Pure.

KIP-848; Kafka: `classicGroupSyncToConsumerGroup`, `classicGroupHeartbeatToConsumerGroup`. The
generation of such a member is its member epoch. If there is a change for the member it is told to
rejoin, and has its rebalance timeout to send the JoinGroup. From the reply to that on it has the
same time to send the SyncGroup.
"""

from cluster.coordinator.groups.bridge.conversions import by_name
from cluster.coordinator.groups.bridge.embedded_protocol import assignment_bytes, read_version
from cluster.coordinator.groups.history.rebalances import CauseKind
from cluster.coordinator.groups.requests import Heartbeat, SyncGroup, SyncGroupReply
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.state.consumer_values import (
    NO_PARTITIONS,
    ClassicMetadata,
    MemberState,
)
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode


def sync_reply(
    group: ConsumerGroup, request: SyncGroup, topics: Topics, now: Moment
) -> SyncGroupReply:
    """The member's current assignment, or REBALANCE_IN_PROGRESS if it has to rejoin first."""
    member = _member(group, request)
    if isinstance(member, ErrorCode):
        return SyncGroupReply(member)
    classic = member.metadata.classic or ClassicMetadata()
    # only a damaged record has no protocols
    protocol = next(iter(classic.protocols), None)
    if (
        protocol is None
        or request.protocol_type not in (None, CONSUMER)
        or request.protocol_name not in (None, protocol.name)
    ):
        return SyncGroupReply(ErrorCode.inconsistent_group_protocol)
    if (
        member.current.member_epoch < group.epoch.epoch
        and member.current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _expect_join(member, now)
        return SyncGroupReply(ErrorCode.rebalance_in_progress)
    member.rebalance.cancel()
    member.awaits = CauseKind.JOIN_TIMEOUT  # invalidates a sync timeout that waits to be processed
    member.session.set_after(now, classic.session_timeout_ms)
    assigned = by_name(member.current.assigned, topics)
    return SyncGroupReply(
        ErrorCode.none,
        CONSUMER,
        protocol.name,
        assignment_bytes(assigned, read_version(protocol.metadata)),
    )


def heartbeat(group: ConsumerGroup, request: Heartbeat, now: Moment) -> ErrorCode:
    """Restart the member's session; REBALANCE_IN_PROGRESS if the member has to rejoin."""
    member = _member(group, request)
    if isinstance(member, ErrorCode):
        return member
    member.session.set_after(now, member.session_ms(0))
    if not _has_to_join(group, member):
        return ErrorCode.none
    _expect_join(member, now)
    return ErrorCode.rebalance_in_progress


def _member(group: ConsumerGroup, request: SyncGroup | Heartbeat) -> ConsumerMember | ErrorCode:
    """The member that sent the request in its current epoch, or the error."""
    member_id = request.member_id
    if request.group_instance_id is not None:
        static_id = group.static_members.get(request.group_instance_id)
        if static_id is None:
            return ErrorCode.unknown_member_id
        if static_id != member_id:
            return ErrorCode.fenced_instance_id
    member = group.members.get(member_id)
    if member is None or member.metadata.classic is None:
        return ErrorCode.unknown_member_id
    if request.generation_id != member.current.member_epoch:
        return ErrorCode.illegal_generation
    return member


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether there is a newer epoch, or the member has to revoke partitions, or all partitions
    that it waited for are free now."""
    current = member.current
    if (
        current.member_epoch < group.epoch.epoch
        or current.state is MemberState.UNREVOKED_PARTITIONS
    ):
        return True
    return current.state is MemberState.UNRELEASED_PARTITIONS and all(
        group.is_free(topic_id, number)
        for topic_id, numbers in group.target.get(member.member_id, NO_PARTITIONS).items()
        for number in numbers - current.assigned.get(topic_id, frozenset())
    )


def _expect_join(member: ConsumerMember, now: Moment) -> None:
    """Start the member's rebalance timeout, unless it is running already."""
    if member.awaits is CauseKind.JOIN_TIMEOUT and member.rebalance.deadline_ms is not None:
        return
    member.awaits = CauseKind.JOIN_TIMEOUT
    member.rebalance.set_after(now, member.metadata.rebalance_timeout_ms)
