"""Requests of the classic protocol to groups of the newer one. Pure.

KIP-848; Kafka: `classicGroupSyncToConsumerGroup`, `classicGroupHeartbeatToConsumerGroup` and their
like. Such a member's generation is its member epoch. It is told to join again when there is
something new for it; then it has its rebalance timeout to do so, and from the reply on the same
time to ask for its assignment.
"""

from functools import partial

from cluster.coordinator.groups.bridge.classic_requests import ClassicJoin, ClassicLeave
from cluster.coordinator.groups.bridge.conversions import by_name
from cluster.coordinator.groups.bridge.embedded_protocol import assignment_bytes, read_version
from cluster.coordinator.groups.classic.joining import Joining, check_join
from cluster.coordinator.groups.classic.membership import Membership
from cluster.coordinator.groups.classic.syncing import Syncing
from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.consumer.turns import Action
from cluster.coordinator.groups.history.rebalances import CauseKind
from cluster.coordinator.groups.requests import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
    SyncGroupReply,
)
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.state.consumer_values import (
    NO_PARTITIONS,
    ClassicMetadata,
    MemberState,
)
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.record_text import is_storable
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode


class ClassicRequests:
    """Takes requests of the classic protocol, for groups of either."""

    def __init__(
        self,
        parts: ShardParts,
        consumers: ConsumerGroups,
        topics: Topics,
        joining: Joining,
        syncing: Syncing,
        membership: Membership,
    ) -> None:
        self._parts = parts
        self._consumers = consumers
        self._topics = topics
        self._joining = joining
        self._syncing = syncing
        self._membership = membership

    def join(self, request: JoinGroup, token: object, now: Moment) -> None:
        """JoinGroup."""
        if request.group_id not in self._parts.consumer_groups:
            self._joining.join(request, token, now)
            return
        visit = ClassicJoin(request, token, self._joining.join)
        error = check_join(request, self._parts.options)
        if not is_storable(request.member_id):
            error = ErrorCode.unknown_member_id  # any other makes a member
        if error is ErrorCode.none:
            self._consumers.offer(request.group_id, visit, now)
        else:
            self._parts.outbox.answer(token, visit.refused(error))

    def leave(self, request: LeaveGroup, token: object, now: Moment) -> None:
        """LeaveGroup."""
        if request.group_id in self._parts.consumer_groups:
            visit = ClassicLeave(request, token, self._membership.leave)
            self._consumers.offer(request.group_id, visit, now)
        else:
            self._membership.leave(request, token, now)

    def sync(self, request: SyncGroup, token: object, now: Moment) -> None:
        """SyncGroup; in a group of the newer protocol it waits for nothing but what is on its way
        to the log."""
        if request.group_id not in self._parts.consumer_groups:
            self._syncing.sync(request, token, now)
            return

        def refuse(error: ErrorCode, now: Moment) -> None:
            del now
            self._parts.outbox.answer(token, SyncGroupReply(error))

        action = Action(partial(self._sync, request, token), refuse)
        self._consumers.offer(request.group_id, action, now)

    def _sync(self, request: SyncGroup, token: object, now: Moment) -> None:
        group = self._parts.consumer_groups.get(request.group_id)
        if group is None:
            self._syncing.sync(request, token, now)
        else:
            self._parts.outbox.answer(token, self._synced(group, request, now))

    def _synced(self, group: ConsumerGroup, request: SyncGroup, now: Moment) -> SyncGroupReply:
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
        member.awaits = CauseKind.JOIN_TIMEOUT  # a timeout that waits for its turn means nothing
        member.session.set_after(now, classic.session_timeout_ms)
        assigned = by_name(member.current.assigned, self._topics)
        return SyncGroupReply(
            ErrorCode.none,
            CONSUMER,
            protocol.name,
            assignment_bytes(assigned, read_version(protocol.metadata)),
        )

    def heartbeat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """Heartbeat; REBALANCE_IN_PROGRESS if the member has to join again."""
        group = self._parts.consumer_groups.get(request.group_id)
        if group is None:
            return self._membership.heartbeat(request, now)
        member = _member(group, request)
        if isinstance(member, ErrorCode):
            return member
        member.session.set_after(now, member.session_ms(0))
        if not _has_to_join(group, member):
            return ErrorCode.none
        _expect_join(member, now)
        return ErrorCode.rebalance_in_progress


def _member(group: ConsumerGroup, request: SyncGroup | Heartbeat) -> ConsumerMember | ErrorCode:
    """Whose request it is, in its present epoch; or what is wrong."""
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
    """There is a newer epoch; or it is to give up partitions; or those that it waited for are
    free."""
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
    """It has its rebalance timeout from now, unless it was told before."""
    if member.awaits is CauseKind.JOIN_TIMEOUT and member.rebalance.deadline_ms is not None:
        return
    member.awaits = CauseKind.JOIN_TIMEOUT
    member.rebalance.set_after(now, member.metadata.rebalance_timeout_ms)
