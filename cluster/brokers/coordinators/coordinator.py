"""One kind of coordinator on this broker: the shards of the partitions that it leads.

Kafka: `CoordinatorRuntime`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Generic

from cluster.brokers.coordinators.led_shard import LedShard, OnMessage, ShardT
from cluster.brokers.coordinators.options import CoordinatorOptions, CoordinatorPorts
from cluster.brokers.coordinators.shard_loading import RECORDS_PER_FREEZE
from cluster.brokers.replication.partition import Partition
from cluster.coordinator.shards.load_times import LoadTimes
from cluster.coordinator.shards.partitioner import partition_of
from cluster.coordinator.shards.record_text import TEXT_MAX_BYTES, is_storable
from cluster.coordinator.shards.requests import Request
from cluster.model.errors import ErrorCode, Refused
from cluster.model.ids import LeaderEpoch, TopicPartition
from cluster.runtime.collector import Growth

_partition_of: Final = lru_cache(maxsize=4096)(partition_of)
"""Heartbeats name the same groups again and again."""
_REMEMBERED_CHARACTERS: Final = 512
"""Longer keys, of up to 32 KiB, are not cached: they could take a hundred megabytes."""

NewShard = Callable[[TopicPartition, LeaderEpoch], ShardT]
BeforeUnload = Callable[[LedShard[ShardT]], None]


def _nothing(_: Any) -> None:
    pass


def _no_message(_partition: TopicPartition, _message: Any) -> None:
    pass


class Coordinator(Generic[ShardT]):
    """Owned by the broker's thread. The `StateKeeper` of its internal topic.

    Invariant: each led partition has exactly one shard, which belongs to the current leadership.
    """

    def __init__(
        self,
        options: CoordinatorOptions,
        ports: CoordinatorPorts,
        new_shard: NewShard[ShardT],
        before_unload: BeforeUnload[ShardT] = _nothing,
        on_message: OnMessage = _no_message,
    ) -> None:
        """`before_unload` is called with each shard that is about to be unloaded, `on_message` with
        each message of a shard's effects."""
        self._options = options
        self._ports = ports
        self._metadata = ports.metadata
        self._topic: Final = options.topic
        self._new_shard = new_shard
        self._before_unload = before_unload
        self._on_message = on_message
        self._led: dict[int, LedShard[ShardT]] = {}
        self._growth = Growth(per_freeze=RECORDS_PER_FREEZE)
        self.load_times = LoadTimes()
        ports.internal_topics.keep(options.topic, self)

    # -- leadership --------------------------------------------------------------------------------

    def on_elected(self, partition: Partition, epoch: LeaderEpoch) -> None:
        """Begin to load the partition. `on_resigned` ended the load of an earlier epoch."""
        shard = self._new_shard(partition.id, epoch)
        led = LedShard(
            *(partition, shard, self._options, self._ports),
            *(self._growth, self.load_times, self._on_message),
        )
        self._led[partition.id.partition] = led
        self._ports.slices.start(led.loading_steps(), steps_at_once=1)

    def on_resigned(self, partition: TopicPartition) -> None:
        """Unload the partition at once; its memory is freed in slices."""
        led = self._led.pop(partition.partition, None)
        if led is not None:
            self._before_unload(led)
            self._ports.slices.start(led.close())

    # -- finding -----------------------------------------------------------------------------------

    def partition_of(self, key: str) -> TopicPartition | None:
        """The partition whose leader coordinates the key; None while the topic does not exist.

        Raises Refused (`CoordinatorOptions.invalid_key`) for a key that is too long for a record.
        """
        if not is_storable(key):
            raise Refused(
                self._options.invalid_key, f"The id is longer than {TEXT_MAX_BYTES} bytes."
            )
        topic = self._metadata.topics.get(self._topic)
        if topic is None or not topic.partitions:
            return None
        find = _partition_of if len(key) <= _REMEMBERED_CHARACTERS else partition_of
        return TopicPartition(self._topic, find(key, len(topic.partitions)))

    def find(self, key: str) -> LedShard[ShardT]:
        """The loaded shard of a key.

        Raises Refused: the error of an invalid key, NOT_COORDINATOR, or
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        partition = self.partition_of(key)
        led = None if partition is None else self._led.get(partition.partition)
        if led is None:
            raise Refused(ErrorCode.not_coordinator)
        if led.is_loading:
            raise Refused(ErrorCode.coordinator_load_in_progress)
        return led

    def led(self, partition: TopicPartition) -> LedShard[ShardT] | None:
        """The loaded shard of a partition, if this broker leads it."""
        led = self._led.get(partition.partition)
        return None if led is None or led.is_loading else led

    def all_loaded(self) -> list[LedShard[ShardT]]:
        """The shards that are loaded now. After it is unloaded, a shard answers as if empty."""
        return [led for led in self._led.values() if not led.is_loading]

    @property
    def is_loading(self) -> bool:
        """Whether a shard is still being loaded."""
        return any(led.is_loading for led in self._led.values())

    # -- events ------------------------------------------------------------------------------------

    def tell_all(self, event: Request[None]) -> None:
        """Report an event to every shard, also to those that are being loaded."""
        for led in list(self._led.values()):
            led.tell(event)
