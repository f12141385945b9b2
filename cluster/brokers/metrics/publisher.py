"""Samples the broker a few times a second: gauges and client rows into the stats file; once per
interval the metric records into their topic. Decides nothing and changes nothing of the broker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from cluster.brokers.log_cleaner import LogCleaner
from cluster.brokers.metadata_cache import MetadataCache
from cluster.brokers.metrics.client_rows import ClientRows
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.records import broker_record, quota_record
from cluster.brokers.metrics.topic import MetricTopic
from cluster.brokers.network.connection import MuteReason
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.quotas.client_quotas import ClientQuotas
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replication_link import ReplicationLink
from cluster.coordinator.groups.counts import GroupCounts
from cluster.metrics.kafka_names import BROKER_METRICS
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.ids import BrokerId
from cluster.runtime.slices import Slices

TICK_MS: Final = 250
_PARTITIONS_PER_STEP: Final = 64
_STEPS_AT_ONCE: Final = 4
_REFRESHED_PER_TICK: Final = 64
"""Clients without requests whose falling rate is followed, so that a tick stays short."""


class ClientConnections(Protocol):
    """What is counted of the broker's client connections."""

    failed_count: int

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        ...

    def muted_count(self, reason: int) -> int:
        """How many connections are not read for this reason."""
        ...


@dataclass(frozen=True, slots=True)
class Watched:
    """What the publisher samples."""

    clients: ClientConnections
    partitions: PartitionTable
    purgatory: Purgatory
    metadata: MetadataCache
    replication: ReplicationLink
    quotas: ClientQuotas
    cleaner: LogCleaner
    group_counts: GroupCounts


class MetricPublisher:
    """Owned by the broker's thread; `on_tick` is called every `TICK_MS`."""

    def __init__(
        self,
        local_id: BrokerId,
        counters: BrokerCounters,
        watched: Watched,
        topic: MetricTopic | None,
        interval_ms: int,
        now_ms: MonotonicMs,
        slices: Slices,
    ) -> None:
        """`topic` None: no records are written. The first interval begins now."""
        self._local_id = local_id
        self._counters = counters
        self._stats = counters.stats
        self._watched = watched
        self._topic = topic
        self._interval_ms = interval_ms
        self._slices = slices
        self._client_rows = ClientRows(counters.stats)
        self._published_ms = now_ms
        self._published_counts: dict[str, int] = {}
        self._count_changes()

    def on_tick(self, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """Write the stats file; when an interval is over, its records too."""
        self._counters.store()
        self._write_client_rows(now_ms, wall_ms)
        self._stats.write_time(wall_ms, now_ms)
        elapsed_ms = now_ms - self._published_ms
        # Half a tick early rather than half a tick late: the mean is the interval.
        if elapsed_ms >= self._interval_ms - TICK_MS // 2:
            self._published_ms = now_ms
            self._slices.start(self._interval(now_ms, elapsed_ms, wall_ms), _STEPS_AT_ONCE)

    def _interval(self, now_ms: MonotonicMs, elapsed_ms: int, wall_ms: WallMs) -> Iterator[None]:
        yield from self._look_at_broker()
        self._publish(elapsed_ms, wall_ms)
        self._client_rows.forget_idle(now_ms)

    # -- quotas ----------------------------------------------------------------------------------

    def _write_client_rows(self, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        quotas = self._watched.quotas
        self._client_rows.take_quotas(quotas.quotas())
        drained = set()
        for usage, state in quotas.drain_interval(now_ms):
            drained.add((usage.quota, usage.user, usage.client_id))
            self._client_rows.on_usage(usage, state, now_ms, wall_ms)
        for key in self._client_rows.unsettled(_REFRESHED_PER_TICK):
            if key not in drained:
                present = quotas.state_of(*key, now_ms)
                if present is not None:
                    self._client_rows.on_state(key, present, now_ms, wall_ms)

    # -- broker ----------------------------------------------------------------------------------

    def _look_at_broker(self) -> Iterator[None]:
        watched, counters = self._watched, self._counters
        counters.set("ConnectionCount", watched.clients.connection_count)
        counters.set("MutedChannels", watched.clients.muted_count(MuteReason.QUOTA))
        counters.set("PurgatorySize", len(watched.purgatory))
        is_controller = watched.metadata.controller_id == self._local_id
        counters.set("ActiveControllerCount", int(is_controller))
        counters.set("ReplicationBytesInPerSec", watched.replication.received_bytes)
        counters.set("ReplicationBytesOutPerSec", watched.replication.sent_bytes)
        counters.set("ErrorsPerSec", watched.clients.failed_count)
        cleaner = watched.cleaner
        counters.set("MaxDirtyPercent", round(100 * cleaner.counts.max_dirty_ratio))
        counters.set("CleanerRecopyPercent", round(100 * cleaner.counts.last_recopy_ratio))
        counters.set("UncleanablePartitionsCount", cleaner.uncleanable_count)
        groups = watched.group_counts
        counters.set("OffsetCommitRate", groups.offset_commits)
        counters.set("OffsetExpirationRate", groups.offset_expirations)
        counters.set("OffsetDeletionRate", groups.offset_deletions)
        counters.set("GroupCompletedRebalanceRate", groups.completed_rebalances)
        counters.set("ConsumerGroupRebalanceRate", groups.consumer_rebalances)
        if self._topic is not None:
            counters.set("MetricRecordsDropped", self._topic.dropped_count)
        led = under_replicated = under_min = at_min = 0
        for count, partition in enumerate(watched.partitions, 1):
            if count % _PARTITIONS_PER_STEP == 0:
                yield
            leader = partition.leader
            if leader is None:
                continue
            led += 1
            in_sync = len(leader.isr)
            under_replicated += in_sync < len(leader.followers) + 1
            under_min += in_sync < partition.min_insync_replicas
            at_min += in_sync == partition.min_insync_replicas
        counters.set("PartitionCount", len(watched.partitions))
        counters.set("LeaderCount", led)
        counters.set("UnderReplicatedPartitions", under_replicated)
        counters.set("UnderMinIsrPartitionCount", under_min)
        counters.set("AtMinIsrPartitionCount", at_min)

    # -- records ---------------------------------------------------------------------------------

    def _publish(self, elapsed_ms: int, wall_ms: WallMs) -> None:
        intervals = self._client_rows.take_intervals()
        values = self._values(elapsed_ms)
        if self._topic is None:
            return
        records = [broker_record(self._local_id, wall_ms, elapsed_ms, values)]
        records += [
            quota_record(self._local_id, wall_ms, elapsed_ms, interval) for interval in intervals
        ]
        self._topic.send(records, wall_ms)

    def _values(self, elapsed_ms: int) -> dict[str, float]:
        changes = self._count_changes()
        counts, slots = self._stats.counts, self._counters.slots
        return {
            metric.key: round(changes[metric.key] * 1000 / elapsed_ms, 3)
            if metric.is_rate
            else counts[slots[metric.key]]
            for metric in BROKER_METRICS
        }

    def _count_changes(self) -> dict[str, int]:
        """By how much each counter grew since the last call."""
        counts, slots = self._stats.counts, self._counters.slots
        now = {m.key: counts[slots[m.key]] for m in BROKER_METRICS if m.is_rate}
        before, self._published_counts = self._published_counts, now
        return {key: count - before.get(key, 0) for key, count in now.items()}
