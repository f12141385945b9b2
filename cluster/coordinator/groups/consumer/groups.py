"""Processes the events of groups of the newer consumer protocol in one shard. Pure.

KIP-848; Kafka: `GroupMetadataManager`, `CoordinatorRuntime`. A change is made in memory at once, so
that a reply can be computed, and is rolled back if its append fails. While an append is pending the
group is locked: heartbeats that arrive meanwhile wait, and are processed together afterwards. So
memory is at most one append ahead of the log, and a rollback always concerns the last change.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

from cluster.coordinator.groups.consumer.checks import Refusal, check_request
from cluster.coordinator.groups.consumer.deadlines import rearm
from cluster.coordinator.groups.consumer.group_locks import Event, ExclusiveAction, GroupLocks
from cluster.coordinator.groups.consumer.heartbeat_batch import (
    BatchContext,
    ClassicRequest,
    HeartbeatBatch,
    HeartbeatEvent,
    MemberEvent,
    MemberTimeout,
)
from cluster.coordinator.groups.consumer.journal import Journal
from cluster.coordinator.groups.consumer.protocol_changes import ProtocolChanges
from cluster.coordinator.groups.consumer.requests import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    ConsumerTimings,
)
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind
from cluster.coordinator.groups.requests import JoinGroupReply, LeaveGroupReply
from cluster.coordinator.groups.shared.records import group_key
from cluster.coordinator.groups.shared.topics import Topics
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup, MemberAlarms
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.alarms import Alarm
from cluster.coordinator.shards.append_errors import coordinator_error
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)

EVENTS_PER_BATCH: Final = 100
"""The largest batch: one append and some milliseconds of work."""
CHARACTERS_PER_BATCH: Final = 100_000
"""The largest sum of subscriptions in a batch, whose append must fit into a message."""
EXPRESSIONS_PER_BATCH: Final = 5
"""The most distinct expressions in a batch: each may be new, and is matched with all topics."""
PUT_OFF_MIN_MS: Final = 1_000
"""A lower bound, since clients choose their timeouts, which may be 0."""
TOPICS_LOOKED_AT: Final = 100
"""If more topics have changed, each group checks its own topics at its next heartbeat."""

Replies = list[tuple[object, object]]


class ConsumerGroups(MemberAlarms):
    """Decides the order of events. The groups are stored in the shard's parts."""

    def __init__(
        self,
        parts: ShardParts,
        topics: Topics,
        timings: Callable[[str], ConsumerTimings],
        conversions: ProtocolChanges,
    ) -> None:
        self._parts = parts
        self._conversions = conversions
        self._topics = topics
        self._timings = timings
        self.locks = GroupLocks()

    # ------------------------------------------------------------------ events

    def heartbeat(self, request: ConsumerHeartbeat, token: object, now: Moment) -> None:
        """A member joins, stays or leaves; it is answered when its changes are stored."""
        event = HeartbeatEvent(request, token)
        try:
            check_request(request, self._parts.options.consumer_assignors)
        except Refusal as refusal:
            self._refuse(event, refusal)
            return
        group = self._parts.consumer_groups.get(request.group_id)
        if group is not None and request.member_epoch >= JOIN_EPOCH:
            member = group.members.get(request.member_id)
            if member is not None and self.locks.is_locked(request.group_id):
                # the heartbeat may have to wait, but it proves that the member is alive
                self._restart_session(group, member.session, now)
        self.offer(request.group_id, event, now)

    def offer(self, group_id: str, event: Event, now: Moment) -> None:
        """Process an event as soon as no append of the group is pending; refuse it if that takes
        too long."""
        if not self.locks.is_locked(group_id):
            self._work(group_id, deque([event]), now)
        elif self.locks.is_late(group_id):
            self._refuse_event(group_id, event, ErrorCode.coordinator_not_available, now)
        else:
            self.locks.wait(group_id, event)

    def on_topics_changed(self, topics: Collection[str]) -> None:
        """Make the next heartbeat of each affected group check these topics."""
        if len(topics) > TOPICS_LOOKED_AT:
            for group in self._parts.consumer_groups.values():
                group.is_metadata_due = True
                group.stray_topics = None
                group.refreshed_ms = None
            return
        for group in self._parts.consumer_groups.values():
            if not group.is_metadata_due and group.subscriptions.include_any(topics):
                group.is_metadata_due = True
            if group.stray_topics is not None and group.subscriptions.expression_counts:
                group.stray_topics.update(topics)

    def abandon_all(self, now: Moment) -> None:
        """Answer all waiting events with NOT_COORDINATOR: another broker coordinates the groups
        now."""
        for group_id, event in self.locks.clear():
            self._refuse_event(group_id, event, ErrorCode.not_coordinator, now)
        for group in self._parts.consumer_groups.values():
            group.history.abandon()

    # ------------------------------------------------------------------ deadlines

    def session(self, group: ConsumerGroup, member_id: str) -> Alarm:
        return self._parts.alarms.alarm(partial(self._on_session_over, group, member_id))

    def rebalance(self, group: ConsumerGroup, member_id: str) -> Alarm:
        return self._parts.alarms.alarm(partial(self._on_rebalance_over, group, member_id))

    def session_timeout_ms(self, group_id: str) -> int:
        """The current session timeout of the group's members."""
        return self._timings(group_id).session_timeout_ms

    def _restart_session(self, group: ConsumerGroup, session: Alarm, now: Moment) -> None:
        session.set_after(now, self.session_timeout_ms(group.group_id))

    def _on_session_over(self, group: ConsumerGroup, member_id: str, now: Moment) -> None:
        timeout_ms = group.members[member_id].session_ms(self.session_timeout_ms(group.group_id))
        self._fence(group, MemberTimeout(member_id, CauseKind.SESSION_TIMEOUT, 0, timeout_ms), now)

    def _on_rebalance_over(self, group: ConsumerGroup, member_id: str, now: Moment) -> None:
        member = group.members[member_id]
        is_classic = member.metadata.classic is not None
        timeout = MemberTimeout(
            member_id,
            member.awaits if is_classic else CauseKind.REVOCATION_TIMEOUT,
            member.current.member_epoch,
            member.metadata.rebalance_timeout_ms,
        )
        self._fence(group, timeout, now)

    def _fence(self, group: ConsumerGroup, timeout: MemberTimeout, now: Moment) -> None:
        self.offer(group.group_id, timeout, now)

    def _put_off(self, group_id: str, timeout: MemberTimeout, now: Moment) -> None:
        """Restart the deadline: appends are stalled, so the member may have been unable to
        respond."""
        group = self._parts.consumer_groups.get(group_id)
        member = None if group is None else group.members.get(timeout.member_id)
        if member is None:
            return
        timeout_ms = max(timeout.timeout_ms, PUT_OFF_MIN_MS)
        if timeout.cause is CauseKind.SESSION_TIMEOUT:
            member.session.set_after(now, timeout_ms)
        else:
            member.rebalance.set_after(now, timeout_ms)

    # ------------------------------------------------------------------ the course of events

    def _work(self, group_id: str, events: deque[Event], now: Moment) -> None:
        while events and not self.locks.is_locked(group_id):
            event = events[0]
            if isinstance(event, ExclusiveAction):
                events.popleft()
                event.run(now)
                continue
            journal = self._journal(group_id, event, now)
            if journal is None:
                events.popleft()
                continue
            if isinstance(event, ClassicRequest) and not journal.group.members:
                self._dissolve(journal, event, events)
                continue
            self._process_batch(journal, _cut(events), now)
        if events:
            self.locks.wait_first(group_id, events)

    def _dissolve(self, journal: Journal, request: ClassicRequest, events: deque[Event]) -> None:
        """Remove a group without members, so that the classic member which joins creates a classic
        group. Kafka: `maybeDeleteEmptyConsumerGroup`."""
        if request.has_waited or not request.may_make_group:
            events.popleft()
            error = ErrorCode.unknown_member_id
            if request.has_waited:  # the removal could not be stored
                error = ErrorCode.coordinator_not_available
            self._parts.outbox.answer(request.token, request.refused(error))
            return
        request.has_waited = True
        journal.remove_group()
        journal.is_of_use = lambda: True
        journal.when_stored.append(partial(self._parts.forget_consumer_group, journal.group))
        group_id = journal.group.group_id
        log.info("Group %s, which is empty, was converted to the classic protocol.", group_id)
        self.store(journal, [])

    def _journal(self, group_id: str, event: MemberEvent, now: Moment) -> Journal | None:
        """The journal of the group, which is created for a member that joins; None if the event was
        refused or redirected."""
        group = self._parts.consumer_groups.get(group_id)
        if group is not None:
            return Journal(group)
        if isinstance(event, MemberTimeout):
            return None
        if isinstance(event, ClassicRequest):
            event.redirect(now)
            return None
        classic = self._parts.groups.get(group_id)
        complaint = ""
        if event.request.member_epoch < JOIN_EPOCH:
            complaint = f"Group {group_id} not found."
        elif event.request.member_epoch > JOIN_EPOCH:
            complaint = f"Consumer group {group_id} not found."
        if classic is not None and complaint:
            complaint = f"Group {group_id} is not a consumer group."
        if complaint:
            self._refuse(event, Refusal(ErrorCode.group_id_not_found, complaint))
            return None
        if classic is not None and classic.state is not GroupState.EMPTY:
            try:
                return self._conversions.upgrade(classic, self, now)
            except Refusal as refusal:
                self._refuse(event, refusal)
                return None
        return self._new_group(group_id, classic, now)

    def _new_group(self, group_id: str, classic: ClassicGroup | None, now: Moment) -> Journal:
        """Create a group, which takes over the offsets of a classic group without members."""
        parts = self._parts
        group = parts.new_consumer_group(group_id, self)
        journal = Journal(group)
        group.start_times(now)
        if classic is None:
            journal.also_undo(partial(parts.forget_consumer_group, group, now))
        else:
            group.offsets = classic.offsets
            journal.also_undo(partial(self._take_back_conversion, group, classic, now))
            journal.before_append(partial(_expect_nobody, classic))
            del parts.groups[group_id]
            if classic.generation_id:
                log.info(
                    "Group %s, which is empty, was converted to the consumer protocol.", group_id
                )
                journal.records.append(CoordinatorRecord(group_key(group_id), None))
        parts.consumer_groups[group_id] = group
        return journal

    def _take_back_conversion(
        self, group: ConsumerGroup, classic: ClassicGroup, now: Moment
    ) -> None:
        if classic.state is GroupState.DEAD:  # the record that removes it could not be stored
            self._parts.forget_consumer_group(group, now)
        else:
            del self._parts.consumer_groups[group.group_id]
            self._parts.groups[group.group_id] = classic

    def _process_batch(self, journal: Journal, events: list[MemberEvent], now: Moment) -> None:
        group = journal.group
        options = self._parts.options
        context = BatchContext(
            options,
            self._parts.counts,
            self._topics,
            self._timings(group.group_id),
            self._parts.new_uuid,
            self._conversions.may_downgrade,
        )
        batch = HeartbeatBatch(journal, context, now)
        try:
            batch.run(events)
            if batch.is_downgrade:
                self._conversions.downgrade(journal, batch.causes, now)
        except Exception:
            log.exception("Group %s: the target assignment could not be computed.", group.group_id)
            self._take_back(journal, now)
            for event in events:
                self._refuse_event(group.group_id, event, ErrorCode.unknown_server_error, now)
            return
        if not journal.is_of_use():  # no member was added
            self._take_back(journal, now)
            journal.discard()
        if not journal.records:
            for action in journal.when_stored:
                action(now)
        self.store(journal, batch.replies)

    def store(self, journal: Journal, replies: Replies) -> None:
        """Append the changes, and send the replies when they are stored."""
        if not journal.records:
            for token, reply in replies:
                self._parts.outbox.answer(token, reply)
            return
        journal.begin_append()
        self.locks.lock(journal.group.group_id)
        self._parts.outbox.append(journal.records, _Stored(self, journal, replies))

    # ------------------------------------------------------------------ outcomes

    def on_settled(self, journal: Journal, now: Moment, *, is_stored: bool) -> None:
        """Complete or roll back the changes of an append, and continue with the events that
        waited."""
        if is_stored:
            for action in journal.when_stored:
                action(now)
        else:
            self._take_back(journal, now)
        self.go_on(journal.group.group_id, now)

    def go_on(self, group_id: str, now: Moment) -> None:
        """Unlock the group, and process the events that waited."""
        self._work(group_id, self.locks.unlock(group_id), now)

    def _take_back(self, journal: Journal, now: Moment) -> None:
        group = journal.group
        journal.undo()
        rearm(group, self.session_timeout_ms(group.group_id), now)
        if group.history.current is not None:
            group.history.note(Cause(CauseKind.ASSIGNMENT_NOT_STORED), now)
        group.note_state(now, self._parts.options.consumer_assignors[0])

    def on_late(self, group_id: str, error: ErrorCode, now: Moment) -> None:
        """Refuse the events that wait for an append which takes too long or has no known
        outcome."""
        for event in self.locks.expire(group_id):
            self._refuse_event(group_id, event, error, now)

    def answer(self, replies: Replies, error: ErrorCode) -> None:
        """Send the computed replies, or the error of the append."""
        for token, reply in replies:
            self._parts.outbox.answer(token, _with_error(reply, coordinator_error(error)))

    def _refuse(self, event: HeartbeatEvent, refusal: Refusal) -> None:
        reply = ConsumerHeartbeatReply(refusal.error, refusal.message)
        self._parts.outbox.answer(event.token, reply)

    def _refuse_event(self, group_id: str, event: Event, error: ErrorCode, now: Moment) -> None:
        if isinstance(event, HeartbeatEvent):
            self._parts.outbox.answer(event.token, ConsumerHeartbeatReply(error))
        elif isinstance(event, ExclusiveAction):
            event.refuse(error, now)
        elif isinstance(event, ClassicRequest):
            self._parts.outbox.answer(event.token, event.refused(error))
        else:
            self._put_off(group_id, event, now)


def _expect_nobody(classic: ClassicGroup) -> None:
    """Drop the member ids that were assigned but not used: the group changes its protocol."""
    while classic.pending_join:
        classic.pending_join.popitem()[1].drop()


def _with_error(reply: object, error: ErrorCode) -> object:
    """The reply, or one of the same kind with the error of its append."""
    if error is ErrorCode.none:
        return reply
    if isinstance(reply, JoinGroupReply):
        return JoinGroupReply(error)
    if isinstance(reply, LeaveGroupReply):
        return LeaveGroupReply(error)
    return ConsumerHeartbeatReply(error)


def _cut(events: deque[Event]) -> list[MemberEvent]:
    """Take the events from the front that may form one batch: at most one of each member."""
    taken: list[MemberEvent] = []
    members: set[str] = set()
    expressions: set[str] = set()
    left = CHARACTERS_PER_BATCH
    for event in islice(events, EVENTS_PER_BATCH):
        if isinstance(event, ExclusiveAction) or event.member_id in members or left < 0:
            break
        if isinstance(event, HeartbeatEvent):
            left -= event.request.subscription_size
            if event.request.subscribed_topic_regex:
                expressions.add(event.request.subscribed_topic_regex)
        if len(expressions) > EXPRESSIONS_PER_BATCH:
            break
        if (
            isinstance(event, ClassicRequest) and not event.member_id
        ):  # such an event forms a batch alone
            if not taken:
                taken.append(event)
            break
        if event.member_id:  # a new member may not have an id yet
            members.add(event.member_id)
        taken.append(event)
    for _ in taken:
        events.popleft()
    return taken


@dataclass(slots=True)
class _Stored:
    """The append of a batch."""

    groups: ConsumerGroups
    journal: Journal
    replies: Replies
    is_settled: bool = field(default=False)

    def settle(self, now: Moment, *, is_stored: bool) -> None:
        self.is_settled = True
        self.groups.on_settled(self.journal, now, is_stored=is_stored)

    def answer(self, error: ErrorCode, now: Moment) -> None:
        self.groups.answer(self.replies, error)
        if not self.is_settled:
            self.groups.on_late(self.journal.group.group_id, coordinator_error(error), now)
