"""Heartbeats of one group of the newer consumer protocol that are taken together. Pure.

KIP-848; Kafka: `GroupMetadataManager.consumerGroupHeartbeat`, which takes them one by one. The
steps are the same: members are created, changed or removed; if that calls for a new epoch the
target assignment is computed, here once for all of them; then each member is reconciled with its
target.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cluster.coordinator.groups.consumer_checks import (
    Refusal,
    check_epoch,
    check_is_released,
    check_is_same,
    unknown_member,
)
from cluster.coordinator.groups.consumer_deadlines import arm_rebalance
from cluster.coordinator.groups.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.consumer_journal import Journal
from cluster.coordinator.groups.consumer_requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    ConsumerTimings,
)
from cluster.coordinator.groups.consumer_values import (
    NO_METADATA,
    NO_PARTITIONS,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
)
from cluster.coordinator.groups.history import Cause, CauseKind
from cluster.coordinator.groups.moment import Moment
from cluster.coordinator.groups.options import GroupOptions
from cluster.coordinator.groups.reconciliation import UnknownState, reconcile
from cluster.coordinator.groups.target_assignment import (
    assign_targets,
    metadata_hash,
    resolve,
    resolve_again,
)
from cluster.coordinator.groups.topic_expressions import InvalidExpression, compile_expression
from cluster.coordinator.groups.topics import Topics
from cluster.model.clocks import MonotonicMs
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

REGEX_REFRESH_MIN_INTERVAL_MS: Final = 1_000
"""Topics that are made one after the other cause one rebalance. Kafka, where every expression is
matched with every topic again: 10 s."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat, and the token of its request."""

    request: ConsumerHeartbeat
    token: object

    @property
    def member_id(self) -> str:
        """Who it is of."""
        return self.request.member_id


@dataclass(frozen=True, slots=True)
class Fence:
    """A deadline of a member has passed."""

    member_id: str
    cause: CauseKind
    member_epoch: int
    """When the deadline was set, of those that are about one epoch."""
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a burst needs beside its group."""

    options: GroupOptions
    topics: Topics
    timings: ConsumerTimings
    new_uuid: Callable[[], str]


@dataclass(slots=True)
class _Accepted:
    """A heartbeat of a member that goes on."""

    beat: Beat
    member_id: str


class Burst:
    """Changes one group by some events; no two of one member. Used once."""

    def __init__(self, journal: Journal, surroundings: Surroundings, now: Moment) -> None:
        self._journal = journal
        self._group = journal.group
        self._around = surroundings
        self._now = now
        self._accepted: list[_Accepted] = []
        self._causes: list[Cause] = []
        """Why the group's epoch has to change."""
        self._has_lost_members = False
        self.replies: list[tuple[object, ConsumerHeartbeatReply]] = []
        """By token."""
        self._members_before = len(self._group.members)

    def run(self, events: Sequence[Beat | Fence]) -> None:
        """Make the changes; `replies` are for when they are stored.

        An assignor that fails leaves whatever it raises to the caller, who takes the changes back.
        """
        for event in events:
            if isinstance(event, Fence):
                self._fence(event)
                continue
            try:
                self._take(event)
            except Refusal as refusal:
                self._refuse(event, refusal)
        if self._accepted or self._has_lost_members:
            self._renew()
        for accepted in self._accepted:
            self._reconcile(accepted)
        if self._journal.records:
            default = self._around.options.consumer_assignors[0]
            self._group.note_state(self._now, default)

    def _refuse(self, beat: Beat, refusal: Refusal) -> None:
        reply = ConsumerHeartbeatReply(refusal.error, refusal.message)
        self.replies.append((beat.token, reply))

    def _take(self, beat: Beat) -> None:
        if beat.request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(beat)
        else:
            self._accepted.append(_Accepted(beat, self._update(beat.request)))

    # ------------------------------------------------------------------ who leaves

    def _leave(self, beat: Beat) -> None:
        request, group = beat.request, self._group
        if request.instance_id is None:
            found = group.members.get(request.member_id)
            if found is None:
                raise unknown_member(request.member_id, group.group_id)
            member = found
        else:
            member = check_is_same(self._static(request.instance_id), request)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            log.info(
                "[GroupId %s] Static member %s with instance id %s temporarily left the consumer"
                " group.",
                group.group_id,
                member.member_id,
                request.instance_id,
            )
            # what it was giving up is free: it has nothing any more
            gone = replace(member.current, member_epoch=STATIC_LEAVE_EPOCH, revoking=NO_PARTITIONS)
            self._journal.current(member.member_id, gone)
            arm_rebalance(member, self._now)
        else:
            log.info(
                "[GroupId %s] Member %s left the consumer group.",
                group.group_id,
                member.member_id,
            )
            self._remove(member, Cause(CauseKind.MEMBER_LEFT, member.who))
        reply = ConsumerHeartbeatReply(
            ErrorCode.none, member_id=member.member_id, member_epoch=request.member_epoch
        )
        self.replies.append((beat.token, reply))

    def _fence(self, fence: Fence) -> None:
        member = self._group.members.get(fence.member_id)
        if member is None or not _is_overdue(member, fence):
            return
        log.info(
            "[GroupId %s] Member %s fenced from the group because of: %s (%d ms).",
            self._group.group_id,
            fence.member_id,
            fence.cause.value,
            fence.timeout_ms,
        )
        self._remove(member, Cause(fence.cause, member.who, fence.timeout_ms))

    def _remove(self, member: ConsumerMember, cause: Cause) -> None:
        regex = member.metadata.regex
        self._journal.remove_member(member.member_id)
        self._forget_expression(regex)
        self._has_lost_members = True
        self._causes.append(cause)

    # ------------------------------------------------------------------ who joins or goes on

    def _update(self, request: ConsumerHeartbeat) -> str:
        """The member is as it says that it is; returns its id."""
        group, journal = self._group, self._journal
        most = self._around.options.consumer_max_size
        if len(group.members) >= most and request.member_id not in group.members:
            raise Refusal(
                ErrorCode.group_max_size_reached,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )
        member_id = request.member_id or self._around.new_uuid()
        known = self._known(request, member_id)
        before = NO_METADATA if known is None else known.metadata
        after = _updated(before, request)
        self._check_expression(before, after)
        is_new = known is None
        if known is not None and known.current.member_epoch == STATIC_LEAVE_EPOCH:
            self._replace(known, member_id, before)
            known = group.members[member_id]
        elif request.member_epoch == JOIN_EPOCH:
            log.info(
                "[GroupId %s] Member %s joins the consumer group using the consumer protocol.",
                group.group_id,
                member_id,
            )
        if is_new or after != before:
            journal.metadata(member_id, after)
            if before.regex != after.regex:
                self._forget_expression(before.regex)
        has_changed = before.subscribed_topic_names != after.subscribed_topic_names or (
            after.regex != before.regex and after.regex in group.expressions
        )
        if has_changed or not group.is_written:
            kind = CauseKind.MEMBER_JOINED if is_new else CauseKind.SUBSCRIPTION_CHANGED
            self._causes.append(Cause(kind, group.members[member_id].who))
        return member_id

    def _known(self, request: ConsumerHeartbeat, member_id: str) -> ConsumerMember | None:
        """The member whose heartbeat it is, or whose place it takes; None for a new one."""
        group = self._group
        is_join = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if is_join:
                    return None
                raise unknown_member(member_id, group.group_id)
            check_epoch(member, request.member_epoch, request.owned_partitions)
            return member
        static = self._static(request.instance_id)
        if is_join:
            if static is None:
                return group.members.get(member_id)
            check_is_released(static, request)
            return static
        member = check_is_same(static, request)
        check_epoch(member, request.member_epoch, request.owned_partitions)
        return member

    def _static(self, instance_id: str) -> ConsumerMember | None:
        member_id = self._group.static_members.get(instance_id)
        return None if member_id is None else self._group.members[member_id]

    def _replace(self, gone: ConsumerMember, member_id: str, metadata: MemberMetadata) -> None:
        """The static member is back: with a new member id it has what it had."""
        log.info(
            "[GroupId %s] Static member with instance id %s re-joins the consumer group using the"
            " consumer protocol. Created a new member %s to replace the existing member %s.",
            self._group.group_id,
            metadata.instance_id,
            member_id,
            gone.member_id,
        )
        current = replace(gone.current, member_epoch=0, previous_epoch=0)
        self._journal.replace_member(gone.member_id, member_id, metadata, current)

    # ------------------------------------------------------------------ expressions

    def _check_expression(self, before: MemberMetadata, after: MemberMetadata) -> None:
        text = after.regex
        if text is None or text == before.regex or self._group.subscribed_expressions()[text]:
            return
        try:
            compile_expression(text)
        except InvalidExpression as problem:
            raise Refusal(
                ErrorCode.invalid_regular_expression,
                f"SubscribedTopicRegex `{text}` is not a valid regular expression: {problem}.",
            ) from None

    def _forget_expression(self, text: str | None) -> None:
        """A member has it no more: if it was the last one, so has the group."""
        group = self._group
        if text is None or text not in group.expressions or group.subscribed_expressions()[text]:
            return
        self._journal.expression(text, None)

    def _resolve_expressions(self) -> None:
        """Find the topics of expressions that are new; of all, when topics may have changed."""
        group, now = self._group, self._now
        texts = sorted(group.subscribed_expressions())
        unresolved = [text for text in texts if text not in group.expressions]
        is_refreshing = self._is_refresh_due()
        strays = group.stray_topics
        if not unresolved and not is_refreshing:
            return
        topics = self._around.topics
        for text in texts:
            old = group.expressions.get(text)
            if old is None or (is_refreshing and strays is None):
                found = resolve(text, topics)
            elif is_refreshing and strays is not None:
                found = resolve_again(text, old.topics, strays, topics)
            else:
                continue
            if old is None or found != old.topics:
                resolved = ResolvedExpression(found, 0, now.wall_ms)
                self._journal.expression(text, resolved)
            if found != (frozenset() if old is None else old.topics):
                self._causes.append(Cause(CauseKind.EXPRESSION_CHANGED, detail=text))
        if is_refreshing:
            self._journal.also_undo(_stray_again(group))
            group.stray_topics = set()
            group.refreshed_ms = MonotonicMs(now.now_ms)

    def _is_refresh_due(self) -> bool:
        group = self._group
        if group.refreshed_ms is None:
            return True
        since_ms = self._now.now_ms - group.refreshed_ms
        if since_ms >= self._around.options.consumer_regex_refresh_interval_ms:
            group.stray_topics = None
            return True
        return bool(group.stray_topics) and since_ms >= REGEX_REFRESH_MIN_INTERVAL_MS

    # ------------------------------------------------------------------ epoch and target

    def _renew(self) -> None:
        """A new epoch, if anything calls for it, and the target assignment of the newest one."""
        group, journal = self._group, self._journal
        if self._accepted and group.subscribed_expressions():
            self._resolve_expressions()
        if self._causes or group.is_metadata_due:
            found = metadata_hash(group.subscribed_topics(), self._around.topics)
            if found != group.epoch.metadata_hash and not self._causes:
                self._causes.append(Cause(CauseKind.TOPICS_CHANGED))
            if group.is_metadata_due:
                journal.also_undo(_due_again(group))
                group.is_metadata_due = False
            if self._causes:
                self._bump(found)
            if group.has_partition_metadata:
                journal.no_partition_metadata()
        if self._accepted and group.epoch.epoch > group.assignment_epoch:
            assign_targets(journal, self._assignor(), self._around.topics)
            log.info(
                "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
                group.group_id,
                group.epoch.epoch,
                self._assignor(),
            )

    def _assignor(self) -> str:
        assignors = self._around.options.consumer_assignors
        name = self._group.assignor(assignors[0])
        return name if name in assignors else assignors[0]

    def _bump(self, found: int) -> None:
        group = self._group
        epoch = group.epoch.epoch
        for cause in self._causes:
            group.history.begin_or_note(cause, self._now, epoch, self._members_before)
        self._journal.epoch(GroupEpoch(epoch + 1, found))
        log.info(
            "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
            group.group_id,
            epoch + 1,
            found,
        )

    # ------------------------------------------------------------------ reconciliation

    def _reconcile(self, accepted: _Accepted) -> None:
        group, beat = self._group, accepted.beat
        request = beat.request
        member = group.members[accepted.member_id]
        before = member.current
        try:
            after = reconcile(
                before,
                group.assignment_epoch,
                group.target.get(member.member_id, NO_PARTITIONS),
                request.owned_partitions,
                group.is_free,
            )
        except UnknownState:
            self._refuse(
                beat,
                Refusal(
                    ErrorCode.fenced_member_epoch,
                    "The consumer group member is in a unknown state. The member must abandon all"
                    " its partitions and rejoin.",
                ),
            )
            return
        if after is not before:
            self._journal.current(member.member_id, after)
            member.rebalance.cancel()
        arm_rebalance(member, self._now)
        timings = self._around.timings
        member.session.set_after(self._now, timings.session_timeout_ms)
        shows_assignment = (
            request.member_epoch == JOIN_EPOCH
            or _is_full(request)
            or after.assigned != before.assigned
        )
        reply = ConsumerHeartbeatReply(
            ErrorCode.none,
            member_id=member.member_id,
            member_epoch=after.member_epoch,
            heartbeat_interval_ms=timings.heartbeat_interval_ms,
            assignment=after.assigned if shows_assignment else None,
        )
        self.replies.append((beat.token, reply))


def _updated(before: MemberMetadata, request: ConsumerHeartbeat) -> MemberMetadata:
    """The member's metadata with what the heartbeat says."""
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return MemberMetadata(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=before.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=before.subscribed_topic_regex if regex is None else regex,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=(
            before.server_assignor if request.server_assignor is None else request.server_assignor
        ),
    )


def _is_full(request: ConsumerHeartbeat) -> bool:
    """Whether it has all that a member says when it (re-)joins or after an error."""
    return (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.owned_partitions is not None
    )


def _is_overdue(member: ConsumerMember, fence: Fence) -> bool:
    if fence.cause is CauseKind.SESSION_TIMEOUT:
        return member.session.deadline_ms is None
    current: CurrentAssignment = member.current
    return (
        current.state is MemberState.UNREVOKED_PARTITIONS
        and current.member_epoch == fence.member_epoch
        and member.rebalance.deadline_ms is None
    )


def _due_again(group: ConsumerGroup) -> Callable[[], None]:
    def undo() -> None:
        group.is_metadata_due = True

    return undo


def _stray_again(group: ConsumerGroup) -> Callable[[], None]:
    def undo() -> None:
        group.stray_topics = None
        group.refreshed_ms = None

    return undo
