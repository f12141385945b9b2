"""Converts groups with members between the classic and the newer protocol. Pure.

KIP-848; Kafka: `convertToConsumerGroup`, `convertToClassicGroup`, `ConsumerGroup.fromClassicGroup`,
`ClassicGroup.fromConsumerGroup`. The records of a conversion and of the event that triggers it are
one append; tombstones of the old form come first. An upgrade takes effect in memory at once, like
all changes to groups of the newer protocol, and is rolled back if it is not stored. A downgrade
takes effect when it is stored.

Kafka takes a member's target assignment for its current one. Here the current assignment holds all
partitions that the member may be consuming: a classic member may not have sent its SyncGroup yet,
or may be revoking partitions.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cluster.coordinator.groups.bridge.embedded_protocol import (
    MalformedProtocol,
    NumbersByTopic,
    assignment_bytes,
    read_assignment,
    read_subscription,
    read_version,
)
from cluster.coordinator.groups.bridge.policy import policy_of
from cluster.coordinator.groups.classic.rebalancing import Rebalancing
from cluster.coordinator.groups.consumer.checks import Refusal
from cluster.coordinator.groups.consumer.journal import Journal
from cluster.coordinator.groups.consumer.records import ConsumerKey, tombstone
from cluster.coordinator.groups.consumer.target_assignment import metadata_hash
from cluster.coordinator.groups.history.rebalances import Cause, CauseKind, History
from cluster.coordinator.groups.requests import JoinGroupReply, SyncGroupReply
from cluster.coordinator.groups.shared.records import StoredGroup, group_key, group_value
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.shared.topics import Partitions, TopicId, Topics
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_member import Member
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.classic_storage import restore, stored_group
from cluster.coordinator.groups.state.consumer_group import (
    ConsumerGroup,
    ConsumerState,
    MemberAlarms,
)
from cluster.coordinator.groups.state.consumer_values import (
    NO_PARTITIONS,
    ClassicMetadata,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    MemberState,
)
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.clocks import Moment
from cluster.model.error_codes import ErrorCode

log = logging.getLogger(__name__)


class Conversions:
    """Converts the groups of one shard."""

    def __init__(self, parts: ShardParts, rebalancing: Rebalancing, topics: Topics) -> None:
        self._parts = parts
        self._rebalancing = rebalancing
        self._topics = topics
        self._policy = policy_of(parts.options.consumer_migration_policy)

    # ------------------------------------------------------------------ to the newer protocol

    def upgrade(self, classic: ClassicGroup, alarms: MemberAlarms, now: Moment) -> Journal:
        """Convert a classic group to the newer protocol, with its members, their subscriptions and
        assignments; the generation becomes the epoch. Raises Refusal.

        The journal is kept only if a member of the newer protocol joins.
        """
        self._check_upgrade(classic)
        found = self._members(classic)
        stored = stored_group(classic, _assignments(classic))
        group = ConsumerGroup(classic.group_id, alarms, classic.offsets)
        group.start_times(now)
        journal = Journal(group)
        journal.also_undo(partial(self._take_back_upgrade, group, classic, stored, now))
        del self._parts.groups[classic.group_id]
        self._parts.consumer_groups[classic.group_id] = group

        journal.records.append(CoordinatorRecord(group_key(group.group_id), None))
        epoch = classic.generation_id
        for each in found:
            journal.metadata(each.member_id, each.metadata)
        topics_hash = metadata_hash(group.subscriptions.topics(), self._topics)
        journal.epoch(GroupEpoch(epoch, topics_hash))
        for each in found:
            journal.target(each.member_id, each.assigned)
        journal.assignment_epoch(epoch)
        for each in found:
            current = CurrentAssignment(epoch, epoch, MemberState.STABLE, each.held, NO_PARTITIONS)
            journal.current(each.member_id, current)
        journal.is_of_use = lambda: not group.has_only_classic_members
        journal.before_append(partial(self._leave_classic, classic, group, now))
        return journal

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        reason = ""
        if not self._policy.may_upgrade:
            reason = "online upgrade is disabled"
        elif classic.roster.protocol_type != CONSUMER:
            reason = "the group does not use the consumer embedded protocol"
        elif len(classic.members) > self._parts.options.consumer_max_size:
            reason = "the group size exceeds the consumer group maximum size"
        if reason:
            raise _cannot_upgrade(classic, reason)

    def _members(self, classic: ClassicGroup) -> "list[_Upgraded]":
        """All members in terms of the newer protocol. Raises Refusal."""
        if not classic.members:
            return []
        name = classic.protocol_name or classic.roster.select_protocol()
        found = [self._member(classic, member, name) for member in classic.members.values()]
        taken: set[tuple[TopicId, int]] = set()
        for each in found:
            if each.has_user_data or not taken.isdisjoint(_pairs(each.assigned)):
                # the user data, or the shared ownership of a partition, would be lost
                raise _cannot_upgrade(
                    classic,
                    "an unsupported custom assignor is in use. Please refer to the documentation"
                    " or switch to a default assignor before re-attempting the upgrade",
                )
            taken.update(_pairs(each.assigned))
        for each in found:
            owned = [pair for pair in _pairs(each.owned) if pair not in taken]
            taken.update(owned)
            each.hold(owned)
        return found

    def _member(self, classic: ClassicGroup, member: Member, protocol_name: str) -> "_Upgraded":
        try:
            subscription = read_subscription(member.metadata(protocol_name))
            assignment = read_assignment(member.assignment)
        except MalformedProtocol as malformed:
            log.warning(
                "Group %s: member %s has a malformed subscription or assignment: %s.",
                classic.group_id,
                member.member_id,
                malformed,
            )
            reason = "the embedded consumer protocol is malformed"
            raise _cannot_upgrade(classic, reason) from None
        metadata = MemberMetadata(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        )
        return _Upgraded(
            member.member_id,
            metadata,
            assigned=by_id(assignment.partitions, self._topics),
            owned=by_id(subscription.owned, self._topics),
            has_user_data=bool(assignment.user_data),
        )

    def _leave_classic(self, classic: ClassicGroup, group: ConsumerGroup, now: Moment) -> None:
        """Answer all waiting requests with REBALANCE_IN_PROGRESS: when the members rejoin they find
        a group of the newer protocol."""
        error = ErrorCode.rebalance_in_progress
        for member in classic.members.values():
            reply = JoinGroupReply(error, member_id=member.member_id)
            self._rebalancing.answer_join(classic, member, reply)
            self._rebalancing.answer_sync(member, SyncGroupReply(error))
        classic.release()
        classic.transition(GroupState.DEAD, now)
        group.history.go_on_from(classic.history)
        for each in group.members.values():
            if each.metadata.classic is not None:
                each.session.set_after(now, each.metadata.classic.session_timeout_ms)
        log.info(
            "Group %s was converted from the classic to the consumer protocol.", group.group_id
        )

    def _take_back_upgrade(
        self, group: ConsumerGroup, classic: ClassicGroup, stored: StoredGroup, now: Moment
    ) -> None:
        group.release()
        del self._parts.consumer_groups[group.group_id]
        if classic.state is not GroupState.DEAD:
            self._parts.groups[group.group_id] = classic
            return
        # waiting requests have been answered: their members rejoin
        members = list(classic.members.values())
        again = ClassicGroup(group.group_id)
        restore(again, stored, members)
        # the history belongs to the group that remains
        again.history, group.history = group.history, History()
        self._enter(again, group, now)
        self._rebalancing.prepare(again, Cause(CauseKind.ASSIGNMENT_NOT_STORED), now)

    # ------------------------------------------------------------------ to the classic protocol

    def may_downgrade(self, member_count: int) -> bool:
        return self._policy.may_downgrade and member_count <= self._parts.options.max_size

    def downgrade(self, journal: Journal, causes: Sequence[Cause], now: Moment) -> None:
        """Convert the journal's group to a classic group once the journal is stored. All its
        members use the classic protocol; the epoch becomes the generation.

        The members have to rejoin, unless each of them has its target assignment, as when a static
        member was replaced.
        """
        group = journal.group
        has_moved = bool(causes) or group.state() is not ConsumerState.STABLE
        classic = ClassicGroup(group.group_id)
        for member_id, member in group.members.items():
            classic.roster.add(_classic_member(member_id, member.metadata), CONSUMER)
        name = classic.roster.select_protocol()
        classic.protocol_name = name
        classic.generation_id = group.epoch.epoch
        classic.state_timestamp_ms = now.wall_ms
        for each in classic.members.values():
            each.assignment = assignment_bytes(
                by_name(_held(group.members[each.member_id].current), self._topics),
                read_version(each.metadata(name)),
            )
        stored = stored_group(classic, _assignments(classic))
        if has_moved:
            # a coordinator that loads this record does not know of the rebalance: the next
            # generation makes the members rejoin there too
            stored = replace(stored, generation_id=stored.generation_id + 1)
        journal.records += _tombstones(group)
        journal.records.append(CoordinatorRecord(group_key(group.group_id), group_value(stored)))
        cause = next(iter(causes), Cause(CauseKind.MEMBER_LEFT)) if has_moved else None
        members = tuple(classic.members.values())
        journal.when_stored.append(partial(self._become_classic, group, stored, members, cause))

    def _become_classic(
        self,
        group: ConsumerGroup,
        stored: StoredGroup,
        members: Sequence[Member],
        cause: Cause | None,
        now: Moment,
    ) -> None:
        group.release()
        del self._parts.consumer_groups[group.group_id]
        classic = ClassicGroup(group.group_id)
        restore(classic, stored, members)
        classic.generation_id = group.epoch.epoch
        classic.history = group.history
        self._enter(classic, group, now)
        log.info(
            "Group %s was converted from the consumer to the classic protocol.", group.group_id
        )
        if cause is not None:
            self._rebalancing.prepare(classic, cause, now)

    def _enter(self, classic: ClassicGroup, group: ConsumerGroup, now: Moment) -> None:
        """Put a classic group in the place of a group of the newer protocol."""
        classic.offsets = group.offsets
        self._parts.groups[group.group_id] = classic
        classic.start_times(now)
        classic.update_subscribed_topics()
        for member in classic.members.values():
            self._rebalancing.new_member(classic, member)
            self._rebalancing.restart_session(member, now)


@dataclass(slots=True)
class _Upgraded:
    """A member of a classic group in terms of the newer protocol."""

    member_id: str
    metadata: MemberMetadata
    assigned: Partitions
    """By the last assignment."""
    owned: Partitions
    """As the member reported in its last JoinGroup."""
    has_user_data: bool
    held: Partitions = field(init=False)
    """All partitions that the member may be consuming: the assigned ones, and owned ones if it has
    not sent its SyncGroup yet."""

    def hold(self, more: Iterable[tuple[TopicId, int]]) -> None:
        """Set the held partitions to the assigned ones and these."""
        held = dict(self.assigned)
        for topic_id, number in more:
            held[topic_id] = held.get(topic_id, frozenset()) | {number}
        self.held = held


def _pairs(partitions: Partitions) -> Iterator[tuple[TopicId, int]]:
    for topic_id, numbers in partitions.items():
        for number in numbers:
            yield topic_id, number


def _held(current: CurrentAssignment) -> Partitions:
    """The partitions that a member may be consuming."""
    held = dict(current.assigned)
    for topic_id, numbers in current.revoking.items():
        held[topic_id] = held.get(topic_id, frozenset()) | numbers
    return held


def _assignments(classic: ClassicGroup) -> dict[str, bytes]:
    return {each.member_id: each.assignment for each in classic.members.values()}


def by_id(partitions: NumbersByTopic, topics: Topics) -> Partitions:
    """Replace names by topic ids; topics that do not exist are left out."""
    found: dict[TopicId, frozenset[int]] = {}
    for name, numbers in partitions.items():
        shape = topics.shape(name)
        if shape is not None:
            found[shape.topic_id] = numbers
    return found


def by_name(partitions: Partitions, topics: Topics) -> NumbersByTopic:
    """Replace topic ids by names; topics that do not exist are left out."""
    found: dict[str, frozenset[int]] = {}
    for topic_id, numbers in partitions.items():
        name = topics.name(topic_id)
        if name is not None:
            found[name] = numbers
    return found


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> Refusal:
    log.info(
        "Group %s was not converted to the consumer protocol: %s.",
        classic.group_id,
        reason,
    )
    return Refusal(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _classic_member(member_id: str, metadata: MemberMetadata) -> Member:
    classic = metadata.classic or ClassicMetadata()
    return Member(
        member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        classic.session_timeout_ms,
        classic.protocols,
    )


def _tombstones(group: ConsumerGroup) -> Iterator[CoordinatorRecord]:
    """Tombstones of all records of the group. Kafka: `createGroupTombstoneRecords`."""
    group_id = group.group_id
    for kind in (ConsumerKey.CURRENT, ConsumerKey.TARGET):
        for member_id in group.members:
            yield tombstone(kind, group_id, member_id)
    yield tombstone(ConsumerKey.ASSIGNMENT_EPOCH, group_id)
    for member_id in group.members:
        yield tombstone(ConsumerKey.MEMBER, group_id, member_id)
    for text in group.subscriptions.expressions:
        yield tombstone(ConsumerKey.EXPRESSION, group_id, text)
    yield tombstone(ConsumerKey.PARTITION_METADATA, group_id)
    yield tombstone(ConsumerKey.EPOCH, group_id)
