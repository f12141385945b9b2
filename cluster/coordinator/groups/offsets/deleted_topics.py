"""Removes the offsets committed for deleted topics, some in each turn. Pure.

Kafka: `OffsetMetadataManager.onPartitionsDeleted`, which checks all groups at once.
"""

from collections.abc import Collection, Iterator
from typing import Final

from cluster.coordinator.groups.offsets.removals import Removals
from cluster.coordinator.groups.state.group_offsets import Partition
from cluster.coordinator.groups.state.parts import AnyGroup, ShardParts
from cluster.model.clocks import Moment, MonotonicMs, WallMs

WORK_PER_TICK: Final = 2_000
"""Groups and topics checked in one turn: about a millisecond."""


class DeletedTopics:
    """Checks all groups once for the topics that were deleted before the check began."""

    def __init__(self, parts: ShardParts, removals: Removals) -> None:
        self._parts = parts
        self._removals = removals
        self._next_ms: MonotonicMs | None = None
        self._waiting: dict[str, WallMs] = {}
        """Topics deleted since the check began, and when."""
        self._topics: dict[str, WallMs] = {}
        """The topics of the running check."""
        self._left: Iterator[str] = iter(())
        """Groups that are still to be checked."""

    def add(self, topics: Collection[str], now: Moment) -> None:
        """Schedule a check for these deleted topics."""
        self._waiting |= dict.fromkeys(topics, now.wall_ms)
        if self._waiting:
            self._next_ms = now.monotonic_ms

    def next_ms(self) -> MonotonicMs | None:
        """When `work` has something to do."""
        return self._next_ms

    def work(self, now: Moment) -> None:
        """Do a part of the check."""
        if self._next_ms is None:
            return
        if not self._topics:
            self._topics, self._waiting = self._waiting, {}
            self._left = iter(self._parts.group_ids())
        done = 0
        for group_id in self._left:
            group = self._parts.find(group_id)
            if group is not None:
                done += 1 + len(group.offsets.topics)
                self._look_at(group, now)
            if done >= WORK_PER_TICK:
                return
        self._topics = {}
        self._next_ms = now.monotonic_ms if self._waiting else None

    def _look_at(self, group: AnyGroup, now: Moment) -> None:
        keys: list[Partition] = []
        for topic in self._topics.keys() & group.offsets.topics.keys():
            deleted_ms = self._topics[topic]
            keys += [
                (topic, partition)
                for partition, committed in group.offsets.topics[topic].items()
                if committed.commit_timestamp_ms
                <= deleted_ms  # otherwise the topic was created again
            ]
        self._parts.counts.offset_deletions += len(keys)
        if keys:
            self._removals.remove_offsets(group, sorted(keys), now)
