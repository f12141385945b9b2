"""Processes heartbeats of one group of the newer protocol together. Pure.

KIP-848; Kafka: `GroupMetadataManager.consumerGroupHeartbeat`, which processes them one by one. The
steps are the same: members are added, changed or removed; if that demands a new epoch the target
assignment is computed, here once for the whole batch; then each member is reconciled with its
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
"""Topics created shortly after one another cause one rebalance. Kafka matches every expression with
every topic again, and uses 10 s."""


@dataclass(frozen=True, slots=True)
class HeartbeatEvent:
    """A heartbeat and the token of its request."""

    request: ConsumerHeartbeat
    token: object

    @property
    def member_id(self) -> str:
        return self.request.member_id


@dataclass(frozen=True, slots=True)
class MemberTimeout:
    """A session or rebalance timeout of a member has expired."""

    member_id: str
    cause: CauseKind
    member_epoch: int
    """The member's epoch when the deadline was set; used by deadlines of one epoch."""
    timeout_ms: int


class ClassicRequest(ABC):
    """A request of the classic protocol to a group of the newer one."""

    token: object
    member_id = ""
    """The member that sent it, if it may share a batch with events of other members."""
    goes_on = False
    """Set by `apply`: the member stays, and needs its part of the newest assignment."""
    may_make_group = False
    """Whether it may be the first request of a member, for which a group is created."""
    has_waited = False
    """Whether it has waited for the removal of a group without members."""

    @abstractmethod
    def apply(self, batch: "HeartbeatBatch") -> None:
        """Change the group. Raises Refusal."""

    @abstractmethod
    def finish(self, batch: "HeartbeatBatch") -> None:
        """Reconcile the member with the newest assignment, and reply."""

    @abstractmethod
    def refused(self, error: ErrorCode) -> object:
        """The reply with an error."""

    @abstractmethod
    def redirect(self, now: Moment) -> None:
        """Process the request as one of a classic group, which the group has become."""


MemberEvent = HeartbeatEvent | MemberTimeout | ClassicRequest


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The shard's parts that a batch uses."""

    options: GroupOptions
    counts: GroupCounts
    topics: Topics
    timings: ConsumerTimings
    new_uuid: Callable[[], str]
    may_downgrade: Callable[[int], bool]
    """Whether a group of this size may become a classic group."""


@dataclass(slots=True)
class _Accepted:
    """A heartbeat of a member that stays."""

    event: HeartbeatEvent
    member_id: str


class HeartbeatBatch:
    """Changes one group by events of distinct members. Used once."""

    def __init__(self, journal: Journal, context: BatchContext, now: Moment) -> None:
        self.journal = journal
        self.group = journal.group
        self.context = context
        self.now = now
        self._accepted: list[_Accepted] = []
        self._classic_requests: list[ClassicRequest] = []
        self._causes: list[Cause] = []
        """The reasons for a new epoch."""
        self._has_lost_members = False
        self.replies: list[tuple[object, object]] = []
        """Replies with their tokens."""
        self.may_be_last = False
        """A member was removed that may have been the last one of the newer protocol."""
        self._members_before = len(self.group.members)

    def run(self, events: Sequence[MemberEvent]) -> None:
        """Make the changes; `replies` are to be sent when they are stored.

        An exception of an assignor is passed on; the caller rolls the changes back.
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
        """Whether all remaining members use the classic protocol and the group becomes a classic
        one.

        Kafka: `validateOnlineDowngradeWithFencedMembers`, and the same for a replaced member.
        """
        return (
            self.may_be_last
            and self.group.has_only_classic_members
            and self.context.may_downgrade(len(self.group.members))
        )

    @property
    def causes(self) -> Sequence[Cause]:
        """The reasons for a new epoch."""
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
                "Group %s: static member %s with instance id %s left temporarily.",
                group.group_id,
                member.member_id,
                request.instance_id,
            )
            # the partitions that it was revoking are free now
            gone = replace(member.current, member_epoch=STATIC_LEAVE_EPOCH, revoking=NO_PARTITIONS)
            self.journal.current(member.member_id, gone)
            arm_rebalance(member, self.now)
        else:
            log.info(
                "Group %s: member %s left.",
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
            "Group %s: removed member %s: %s (%d ms).",
            self.group.group_id,
            timeout.member_id,
            timeout.cause.value,
            timeout.timeout_ms,
        )
        self.remove(member, Cause(timeout.cause, member.who, timeout.timeout_ms))

    def remove(self, member: ConsumerMember, cause: Cause) -> None:
        """Remove a member from the group."""
        regex = member.metadata.regex
        self.journal.remove_member(member.member_id)
        self._forget_expression(regex)
        self._has_lost_members = self.may_be_last = True
        self._causes.append(cause)

    # ------------------------------------------------------------------ who joins or goes on

    def _update(self, request: ConsumerHeartbeat) -> str:
        """Add or change the member as its heartbeat says; returns the member id."""
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
                "Group %s: member %s joins by the consumer protocol.",
                group.group_id,
                member_id,
            )
        self.put(member_id, None if known is None else before, after)
        return member_id

    def check_room(self, member_id: str) -> None:
        """Check that the group's size allows this member. Raises Refusal."""
        most = self.context.options.consumer_max_size
        if len(self.group.members) >= most and member_id not in self.group.members:
            raise Refusal(
                ErrorCode.group_max_size_reached,
                f"The consumer group has reached its maximum capacity of {most} members.",
            )

    def put(self, member_id: str, known: MemberMetadata | None, after: MemberMetadata) -> None:
        """Add a member if `known` is None, else replace its metadata."""
        group = self.group
        before = NO_METADATA if known is None else known
        has_changed = before.subscribed_topic_names != after.subscribed_topic_names
        if before.regex != after.regex:
            # in Kafka a member keeps the topics of an expression that it has dropped
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
        """The member that sent the heartbeat, or that it replaces; None for a new member."""
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
        """Give the assignment of a static member to its successor with a new member id."""
        metadata = gone.metadata
        log.info(
            "Group %s: static member with instance id %s rejoins by the %s protocol;"
            " member %s replaces %s.",
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
        """Remove an expression if no member subscribes by it any more."""
        group = self.group
        if (
            text is None
            or text not in group.subscriptions.expressions
            or group.subscriptions.expression_counts[text]
        ):
            return
        self.journal.expression(text, None)

    def _resolve_expressions(self) -> None:
        """Find the topics of new expressions; of all expressions if topics may have changed. Only
        topics that the clients of this batch may describe are found; Kafka uses the rights of the
        requesting client."""
        group, now = self.group, self.now
        texts = group.subscriptions.expression_counts.keys()
        if (
            not self._accepted
        ):  # no client whose rights could be checked: a member will send a heartbeat soon
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
        """Begin a new epoch if there is a reason, and compute its target assignment if a member of
        this batch needs it."""
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
                "Group %s: computed the target assignment of epoch %d by the assignor %s.",
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
            "Group %s: began epoch %d; the hash of its topics is %d.",
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
        """Reconcile a member that reports these owned partitions by one step. Raises Refusal."""
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
    """The member's metadata with the changes of the heartbeat."""
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
    """Whether the heartbeat is complete, as when a member (re-)joins or after an error."""
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
