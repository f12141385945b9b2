"""Applies, records and rolls back changes of one group of the newer protocol. Pure.

Kafka applies a change by replaying its records at once, and keeps snapshots to roll back to. Here
every change replaces one stored value, so a rollback puts the old values back.
"""

from collections.abc import Callable
from functools import partial

from cluster.coordinator.groups.consumer.records import (
    ConsumerKey,
    assignment_epoch_value,
    consumer_key,
    current_value,
    epoch_value,
    expression_value,
    member_value,
    target_value,
    tombstone,
)
from cluster.coordinator.groups.shared.topics import Partitions
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.consumer_values import (
    NEW_MEMBER,
    NO_EPOCH,
    NO_METADATA,
    NO_PARTITIONS,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    ResolvedExpression,
)
from cluster.coordinator.shards.effects import CoordinatorRecord
from cluster.model.clocks import Moment


class Journal:
    """The changes of one event. `records` are in the order that Kafka's replay needs. Each method
    changes the group at once; `undo` rolls all changes back."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.is_of_use: Callable[[], bool] = lambda: group.is_written
        """Whether the changes are worth storing; if not they are rolled back."""
        self._before_append: list[Callable[[], None]] = []
        self.when_stored: list[Callable[[Moment], None]] = []
        """Called when the changes are stored, before any reply."""
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        """Roll the group back to its state before the first change, except for deadlines."""
        while self._undo:
            self._undo.pop()()

    def add(self, record: CoordinatorRecord, undo: Callable[[], None]) -> None:
        """Add the record of a change that the caller has made, and its undo."""
        self.records.append(record)
        self._undo.append(undo)

    def also_undo(self, undo: Callable[[], None]) -> None:
        """Add the undo of a change without a record, that the caller has made."""
        self._undo.append(undo)

    def before_append(self, call: Callable[[], None]) -> None:
        """Have a call made when it is certain that the changes are appended."""
        self._before_append.append(call)

    def begin_append(self) -> None:
        """Make the calls that were to be made before the append."""
        for call in self._before_append:
            call()

    def discard(self) -> None:
        """Forget the records, and the calls that were to be made: the changes are rolled back."""
        self.records.clear()
        self._before_append.clear()
        self.when_stored.clear()

    # ------------------------------------------------------------------ the group

    def epoch(self, epoch: GroupEpoch) -> None:
        """Set the group's epoch."""
        group = self.group
        key = consumer_key(ConsumerKey.EPOCH, group.group_id)
        record = CoordinatorRecord(key, epoch_value(epoch))
        self.add(record, partial(setattr, group, "epoch", group.epoch))
        group.epoch = epoch

    def assignment_epoch(self, epoch: int) -> None:
        """Set the epoch of the target assignment."""
        group = self.group
        key = consumer_key(ConsumerKey.ASSIGNMENT_EPOCH, group.group_id)
        record = CoordinatorRecord(key, assignment_epoch_value(epoch))
        self.add(record, partial(setattr, group, "assignment_epoch", group.assignment_epoch))
        group.assignment_epoch = epoch

    def no_partition_metadata(self) -> None:
        """Remove the record about topics that Kafka 4.0 wrote."""
        group = self.group
        record = tombstone(ConsumerKey.PARTITION_METADATA, group.group_id)
        self.add(record, partial(setattr, group, "has_partition_metadata", True))
        group.has_partition_metadata = False

    def expression(self, text: str, resolved: ResolvedExpression | None) -> None:
        """Set the topics of an expression; None: no member subscribes by it."""
        group = self.group
        value = None if resolved is None else expression_value(resolved)
        key = consumer_key(ConsumerKey.EXPRESSION, group.group_id, text)
        undo = partial(
            group.subscriptions.set_expression, text, group.subscriptions.expressions.get(text)
        )
        self.add(CoordinatorRecord(key, value), undo)
        group.subscriptions.set_expression(text, resolved)

    # ------------------------------------------------------------------ members

    def metadata(self, member_id: str, metadata: MemberMetadata | None) -> None:
        """Set a member's metadata; None: the member is removed."""
        group = self.group
        member = group.members.get(member_id)
        old = None if member is None or member.metadata is NO_METADATA else member.metadata
        value = None if metadata is None else member_value(metadata)
        key = consumer_key(ConsumerKey.MEMBER, group.group_id, member_id)
        self.add(CoordinatorRecord(key, value), partial(group.set_metadata, member_id, old))
        group.set_metadata(member_id, metadata)

    def target(self, member_id: str, partitions: Partitions | None) -> None:
        """Set a member's target assignment; None: the member is removed."""
        group = self.group
        value = None if partitions is None else target_value(partitions)
        key = consumer_key(ConsumerKey.TARGET, group.group_id, member_id)
        undo = partial(group.set_target, member_id, group.target.get(member_id))
        self.add(CoordinatorRecord(key, value), undo)
        group.set_target(member_id, partitions)

    def current(self, member_id: str, current: CurrentAssignment | None) -> None:
        """Set a member's current assignment; None: the member is removed."""
        group = self.group
        member = group.members.get(member_id)
        old = None if member is None or member.current is NEW_MEMBER else member.current
        value = None if current is None else current_value(current)
        key = consumer_key(ConsumerKey.CURRENT, group.group_id, member_id)
        self.add(CoordinatorRecord(key, value), partial(group.set_current, member_id, old))
        group.set_current(member_id, current)

    def remove_member(self, member_id: str) -> None:
        """Remove a member. Kafka's replay needs the tombstones in this order."""
        self.current(member_id, None)
        self.target(member_id, None)
        self.metadata(member_id, None)

    def replace_member(
        self, old_id: str, new_id: str, metadata: MemberMetadata, current: CurrentAssignment
    ) -> None:
        """Give a static member another member id, or add it again with the same one."""
        target = self.group.target.get(old_id, NO_PARTITIONS)
        self.remove_member(old_id)
        self.metadata(new_id, metadata)
        self.target(new_id, target)
        self.current(new_id, current)

    # ------------------------------------------------------------------ the end

    def remove_group(self) -> None:
        """Remove everything stored of the group. Kafka: `createGroupTombstoneRecords`."""
        group = self.group
        members = sorted(group.members)
        for member_id in members:
            self.current(member_id, None)
        for member_id in sorted(group.target.keys() | set(members)):
            self.target(member_id, None)
        record = tombstone(ConsumerKey.ASSIGNMENT_EPOCH, group.group_id)
        self.add(record, partial(setattr, group, "assignment_epoch", group.assignment_epoch))
        group.assignment_epoch = NO_EPOCH
        for member_id in members:
            self.metadata(member_id, None)
        for text in sorted(group.subscriptions.expressions):
            self.expression(text, None)
        record = tombstone(ConsumerKey.PARTITION_METADATA, group.group_id)
        was_there = group.has_partition_metadata
        self.add(record, partial(setattr, group, "has_partition_metadata", was_there))
        group.has_partition_metadata = False
        record = tombstone(ConsumerKey.EPOCH, group.group_id)
        self.add(record, partial(setattr, group, "epoch", group.epoch))
        group.epoch = GroupEpoch(0, 0)
