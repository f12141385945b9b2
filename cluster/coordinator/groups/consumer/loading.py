"""Replays records of groups of the newer consumer protocol. Pure.

Kafka: `GroupMetadataManager.replay`. Here no record depends on another, so the newest records of
the keys may come in any order; derived values are computed at the end.
"""

from cluster.coordinator.groups.consumer.deadlines import rearm
from cluster.coordinator.groups.consumer.groups import ConsumerGroups
from cluster.coordinator.groups.consumer.records import (
    ConsumerGroupKey,
    ConsumerKey,
    read_assignment_epoch_value,
    read_current_value,
    read_epoch_value,
    read_expression_value,
    read_member_value,
    read_target_value,
)
from cluster.coordinator.groups.state.consumer_group import UNWRITTEN, ConsumerGroup
from cluster.coordinator.groups.state.consumer_values import NO_EPOCH
from cluster.coordinator.groups.state.parts import ShardParts
from cluster.model.clocks import Moment


class ConsumerLoading:
    """Lifecycle: `load` for every record; then `finish`."""

    def __init__(self, parts: ShardParts, consumers: ConsumerGroups) -> None:
        self._parts = parts
        self._consumers = consumers

    def load(self, key: ConsumerGroupKey, value: bytes | None) -> None:
        """Replay one record. Raises UnknownRecord, CorruptRecord."""
        groups = self._parts.consumer_groups
        group = groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self._parts.new_consumer_group(key.group_id, self._consumers)
        _put(group, key, value)
        groups[key.group_id] = group

    def finish(self, now: Moment) -> None:
        """All records were replayed. Groups that exist take over the offsets, which were loaded
        into groups of the classic kind."""
        parts = self._parts
        for group_id, group in list(parts.consumer_groups.items()):
            if not group.is_written and not group.members:
                del parts.consumer_groups[group_id]
                continue
            classic = parts.groups.pop(group_id, None)
            if classic is not None:
                group.offsets = classic.offsets
            group.compute_owners()
            session_timeout_ms = self._consumers.session_timeout_ms(group_id)
            rearm(group, session_timeout_ms, now)
            group.start_times(now)


def _put(group: ConsumerGroup, key: ConsumerGroupKey, value: bytes | None) -> None:
    is_gone = value is None
    content = value or b""
    match key.kind:
        case ConsumerKey.EPOCH:
            group.epoch = UNWRITTEN if is_gone else read_epoch_value(content)
        case ConsumerKey.PARTITION_METADATA:
            group.has_partition_metadata = not is_gone
        case ConsumerKey.MEMBER:
            group.set_metadata(key.name, None if is_gone else read_member_value(content))
        case ConsumerKey.ASSIGNMENT_EPOCH:
            group.assignment_epoch = NO_EPOCH if is_gone else read_assignment_epoch_value(content)
        case ConsumerKey.TARGET:
            group.set_target(key.name, None if is_gone else read_target_value(content))
        case ConsumerKey.CURRENT:
            group.set_current(key.name, None if is_gone else read_current_value(content))
        case ConsumerKey.EXPRESSION:
            group.subscriptions.set_expression(
                key.name, None if is_gone else read_expression_value(content)
            )
