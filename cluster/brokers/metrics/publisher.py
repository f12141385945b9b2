"""Samples the broker a few times a second: gauges and client rows for the stats file, and once per
interval the metric records for their topic. It changes nothing in the broker.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from cluster.brokers.client_metrics.client_metrics import ClientMetrics
from cluster.brokers.fetching.sessions import FetchSessions
from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.metrics.client_rows import ClientRows
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.latency_intervals import LatencyIntervals
from cluster.brokers.metrics.records import (
    MetricRecord,
    broker_record,
    event_record,
    latency_record,
    quota_record,
    topic_record,
)
from cluster.brokers.metrics.replica_figures import ClusterFigures, ReplicaFigures
from cluster.brokers.metrics.topic import MetricTopic
from cluster.brokers.metrics.topic_intervals import TopicIntervals
from cluster.brokers.network.connection import MuteReason
from cluster.brokers.network.purgatory import Purgatory
from cluster.brokers.replication.commit_waits import CommitWaits
from cluster.brokers.replication.isr_proposals import IsrProposals
from cluster.brokers.replication.partition_table import PartitionTable
from cluster.brokers.replication.replication_link import ReplicationLink
from cluster.brokers.storage.log_cleaner import LogCleaner
from cluster.brokers.storage.log_flusher import LogFlusher
from cluster.brokers.storage.log_scrubber import ScrubCounts
from cluster.brokers.throttling.connected_clients import ConnectedClients
from cluster.coordinator.controller.election_counts import ElectionCounts
from cluster.coordinator.groups.shared.counts import GroupCounts
from cluster.coordinator.shards.load_times import LoadTimes
from cluster.coordinator.transactions.counts import TransactionCounts
from cluster.coordinator.transactions.requests import OpenCount
from cluster.log.directory_room import common_space
from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.events import EventLog
from cluster.metrics.stats_layout import MetricKind
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.ids import BrokerId
from cluster.quotas.client_quotas import ClientQuotas
from cluster.quotas.connection_rates import ConnectionRates
from cluster.runtime.heap_trim import HeapTrim
from cluster.runtime.loop_time import LoopTime
from cluster.runtime.slices import Slices

TICK_MS: Final = 250
_STEPS_AT_ONCE: Final = 4
DRAINED_PER_TICK: Final = 512
"""Clients whose usage is written per tick; the rest waits for the next tick, so that this takes at
most a tenth of the thread."""
_DRAINED_PER_STEP: Final = 16
_REFRESHED_PER_TICK: Final = 64
"""Idle clients whose falling rate is updated per tick; the bound keeps a tick short."""
_RECORDS_PER_STEP: Final = 50
_RECORDS_PER_BATCH: Final = 200
"""A batch is built in one step."""


class ClientConnections(Protocol):
    """The figures of the broker's client connections."""

    accepted_count: int
    failed_count: int

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        ...

    def muted_count(self, reason: int) -> int:
        """The number of connections muted for this reason."""
        ...


class TransactionFigures(Protocol):
    """The figures of transactions."""

    def open_transactions(self) -> OpenCount:
        """Those that this broker coordinates."""
        ...

    @property
    def counts(self) -> TransactionCounts:
        """Transactions that have ended."""
        ...

    def retried_ends(self) -> int:
        """Transactions whose last record could not be written."""
        ...

    @property
    def without_leader_count(self) -> int:
        """Markers that wait because their partition has no leader."""
        ...

    @property
    def unmarked_count(self) -> int:
        """Markers that are not known to be written."""
        ...

    @property
    def failed_verifications(self) -> int:
        """Partitions whose transaction was not verified."""
        ...

    @property
    def verification_ms(self) -> int:
        """Time that verifications took."""
        ...


@dataclass(frozen=True, slots=True)
class Watched:
    """The parts that the publisher samples."""

    clients: ClientConnections
    partitions: PartitionTable
    purgatory: Purgatory
    commit_waits: CommitWaits
    metadata: MetadataCache
    replication: ReplicationLink
    quotas: ClientQuotas
    connected: ConnectedClients
    cleaner: LogCleaner
    group_counts: GroupCounts
    transactions: TransactionFigures
    load_times: Mapping[str, LoadTimes]
    """By the coordinator: `Group`, `Transaction`."""
    time: LoopTime
    connection_rates: ConnectionRates
    isr_proposals: IsrProposals
    elections: ElectionCounts
    flusher: LogFlusher
    scrub_counts: ScrubCounts
    events: EventLog
    fetch_sessions: FetchSessions
    client_metrics: ClientMetrics


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
        wall_ms: WallMs,
        slices: Slices,
    ) -> None:
        """With `topic` None no records are written. The first interval begins now."""
        self._local_id = local_id
        self._counters = counters
        self._stats = counters.stats
        self._watched = watched
        self._topic = topic
        self._interval_ms = interval_ms
        self._slices = slices
        self._client_rows = ClientRows(counters.stats, watched.connected)
        self._quotas_version = -1
        self._is_written = True
        """Whether all rows of the last tick are in the file."""
        self._latencies = LatencyIntervals(counters.times)
        self._topics = TopicIntervals(counters.topics, now_ms, wall_ms)
        self._is_publishing = False
        """Whether the last interval is still being published; the next one waits for it."""
        self._heap_trim = HeapTrim()
        """Returns memory of clients to the system after many of them have come and gone."""
        self._idle_ns = watched.time.idle_ns
        self._published_ms = now_ms
        self._published_counts: dict[str, int] = {}
        self._count_changes()

    def on_tick(self, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """Write the stats file and, at the end of an interval, its records."""
        self._counters.store()
        if self._is_written:
            self._is_written = False
            self._slices.start(self._write_client_rows(now_ms, wall_ms), _STEPS_AT_ONCE)
        self._stats.write_time(wall_ms, now_ms)
        elapsed_ms = now_ms - self._published_ms
        # Half a tick early rather than late, so that the mean is the interval.
        if elapsed_ms >= self._interval_ms - TICK_MS // 2 and not self._is_publishing:
            self._is_publishing = True
            self._published_ms = now_ms
            self._slices.start(self._interval(now_ms, elapsed_ms, wall_ms), _STEPS_AT_ONCE)

    def _interval(self, now_ms: MonotonicMs, elapsed_ms: int, wall_ms: WallMs) -> Iterator[None]:
        self._look_at_idle_time(elapsed_ms)
        yield from self._look_at_broker()
        self._look_at_transactions(wall_ms)
        self._look_at_loads(now_ms)
        self._look_at_throttles(now_ms)
        self._look_at_pushes()
        yield from self._publish(now_ms, elapsed_ms, wall_ms)
        self._client_rows.forget_idle(now_ms)
        held_bytes = self._watched.quotas.held_bytes
        self._heap_trim.look(held_bytes, held_bytes)
        self._is_publishing = False

    # -- quotas ----------------------------------------------------------------------------------

    def _write_client_rows(self, now_ms: MonotonicMs, wall_ms: WallMs) -> Iterator[None]:
        quotas = self._watched.quotas
        if quotas.version != self._quotas_version:
            self._quotas_version = quotas.version
            self._client_rows.take_quotas(quotas.quotas())
        self._client_rows.note_connections()
        drained = set()
        left = min(quotas.active_count, DRAINED_PER_TICK)
        while left > 0:
            for usage, state in quotas.drain_interval(now_ms, min(left, _DRAINED_PER_STEP)):
                drained.add((usage.quota, usage.user, usage.client_id))
                self._client_rows.on_usage(usage, state, now_ms, wall_ms)
            left -= _DRAINED_PER_STEP
            yield
        for key in self._client_rows.unsettled(_REFRESHED_PER_TICK):
            if key not in drained:
                present = quotas.state_of(*key, now_ms) or quotas.state_of_silent(*key)
                self._client_rows.on_state(key, present, now_ms, wall_ms)
        yield from quotas.expire_share(now_ms)
        self._is_written = True

    # -- broker ----------------------------------------------------------------------------------

    def _look_at_idle_time(self, elapsed_ms: int) -> None:
        idle_ns = self._watched.time.idle_ns
        share = min(1.0, (idle_ns - self._idle_ns) / max(1, elapsed_ms * 1_000_000))
        self._idle_ns = idle_ns
        for key in ("RequestHandlerAvgIdlePercent", "NetworkProcessorAvgIdlePercent"):
            self._counters.set_real(key, share)

    def _look_at_broker(self) -> Iterator[None]:
        watched, counters = self._watched, self._counters
        counters.set("BusyTimeUs", watched.time.busy_ns // 1_000)
        counters.set("ExemptRequestTimeUs", watched.time.exempt.owed_ns // 1_000)
        counters.set("ThrottledConnectionsPerSec", watched.connection_rates.refused_count)
        counters.set("ConnectionCount", watched.clients.connection_count)
        counters.set("MutedChannels", watched.clients.muted_count(MuteReason.QUOTA))
        counters.set("ConnectionCreationRate", watched.clients.accepted_count)
        waiting = watched.purgatory.size_by_kind
        produce_count = watched.commit_waits.size
        counters.set("PurgatorySize", waiting.total() + produce_count)
        counters.set("ProducePurgatorySize", produce_count)
        for kind in ("Fetch", "DeleteRecords", "Metadata"):
            counters.set(f"{kind}PurgatorySize", waiting[kind])
        sessions = watched.fetch_sessions
        counters.set("NumIncrementalFetchSessions", len(sessions))
        counters.set("NumIncrementalFetchPartitionsCached", sessions.partition_count)
        counters.set("IncrementalFetchSessionEvictionsPerSec", sessions.eviction_count)
        is_controller = watched.metadata.controller_id == self._local_id
        counters.set("ActiveControllerCount", int(is_controller))
        counters.set("ReplicationBytesInPerSec", watched.replication.received_bytes)
        counters.set("ReplicationBytesOutPerSec", watched.replication.sent_bytes)
        counters.set("MaxLag", watched.replication.max_lag)
        counters.set("FailedIsrUpdatesPerSec", watched.isr_proposals.refused_count)
        counters.set("OfflineReplicaCount", len(watched.partitions.offline))
        directories = watched.partitions.places
        failed = len(directories.directories) - len(directories.working)
        counters.set("OfflineLogDirectoryCount", failed)
        full = sum(directory.room.is_full for directory in directories.working)
        counters.set("FullLogDirectoryCount", full)
        space = common_space(directory.room for directory in directories.working)
        counters.set("LogDirectoryTotalBytes", space.total_bytes)
        counters.set("LogDirectoryUsableBytes", space.free_bytes)
        counters.set("LeaderElectionRateAndTimeMs", watched.elections.count)
        counters.set("UncleanLeaderElectionsPerSec", watched.elections.unclean_count)
        counters.set("LogFlushRateAndTimeMs", watched.flusher.flush_count)
        counters.set("LogFlushTimeUs", watched.flusher.flush_us)
        scrub = watched.scrub_counts
        counters.set("CheckedBytesPerSec", scrub.checked_bytes)
        counters.set("DamagedBatchesPerSec", scrub.damaged)
        counters.set("RepairedBatchesPerSec", scrub.repaired)
        counters.set("FailedConnectionsPerSec", watched.clients.failed_count)
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
        counters.set("ClientRowCount", self._client_rows.count)
        counters.set("ClientRowCapacity", self._stats.row_capacity)
        counters.set("ClientRowsLostPerSec", self._client_rows.lost_count)
        cluster = ClusterFigures()
        if is_controller:
            yield from cluster.look(list(watched.metadata.topics.values()))
        counters.set("ActiveBrokerCount", len(watched.metadata.brokers) if is_controller else 0)
        counters.set("GlobalTopicCount", cluster.topics)
        counters.set("GlobalPartitionCount", cluster.partitions)
        counters.set("OfflinePartitionsCount", cluster.offline)
        counters.set("PreferredReplicaImbalanceCount", cluster.imbalanced)
        yield from self._look_at_replicas()

    def _look_at_transactions(self, wall_ms: WallMs) -> None:
        counters, found = self._counters, self._watched.transactions
        count, oldest_ms = found.open_transactions()
        counters.set("OpenTransactions", count)
        age_ms = 0 if oldest_ms is None else max(0, wall_ms - oldest_ms)
        counters.set("OldestOpenTransactionMs", age_ms)
        counters.set("UnmarkedPartitions", found.unmarked_count)
        counters.set("CommittedTransactionsPerSec", found.counts.committed)
        counters.set("AbortedTransactionsPerSec", found.counts.aborted)
        counters.set("UnknownDestinationQueueSize", found.without_leader_count)
        counters.set("LogAppendRetryQueueSize", found.retried_ends())
        counters.set("VerificationFailureRate", found.failed_verifications)
        counters.set("VerificationTimeMs", found.verification_ms)

    def _look_at_pushes(self) -> None:
        counters, found = self._counters, self._watched.client_metrics
        counters.set("ClientInstanceCount", len(found.instances))
        counters.set("PushingClientCount", len(found.pushed))
        counters.set("ClientPushes", found.counts.exports)
        counters.set("UnreadableClientPushes", found.counts.failed_exports)
        counters.set("ThrottledClientPushes", found.counts.throttled)
        counters.set("UnknownSubscriptionPushes", found.counts.unknown_subscriptions)

    def _look_at_loads(self, now_ms: MonotonicMs) -> None:
        for coordinator, times in self._watched.load_times.items():
            longest_ms, mean_ms = times.figures(now_ms)
            self._counters.set(f"{coordinator}PartitionLoadTimeMax", longest_ms)
            self._counters.set_real(f"{coordinator}PartitionLoadTimeAvg", mean_ms)

    def _look_at_throttles(self, now_ms: MonotonicMs) -> None:
        throttles = self._watched.replication.throttles
        for direction, throttle in (("Leader", throttles.leader), ("Follower", throttles.follower)):
            self._counters.set_real(f"{direction}ReplicationByteRate", throttle.quota.rate(now_ms))

    def _look_at_replicas(self) -> Iterator[None]:
        partitions, counters = self._watched.partitions, self._counters
        replicas = ReplicaFigures()
        yield from replicas.look(partitions)
        counters.topics.set_gauges(replicas.by_topic)
        counters.set("TopicsWithoutRow", counters.topics.without_row_count)
        counters.set("PartitionCount", len(partitions))
        counters.set("ReassigningPartitions", replicas.reassigning)
        counters.set("ProducerIdCount", replicas.producer_ids)
        counters.set("HeldBackPartitions", replicas.held_back)
        counters.set("LastStableOffsetLag", replicas.stable_lag)
        for key, gauge in (
            ("LeaderCount", "LeaderCount"),
            ("UnderReplicatedPartitions", "UnderReplicated"),
            ("UnderMinIsrPartitionCount", "UnderMinIsr"),
            ("AtMinIsrPartitionCount", "AtMinIsr"),
            ("LogSize", "Size"),
            ("NumLogSegments", "NumLogSegments"),
        ):
            counters.set(key, replicas.total(gauge))

    # -- records ---------------------------------------------------------------------------------

    def _publish(self, now_ms: MonotonicMs, elapsed_ms: int, wall_ms: WallMs) -> Iterator[None]:
        intervals = self._client_rows.take_intervals()
        values = self._values(elapsed_ms)
        if self._topic is None:
            return
        head = (self._local_id, wall_ms, elapsed_ms)
        records = chain(
            [broker_record(*head, values)],
            (event_record(*head, event) for event in self._watched.events.take()),
            (latency_record(*head, figures) for figures in self._latencies.take()),
            (quota_record(*head, interval) for interval in intervals),
            self._topic_records(now_ms, wall_ms),
        )
        batch: list[MetricRecord] = []
        for count, record in enumerate(records, 1):
            if record is not None:
                batch.append(record)
            if len(batch) >= _RECORDS_PER_BATCH:
                self._topic.send(batch)
                batch = []
            if count % _RECORDS_PER_STEP == 0:
                yield
        self._topic.send(batch)

    def _topic_records(self, now_ms: MonotonicMs, wall_ms: WallMs) -> Iterator[MetricRecord | None]:
        """The records that are due; None for each topic without one, since looking at it was work,
        too.
        """
        for due in self._topics.look(now_ms, wall_ms):
            if due is None:
                yield None
            else:
                yield topic_record(self._local_id, due.wall_ms, due.interval_ms, due.figures)

    def _values(self, elapsed_ms: int) -> dict[str, float]:
        changes = self._count_changes()
        values: dict[str, float] = {}
        for metric in BROKER_METRICS:
            key = metric.key
            if metric.kind is MetricKind.COUNTER:
                values[key] = round(changes[key] * 1000 / elapsed_ms, 3)
            elif metric.kind is MetricKind.GAUGE:
                values[key] = self._stats.counts[self._counters.slots[key]]
            else:
                values[key] = round(self._stats.reals[self._counters.slots[key]], 3)
        return values

    def _count_changes(self) -> dict[str, int]:
        """The increase of each counter since the last call."""
        counts, slots = self._stats.counts, self._counters.slots
        now = {m.key: counts[slots[m.key]] for m in BROKER_METRICS if m.is_rate}
        before, self._published_counts = self._published_counts, now
        return {key: count - before.get(key, 0) for key, count in now.items()}
