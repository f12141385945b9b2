"""Routes requests of the classic protocol by the protocol that their group uses now. Pure."""

from functools import partial

from cluster.coordinator.groups.bridge.classic_members import heartbeat, sync_reply
from cluster.coordinator.groups.bridge.classic_requests import ClassicJoin, ClassicLeave
from cluster.coordinator.groups.classic.joining import Joining, check_join
from cluster.coordinator.groups.classic.membership import Membership
from cluster.coordinator.groups.classic.syncing import Syncing
from cluster.coordinator.groups.consumer.group_locks import ExclusiveAction
from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.requests import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
    SyncGroupReply,
)
from cluster.coordinator.groups.shared.topics import Topics
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.record_text import is_storable
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode


class ClassicRouter:
    """A group may change its protocol while a request waits; the request then changes its route."""

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
        """Pass a JoinGroup to the group's protocol."""
        if request.group_id not in self._parts.consumer_groups:
            self._joining.join(request, token, now)
            return
        event = ClassicJoin(request, token, self._joining.join)
        error = check_join(request, self._parts.options)
        if not is_storable(request.member_id):
            error = ErrorCode.unknown_member_id  # no member has such an id
        if error is ErrorCode.none:
            self._consumers.offer(request.group_id, event, now)
        else:
            self._parts.outbox.answer(token, event.refused(error))

    def leave(self, request: LeaveGroup, token: object, now: Moment) -> None:
        """Pass a LeaveGroup to the group's protocol."""
        if request.group_id in self._parts.consumer_groups:
            event = ClassicLeave(request, token, self._membership.leave)
            self._consumers.offer(request.group_id, event, now)
        else:
            self._membership.leave(request, token, now)

    def sync(self, request: SyncGroup, token: object, now: Moment) -> None:
        """Pass a SyncGroup to the group's protocol.

        A group of the newer protocol answers it as soon as no append of the group is pending.
        """
        if request.group_id not in self._parts.consumer_groups:
            self._syncing.sync(request, token, now)
            return

        def refuse(error: ErrorCode, now: Moment) -> None:
            del now
            self._parts.outbox.answer(token, SyncGroupReply(error))

        action = ExclusiveAction(partial(self._sync_exclusively, request, token), refuse)
        self._consumers.offer(request.group_id, action, now)

    def _sync_exclusively(self, request: SyncGroup, token: object, now: Moment) -> None:
        group = self._parts.consumer_groups.get(request.group_id)
        if group is None:
            self._syncing.sync(request, token, now)
        else:
            self._parts.outbox.answer(token, sync_reply(group, request, self._topics, now))

    def heartbeat(self, request: Heartbeat, now: Moment) -> ErrorCode:
        """Answer a Heartbeat by the group's protocol."""
        group = self._parts.consumer_groups.get(request.group_id)
        if group is None:
            return self._membership.heartbeat(request, now)
        return heartbeat(group, request, now)
