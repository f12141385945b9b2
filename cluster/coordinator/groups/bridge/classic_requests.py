"""JoinGroup and LeaveGroup of classic members in a group of the newer protocol. Pure.

Kafka: `classicGroupJoinToConsumerGroup`, `classicGroupLeaveToConsumerGroup`.
"""

import logging
from collections.abc import Callable

from cluster.coordinator.groups.bridge.conversions import by_id
from cluster.coordinator.groups.bridge.embedded_protocol import (
    MalformedProtocol,
    Subscription,
    read_subscription,
)
from cluster.coordinator.groups.consumer.checks import Refusal, unknown_member
from cluster.coordinator.groups.consumer.heartbeat_batch import ClassicRequest, HeartbeatBatch
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.requests import (
    NO_MEMBER_ID,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    LeaveGroupReply,
    LeavingMember,
    LeftMember,
)
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import Partitions
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.state.consumer_values import (
    NO_METADATA,
    NO_PARTITIONS,
    ClassicMetadata,
    MemberMetadata,
)
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)


class ClassicJoin(ClassicRequest):
    """A JoinGroup. It is answered as soon as its changes are stored, without waiting for other
    members; the member gets its assignment by SyncGroup."""

    may_make_group: bool

    def __init__(
        self,
        request: JoinGroup,
        token: object,
        redirect: Callable[[JoinGroup, object, Moment], None],
    ) -> None:
        """`redirect` processes the request if the group has become a classic one."""
        self._request = request
        self.token = token
        self._redirect = redirect
        self.may_make_group = request.member_id == NO_MEMBER_ID
        # it may replace a static member, so it shares no batch with events of that member
        self.member_id = "" if request.group_instance_id is not None else request.member_id
        self._joined = ""
        self._owned: Partitions = NO_PARTITIONS

    def refused(self, error: ErrorCode) -> JoinGroupReply:
        return JoinGroupReply(error, member_id=self._request.member_id)

    def redirect(self, now: Moment) -> None:
        self._redirect(self._request, self.token, now)

    def apply(self, batch: HeartbeatBatch) -> None:
        request, group = self._request, batch.group
        is_unknown = request.member_id == NO_MEMBER_ID
        member_id = request.member_id
        if is_unknown:
            prefix = request.group_instance_id or request.client_id
            member_id = f"{prefix}-{batch.context.new_uuid()}"
        batch.check_room(member_id)
        subscription = _check_protocols(group, request)
        if is_unknown and request.requires_known_member_id and request.group_instance_id is None:
            reply = JoinGroupReply(ErrorCode.member_id_required, member_id=member_id)
            batch.replies.append((self.token, reply))
            return
        known = self._known(batch, member_id)
        before = None if known is None else known.metadata
        if known is None or known.member_id != member_id:
            log.info(
                "Group %s: member %s joins by the classic protocol.",
                group.group_id,
                member_id,
            )
        if known is not None and known.member_id != member_id:
            if known.metadata.classic is None:
                batch.may_be_last = True
            batch.replace(known, member_id, "classic")
        batch.put(member_id, before, _metadata(request, subscription, before or NO_METADATA))
        self._joined = member_id
        self._owned = by_id(subscription.owned, batch.context.topics)
        self.goes_on = True

    def _known(self, batch: HeartbeatBatch, member_id: str) -> ConsumerMember | None:
        """The member that sent the request, or that it replaces; None for a new member."""
        request, group = self._request, batch.group
        if request.group_instance_id is None:
            return group.members.get(member_id)
        static = batch.static(request.group_instance_id)
        if request.member_id == NO_MEMBER_ID:
            return static
        return _check_static(static, request.group_instance_id, request.member_id)

    def finish(self, batch: HeartbeatBatch) -> None:
        if not self.goes_on:
            return
        group, request = batch.group, self._request
        member = group.members[self._joined]
        try:
            current = batch.reconciled(member, self._owned)
        except Refusal as refusal:
            batch.replies.append((self.token, self.refused(refusal.error)))
            return
        reply = JoinGroupReply(
            ErrorCode.none,
            member_id=self._joined,
            generation_id=current.member_epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0].name,
        )
        batch.replies.append((self.token, reply))
        batch.journal.when_stored.append(lambda now: self._expect_sync(group, now))

    def _expect_sync(self, group: ConsumerGroup, now: Moment) -> None:
        member = group.members.get(self._joined)
        if member is None:
            return
        member.session.set_after(now, self._request.session_timeout_ms)
        member.awaits = CauseKind.SYNC_TIMEOUT
        member.rebalance.set_after(now, self._request.rebalance_timeout_ms)


class ClassicLeave(ClassicRequest):
    """A LeaveGroup, which may name members of either protocol."""

    def __init__(
        self,
        request: LeaveGroup,
        token: object,
        redirect: Callable[[LeaveGroup, object, Moment], None],
    ) -> None:
        """`redirect` processes the request if the group has become a classic one."""
        self._request = request
        self.token = token
        self._redirect = redirect

    def refused(self, error: ErrorCode) -> LeaveGroupReply:
        if error is ErrorCode.unknown_member_id:
            left = (LeftMember(each[0], each[1], error) for each in self._request.members)
            return LeaveGroupReply(ErrorCode.none, tuple(left))
        return LeaveGroupReply(error)

    def redirect(self, now: Moment) -> None:
        self._redirect(self._request, self.token, now)

    def apply(self, batch: HeartbeatBatch) -> None:
        left = []
        for leaving in self._request.members:
            error = ErrorCode.none
            try:
                member = self._member(batch, leaving)
                log.info(
                    "Group %s: member %s left by LeaveGroup; client reason: %s",
                    batch.group.group_id,
                    member.member_id,
                    leaving.reason or "not provided",
                )
                cause = Cause(CauseKind.MEMBER_LEFT, member.who, detail=leaving.reason)
                batch.remove(member, cause)
            except Refusal as refusal:
                error = refusal.error
            left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
        batch.replies.append((self.token, LeaveGroupReply(ErrorCode.none, tuple(left))))

    def _member(self, batch: HeartbeatBatch, leaving: LeavingMember) -> ConsumerMember:
        instance_id = leaving.group_instance_id
        if instance_id is None:
            member = batch.group.members.get(leaving.member_id)
            if member is None:
                raise unknown_member(leaving.member_id, batch.group.group_id)
            return member
        static = batch.static(instance_id)
        expected = leaving.member_id
        if expected == NO_MEMBER_ID and static is not None:
            expected = static.member_id
        return _check_static(static, instance_id, expected)

    def finish(self, batch: HeartbeatBatch) -> None:
        """Nothing is left to do."""


def _check_static(
    static: ConsumerMember | None, instance_id: str, member_id: str
) -> ConsumerMember:
    if static is None:
        raise Refusal(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise Refusal(
            ErrorCode.fenced_instance_id,
            f"Static member {member_id} with instance id {instance_id} was fenced by member"
            f" {static.member_id}.",
        )
    return static


def _check_protocols(group: ConsumerGroup, request: JoinGroup) -> Subscription:
    """Check that the member has a protocol that all classic members support, so that they can
    continue if the other members leave. Raises Refusal."""
    refusal = Refusal(
        ErrorCode.inconsistent_group_protocol,
        f"Member {request.member_id}'s protocols are not supported.",
    )
    if request.protocol_type != CONSUMER or not any(
        group.classic_protocols[each.name] == group.classic_count for each in request.protocols
    ):
        raise refusal
    try:
        return read_subscription(request.protocols[0].metadata)
    except MalformedProtocol as malformed:
        log.warning(
            "Group %s: member %s sent a malformed subscription: %s.",
            group.group_id,
            request.member_id,
            malformed,
        )
        raise refusal from None


def _metadata(
    request: JoinGroup, subscription: Subscription, before: MemberMetadata
) -> MemberMetadata:
    return MemberMetadata(
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=subscription.topics,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=before.server_assignor,
        classic=ClassicMetadata(request.session_timeout_ms, request.protocols),
    )
