"""Which groups this broker coordinates: those of the partitions of `__consumer_offsets` it leads.

Kafka: `GroupCoordinatorService`; the codes are those of `GroupCoordinator.validateGroupStatus`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cluster.brokers.groups.former_histories import FormerHistories
from cluster.brokers.groups.group_partition import GroupPartition
from cluster.brokers.groups.shard_loading import RECORDS_PER_FREEZE
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.replication.internal_topics import InternalTopics
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.groups.consumer.requests import ConsumerTimings
from cluster.coordinator.groups.history.rebalances import Rebalance
from cluster.coordinator.groups.shard import GroupShard
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.groups.shared.options import GroupOptions
from cluster.coordinator.groups.shared.partitioner import partition_of
from cluster.coordinator.groups.shared.records import TEXT_MAX_BYTES, is_storable
from cluster.coordinator.groups.shared.topics import Topics
from cluster.metrics.events import EventLog
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import LeaderEpoch, TopicPartition
from cluster.model.topics import CONSUMER_OFFSETS_TOPIC
from cluster.records.batch import Compression
from cluster.runtime.clock import Clock
from cluster.runtime.collector import Growth
from cluster.runtime.loop import EventLoop
from cluster.runtime.slices import Slices

_partition_of: Final = lru_cache(maxsize=4096)(partition_of)
"""Heartbeats ask for the same groups again and again."""
_REMEMBERED_CHARACTERS: Final = 512
"""Longer group ids, which may have 32 KiB, are not kept: that would be a hundred megabytes."""


OnUnloaded = Callable[[TopicPartition, WallMs, Mapping[str, tuple[Rebalance, ...]]], None]


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    """What of the settings the driver works by."""

    groups: GroupOptions
    load_buffer_bytes: int
    commit_timeout_ms: int
    codec: Compression


class GroupCoordinator:
    """Owned by the broker's thread. A `StateKeeper` of `__consumer_offsets`.

    Invariant: of each led partition there is one shard, of the epoch in which it is led.
    """

    def __init__(
        self,
        options: CoordinatorOptions,
        internal_topics: InternalTopics,
        metadata: MetadataCache,
        slices: Slices,
        clock: Clock,
        loop: EventLoop,
        new_uuid: Callable[[], str],
        topics: Topics,
        timings: Callable[[str], ConsumerTimings],
        events: EventLog,
    ) -> None:
        """`topics` and `timings`: see `GroupShard`. `events` is told of rebalances."""
        self._options = options
        self._internal_topics = internal_topics
        self._metadata = metadata
        self._slices = slices
        self._clock = clock
        self._loop = loop
        self._new_uuid = new_uuid
        self._topics = topics
        self._timings = timings
        self._led: dict[int, GroupPartition] = {}
        self.former = FormerHistories()
        self.on_unloaded: OnUnloaded = lambda _partition, _since_ms, _histories: None
        """Told of a partition that is led by another from now on, since when it was loaded here,
        and the last rebalances of its groups."""
        self.counts = GroupCounts(events)
        """Of all partitions since the broker began."""
        self._growth = Growth(per_freeze=RECORDS_PER_FREEZE)
        internal_topics.keep(CONSUMER_OFFSETS_TOPIC, self)

    # -- leadership --------------------------------------------------------------------------------

    def on_elected(self, partition: Partition, _epoch: LeaderEpoch) -> None:
        """Begin to load the partition. A load of an earlier epoch was ended by `on_resigned`."""
        led = GroupPartition(
            partition,
            GroupShard(
                self._options.groups, self._new_uuid, self._topics, self._timings, self.counts
            ),
            self._internal_topics,
            self._options.codec,
            self._options.commit_timeout_ms,
            self._clock,
            self._loop,
            self._growth,
        )
        self._led[partition.id.partition] = led
        self._slices.start(led.loading_steps(self._options.load_buffer_bytes), steps_at_once=1)

    def on_resigned(self, partition: TopicPartition) -> None:
        """Unload it at once; its memory is freed in slices."""
        led = self._led.pop(partition.partition, None)
        if led is None:
            return
        histories, since_ms = led.histories(), led.since_wall_ms
        led.close()  # which ends the rebalances that run
        if since_ms is not None:
            self.on_unloaded(partition, since_ms, histories)
        self._slices.start(led.forgetting_steps())

    def on_topics_gone(self, topics: Collection[str]) -> None:
        """Topics were deleted: what groups have committed for them is removed."""
        for led in list(self._led.values()):
            led.on_topics_deleted(topics)

    def on_topics_changed(self, topics: Collection[str]) -> None:
        """Topics were made, deleted or enlarged: groups of the newer protocol are assigned anew."""
        for led in list(self._led.values()):
            led.on_topics_changed(topics)

    # -- finding -----------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> TopicPartition | None:
        """Whose leader coordinates the group; None while there is no such topic.

        Raises Refused: INVALID_GROUP_ID, for a name that no record can hold.
        """
        if not is_storable(group_id):
            raise Refused(
                ErrorCode.invalid_group_id, f"Group ids have at most {TEXT_MAX_BYTES} bytes."
            )
        topic = self._metadata.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None or not topic.partitions:
            return None
        find = _partition_of if len(group_id) <= _REMEMBERED_CHARACTERS else partition_of
        return TopicPartition(CONSUMER_OFFSETS_TOPIC, find(group_id, len(topic.partitions)))

    def find(self, group_id: str) -> GroupPartition:
        """The loaded partition of a group.

        Raises Refused: INVALID_GROUP_ID, NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        partition = self.partition_of(group_id)
        led = None if partition is None else self._led.get(partition.partition)
        if led is None:
            raise Refused(ErrorCode.not_coordinator)
        if led.is_loading:
            raise Refused(ErrorCode.coordinator_load_in_progress)
        return led

    def all_loaded(self) -> list[GroupPartition]:
        """Every partition whose groups can be listed, at this moment: long work in slices finds
        those that are resigned meanwhile without groups."""
        return [led for led in self._led.values() if not led.is_loading]

    @property
    def is_loading(self) -> bool:
        """Whether a partition that is led here is still being loaded."""
        return any(led.is_loading for led in self._led.values())
