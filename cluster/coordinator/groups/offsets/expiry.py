"""Finds expired offsets, and removes them and groups left without offsets. Pure.

KIP-211; Kafka: `OffsetExpirationCondition`, `cleanupExpiredOffsets`.
"""

from collections.abc import Iterator
from typing import Final

from cluster.coordinator.groups.offsets.removals import Removals
from cluster.coordinator.groups.requests import NO_TIMESTAMP
from cluster.coordinator.groups.shared.records import CommittedOffset
from cluster.coordinator.groups.shared.subscription import CONSUMER
from cluster.coordinator.groups.state.classic_group import ClassicGroup
from cluster.coordinator.groups.state.classic_states import GroupState
from cluster.coordinator.groups.state.consumer_group import ConsumerGroup
from cluster.coordinator.groups.state.group_offsets import Partition
from cluster.coordinator.groups.state.parts import AnyGroup, ShardParts
from cluster.model.clocks import Moment, MonotonicMs, WallMs

WORK_PER_TICK: Final = 2_000
"""Offsets and groups checked in one turn: about a millisecond."""


def expired(group: AnyGroup, retention_ms: int, wall_ms: WallMs) -> list[Partition]:
    """The partitions whose offsets have expired.

    The retention counts from different times:

    - a classic group without members: since the last member left;
    - a classic group of consumers: since the last commit, for topics to which no member subscribes;
    - a group that never had members: since the last commit;
    - a group of the newer consumer protocol: since the last commit, for topics to which no member
      subscribes.

    Nothing expires during a rebalance, or while a commit of the partition is pending.
    """
    since_empty = NO_TIMESTAMP
    is_subscribing = isinstance(group, ConsumerGroup)
    if isinstance(group, ClassicGroup) and group.roster.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            since_empty = group.state_timestamp_ms
        elif (
            group.state is GroupState.STABLE
            and group.roster.protocol_type == CONSUMER
            and group.subscribed_topics is not None
        ):
            is_subscribing = True
        else:
            return []

    def is_over(committed: CommittedOffset) -> bool:
        if committed.expire_timestamp_ms != NO_TIMESTAMP:
            return wall_ms >= committed.expire_timestamp_ms
        since = committed.commit_timestamp_ms if since_empty == NO_TIMESTAMP else since_empty
        return wall_ms - since >= retention_ms

    return [
        (topic, partition)
        for topic, partition, committed in group.offsets
        if is_over(committed)
        and not (is_subscribing and group.subscribes_to(topic))
        and not group.offsets.has_pending((topic, partition))
    ]


class ExpiryCheck:
    """Checks every group once per `offsets.retention.check.interval.ms`, some in each turn."""

    def __init__(self, parts: ShardParts, removals: Removals) -> None:
        self._parts = parts
        self._removals = removals
        self._next_ms: MonotonicMs | None = None
        self._left: Iterator[str] | None = None
        """Groups that are still to be checked; None if no check is running."""

    def start(self, now: Moment) -> None:
        """Schedule the first check after one interval."""
        self._next_ms = MonotonicMs(
            now.monotonic_ms + self._parts.options.retention_check_interval_ms
        )

    def next_ms(self) -> MonotonicMs | None:
        """When `work` has something to do."""
        return self._next_ms

    def work(self, now: Moment) -> None:
        """Do a part of the check if it is due."""
        if self._next_ms is None or now.monotonic_ms < self._next_ms:
            return
        if self._left is None:
            self._left = iter(self._parts.group_ids())
        done = 0
        for group_id in self._left:
            group = self._parts.find(group_id)
            if group is not None:
                done += 1 + len(group.offsets)
                self._look_at(group, now)
            if done >= WORK_PER_TICK:
                self._next_ms = now.monotonic_ms
                return
        self._left = None
        self.start(now)

    def _look_at(self, group: AnyGroup, now: Moment) -> None:
        keys = expired(group, self._parts.options.offsets_retention_ms, now.wall_ms)
        is_left_over = _is_without_members(group) and group.offsets.is_unused
        self._parts.counts.offset_expirations += len(keys)
        if keys or is_left_over:
            self._removals.remove_offsets(group, keys, now)


def _is_without_members(group: AnyGroup) -> bool:
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.state is GroupState.EMPTY and not group.pending_join
