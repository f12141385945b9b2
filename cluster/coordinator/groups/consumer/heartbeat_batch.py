"""Heartbeats of one group of the newer consumer protocol that are taken together. Pure.

KIP-848; Kafka: `GroupMetadataManager.consumerGroupHeartbeat`, which takes them one by one. The
steps are the same: members are created, changed or removed; if that calls for a new epoch the
target assignment is computed, here once for all of them; then each member is reconciled with its
target.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cluster.coordinator.groups.consumer.checks import (
    Refusal,
    check_epoch,
    check_is_released,
    check_is_same,
    unknown_member,
)
from cluster.coordinator.groups.consumer.deadlines import arm_rebalance
from cluster.coordinator.groups.consumer.journal import Journal
from cluster.coordinator.groups.consumer.reconciliation import UnknownState, reconcile
from cluster.coordinator.groups.consumer.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    ConsumerTimings,
)
from cluster.coordinator.groups.consumer.target_assignment import (
    assign_targets,
    metadata_hash,
    resolve,
    resolve_again,
)
from cluster.coordinator.groups.consumer.topic_expressions import (
    InvalidExpression,
    compile_expression,
)
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.topics import KnownTopics, Partitions, Topics
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from cluster.coordinator.groups.state.consumer_values import (
    NO_METADATA,
    NO_PARTITIONS,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
)
from cluster.model.clocks import Moment, MonotonicMs
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

REGEX_REFRESH_MIN_INTERVAL_MS: Final = 1_000
"""Topics that are made one after the other cause one rebalance. Kafka, where every expression is
matched with every topic again: 10 s."""


@dataclass(frozen=True, slots=True)
class HeartbeatEvent:
    """A heartbeat, and the token of its request."""

    request: ConsumerHeartbeat
    token: object

    @property
    def member_id(self) -> str:
        """Who it is of."""
        return self.request.member_id


@dataclass(frozen=True, slots=True)
class MemberTimeout:
    """A deadline of a member has passed."""

    member_id: str
    cause: CauseKind
    member_epoch: int
    """When the deadline was set, of those that are about one epoch."""
    timeout_ms: int


class ClassicRequest(ABC):
    """A request of the classic protocol to a group of the newer one."""

    token: object
    member_id = ""
    """Whose it is, if it can be taken together with events of other members."""
    goes_on = False
    """Once it is taken: its member goes on, and is to get its part of the newest assignment."""
    may_make_group = False
    """It may be the first request of a member, who needs a group."""
    has_waited = False
    """It has waited for a group without members to be removed."""

    @abstractmethod
    def apply(self, batch: "HeartbeatBatch") -> None:
        """Change the group. Raises Refusal."""

    @abstractmethod
    def finish(self, batch: "HeartbeatBatch") -> None:
        """The newest assignment is there: reconcile, and reply."""

    @abstractmethod
    def refused(self, error: ErrorCode) -> object:
        """The reply with an error."""

    @abstractmethod
    def redirect(self, now: Moment) -> None:
        """The group is not of the newer protocol by now: have it answered as such requests are."""


MemberEvent = HeartbeatEvent | MemberTimeout | ClassicRequest


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What a batch needs beside its group."""

    options: GroupOptions
    counts: GroupCounts
    topics: Topics
    timings: ConsumerTimings
    new_uuid: Callable[[], str]
    may_downgrade: Callable[[int], bool]
    """Whether a group of so many members may become one of the classic protocol."""


@dataclass(slots=True)
class _Accepted:
    """A heartbeat of a member that goes on."""

    event: HeartbeatEvent
    member_id: str


class HeartbeatBatch:
    """Changes one group by some events; no two of one member. Used once."""

    def __init__(self, journal: Journal, context: BatchContext, now: Moment) -> None:
        self.journal = journal
        self.group = journal.group
        self.context = context
        self.now = now
        self._accepted: list[_Accepted] = []
        self._classic_requests: list[ClassicRequest] = []
        self._causes: list[Cause] = []
        """Why the group's epoch has to change."""
        self._has_lost_members = False
        self.replies: list[tuple[object, object]] = []
        """By token."""
        self.may_be_last = False
        """A member has gone which may have been the last one that used the newer protocol."""
        self._members_before = len(self.group.members)

    def run(self, events: Sequence[MemberEvent]) -> None:
        """Make the changes; `replies` are for when they are stored.

        An assignor that fails leaves whatever it raises to the caller, who takes the changes back.
        """
        for event in events:
            if isinstance(event, MemberTimeout):
                self._fence(event)
                continue
            try:
                self._take(event)
            except Refusal as refusal:
                self._refuse(event, refusal)
        goes_on = bool(self._accepted) or any(each.goes_on for each in self._classic_requests)
        if goes_on or (self._has_lost_members and not self.is_downgrade):
            self._renew(with_target=goes_on)
        for accepted in self._accepted:
            self._reconcile(accepted)
        for request in self._classic_requests:
            request.finish(self)
        if self.journal.records:
            default = self.context.options.consumer_assignors[0]
            self.group.note_state(self.now, default)

    @property
    def is_downgrade(self) -> bool:
        """Whether all that are left use the classic protocol, and the group is to be one of it.

        Kafka: `validateOnlineDowngradeWithFencedMembers`, and with a replaced member.
        """
        return (
            self.may_be_last
            and self.group.has_only_classic_members
            and self.context.may_downgrade(len(self.group.members))
        )

    @property
    def causes(self) -> Sequence[Cause]:
        """Why the group has changed."""
        return self._causes

    def _refuse(self, event: HeartbeatEvent | ClassicRequest, refusal: Refusal) -> None:
        reply: object = ConsumerHeartbeatReply(refusal.error, refusal.message)
        if isinstance(event, ClassicRequest):
            reply = event.refused(refusal.error)
        self.replies.append((event.token, reply))

    def _take(self, event: HeartbeatEvent | ClassicRequest) -> None:
        if isinstance(event, ClassicRequest):
            event.apply(self)
            self._classic_requests.append(event)
            return
        if event.request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(event)
        else:
            self._accepted.append(_Accepted(event, self._update(event.request)))

    # ------------------------------------------------------------------ who leaves

    def _leave(self, event: HeartbeatEvent) -> None:
        request, group = event.request, self.group
        if request.instance_id is None:
            found = group.members.get(request.member_id)
            if found is None:
                raise unknown_member(request.member_id, group.group_id)
            member = found
        else:
            member = check_is_same(self.static(request.instance_id), request)
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
            self.journal.current(member.member_id, gone)
            arm_rebalance(member, self.now)
        else:
            log.info(
                "[GroupId %s] Member %s left the consumer group.",
                group.group_id,
                member.member_id,
            )
            self.remove(member, Cause(CauseKind.MEMBER_LEFT, member.who))
        reply = ConsumerHeartbeatReply(
            ErrorCode.none, member_id=member.member_id, member_epoch=request.member_epoch
        )
        self.replies.append((event.token, reply))

    def _fence(self, timeout: MemberTimeout) -> None:
        member = self.group.members.get(timeout.member_id)
        if member is None or not _is_overdue(member, timeout):
            return
        log.info(
            "[GroupId %s] Member %s fenced from the group because of: %s (%d ms).",
            self.group.group_id,
            timeout.member_id,
            timeout.cause.value,
            timeout.timeout_ms,
        )
        self.remove(member, Cause(timeout.cause, member.who, timeout.timeout_ms))

    def remove(self, member: ConsumerMember, cause: Cause) -> None:
        """A member is gone."""
        regex = member.metadata.regex
        self.journal.remove_member(member.member_id)
        self._forget_expression(regex)
        self._has_lost_members = self.may_be_last = True
        self._causes.append(cause)

    # ------------------------------------------------------------------ who joins or goes on

    def _update(self, request: ConsumerHeartbeat) -> str:
        """The member is as it says that it is; returns its id."""
        group = self.group
        self.check_room(request.member_id)
        member_id = request.member_id or self.context.new_uuid()
        known = self._known(request, member_id)
        before = NO_METADATA if known is None else known.metadata
        after = _updated(before, request)
        self._check_expression(before, after)
        if known is not None and (
            known.current.member_epoch == STATIC_LEAVE_EPOCH
            or (before.classic is not None and before.instance_id is not None)
        ):
            self.replace(known, member_id, "consumer")
        elif request.member_epoch == JOIN_EPOCH:
            log.info(
                "[GroupId %s] Member %s joins the consumer group using the consumer protocol.",
                group.group_id,
                member_id,
            )
        self.put(member_id, None if known is None else before, after)
        return member_id

    def check_room(self, member_id: str) -> None:
        """Whether there is room for it. Raises Refusal."""
        most = self.context.options.consumer_max_size
        if len(self.group.members) >= most and member_id not in self.group.members:
            raise Refusal(
                ErrorCode.group_max_size_reached,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def put(self, member_id: str, known: MemberMetadata | None, after: MemberMetadata) -> None:
        """The member is new, if `known` is None, or says this of itself from now on."""
        group = self.group
        before = NO_METADATA if known is None else known
        has_changed = before.subscribed_topic_names != after.subscribed_topic_names
        if before.regex != after.regex:
            # Kafka lets a member keep the topics of one that it has given up
            has_changed |= (
                group.subscriptions.has_topics(before.regex)
                or after.regex in group.subscriptions.expressions
            )
        if known is None or after != before:
            self.journal.metadata(member_id, after)
            if before.regex != after.regex:
                self._forget_expression(before.regex)
        if has_changed or not group.is_written:
            kind = CauseKind.MEMBER_JOINED if known is None else CauseKind.SUBSCRIPTION_CHANGED
            self._causes.append(Cause(kind, group.members[member_id].who))

    def _known(self, request: ConsumerHeartbeat, member_id: str) -> ConsumerMember | None:
        """The member whose heartbeat it is, or whose place it takes; None for a new one."""
        group = self.group
        is_join = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if is_join:
                    return None
                raise unknown_member(member_id, group.group_id)
            check_epoch(member, request.member_epoch, request.owned_partitions)
            return member
        static = self.static(request.instance_id)
        if is_join:
            if static is None:
                return group.members.get(member_id)
            if static.metadata.classic is None:
                check_is_released(static, request)
            return static
        member = check_is_same(static, request)
        check_epoch(member, request.member_epoch, request.owned_partitions)
        return member

    def static(self, instance_id: str) -> ConsumerMember | None:
        """The static member with this instance id."""
        member_id = self.group.static_members.get(instance_id)
        return None if member_id is None else self.group.members[member_id]

    def replace(self, gone: ConsumerMember, member_id: str, protocol: str) -> None:
        """The static member is back: with a new member id it has what it had."""
        metadata = gone.metadata
        log.info(
            "[GroupId %s] Static member with instance id %s re-joins the consumer group using the"
            " %s protocol. Created a new member %s to replace the existing member %s.",
            self.group.group_id,
            metadata.instance_id,
            protocol,
            member_id,
            gone.member_id,
        )
        current = replace(gone.current, member_epoch=0, previous_epoch=0)
        self.journal.replace_member(gone.member_id, member_id, metadata, current)

    # ------------------------------------------------------------------ expressions

    def _check_expression(self, before: MemberMetadata, after: MemberMetadata) -> None:
        text = after.regex
        if text is None or text == before.regex or self.group.subscriptions.expression_counts[text]:
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
        group = self.group
        if (
            text is None
            or text not in group.subscriptions.expressions
            or group.subscriptions.expression_counts[text]
        ):
            return
        self.journal.expression(text, None)

    def _resolve_expressions(self) -> None:
        """Find the topics of expressions that are new; of all, when topics may have changed. Only
        those of which the clients of this batch may know, as in Kafka those of whoever asks."""
        group, now = self.group, self.now
        texts = group.subscriptions.expression_counts.keys()
        if (
            not self._accepted
        ):  # nobody says what may be known: one of those members will event soon
            return
        is_refreshing = self._is_refresh_due()
        strays = group.stray_topics
        if not is_refreshing and texts <= group.subscriptions.expressions.keys():
            return
        asking = [each.event.request.may_know for each in self._accepted]
        topics = KnownTopics(self.context.topics, [each for each in asking if each is not None])
        for text in sorted(texts):
            old = group.subscriptions.expressions.get(text)
            if old is None or (is_refreshing and strays is None):
                found = resolve(text, topics)
            elif is_refreshing and strays is not None:
                found = resolve_again(text, old.topics, strays, topics)
            else:
                continue
            if old is None or found != old.topics:
                resolved = ResolvedExpression(found, 0, now.wall_ms)
                self.journal.expression(text, resolved)
            if found != (frozenset() if old is None else old.topics):
                self._causes.append(Cause(CauseKind.EXPRESSION_CHANGED, detail=text))
        if is_refreshing:
            self.journal.also_undo(_stray_again(group))
            group.stray_topics = set()
            group.refreshed_ms = MonotonicMs(now.monotonic_ms)

    def _is_refresh_due(self) -> bool:
        group = self.group
        if group.refreshed_ms is None:
            return True
        since_ms = self.now.monotonic_ms - group.refreshed_ms
        if since_ms >= self.context.options.consumer_regex_refresh_interval_ms:
            group.stray_topics = None
            return True
        return bool(group.stray_topics) and since_ms >= REGEX_REFRESH_MIN_INTERVAL_MS

    # ------------------------------------------------------------------ epoch and target

    def _renew(self, *, with_target: bool) -> None:
        """A new epoch, if anything calls for it, and the target assignment of the newest one if
        somebody can use it."""
        group, journal = self.group, self.journal
        if with_target and group.subscriptions.expression_counts:
            self._resolve_expressions()
        if self._causes or group.is_metadata_due:
            found = metadata_hash(group.subscriptions.topics(), self.context.topics)
            if found != group.epoch.metadata_hash and not self._causes:
                self._causes.append(Cause(CauseKind.TOPICS_CHANGED))
            if group.is_metadata_due:
                journal.also_undo(_due_again(group))
                group.is_metadata_due = False
            if self._causes:
                self._bump(found)
            if group.has_partition_metadata:
                journal.no_partition_metadata()
        if with_target and group.epoch.epoch > group.assignment_epoch:
            assign_targets(journal, self._assignor(), self.context.topics)
            log.info(
                "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
                group.group_id,
                group.epoch.epoch,
                self._assignor(),
            )

    def _assignor(self) -> str:
        assignors = self.context.options.consumer_assignors
        name = self.group.assignor(assignors[0])
        return name if name in assignors else assignors[0]

    def _bump(self, found: int) -> None:
        group = self.group
        epoch = group.epoch.epoch
        for cause in self._causes:
            group.history.begin_or_note(cause, self.now, epoch, self._members_before)
        self.journal.epoch(GroupEpoch(epoch + 1, found))
        note = self.context.counts.note_consumer_rebalance
        self.journal.when_stored.append(
            lambda _now: note(group.group_id, epoch + 1, len(group.members))
        )
        log.info(
            "[GroupId %s] Bumped group epoch to %d with metadata hash %d.",
            group.group_id,
            epoch + 1,
            found,
        )

    # ------------------------------------------------------------------ reconciliation

    def _reconcile(self, accepted: _Accepted) -> None:
        request = accepted.event.request
        member = self.group.members[accepted.member_id]
        before = member.current
        try:
            after = self.reconciled(member, request.owned_partitions)
        except Refusal as refusal:
            self._refuse(accepted.event, refusal)
            return
        arm_rebalance(member, self.now)
        timings = self.context.timings
        member.session.set_after(self.now, timings.session_timeout_ms)
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
        self.replies.append((accepted.event.token, reply))

    def reconciled(self, member: ConsumerMember, owned: Partitions | None) -> CurrentAssignment:
        """Take a member, who says that it has these, a step further. Raises Refusal."""
        group, before = self.group, member.current
        try:
            after = reconcile(
                before,
                group.assignment_epoch,
                group.target.get(member.member_id, NO_PARTITIONS),
                owned,
                group.is_free,
            )
        except UnknownState:
            raise Refusal(
                ErrorCode.fenced_member_epoch,
                "The consumer group member is in a unknown state. The member must abandon all its"
                " partitions and rejoin.",
            ) from None
        if after is not before:
            self.journal.current(member.member_id, after)
            member.rebalance.cancel()
        return after


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


def _is_overdue(member: ConsumerMember, timeout: MemberTimeout) -> bool:
    if timeout.cause is CauseKind.SESSION_TIMEOUT:
        return member.session.deadline_ms is None
    if member.metadata.classic is not None:
        return member.awaits is timeout.cause and member.rebalance.deadline_ms is None
    current: CurrentAssignment = member.current
    return (
        current.state is MemberState.UNREVOKED_PARTITIONS
        and current.member_epoch == timeout.member_epoch
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
