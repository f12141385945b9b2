"""Assembles the publishing of a broker's metrics: its stats file and its metric records."""

from dataclasses import dataclass

from cluster.brokers.assembly.control import Control
from cluster.brokers.assembly.foundation import Foundation
from cluster.brokers.assembly.groups import Groups
from cluster.brokers.assembly.limits import Limits
from cluster.brokers.assembly.maintenance import Maintenance
from cluster.brokers.assembly.membership import Membership
from cluster.brokers.assembly.replication import Replication
from cluster.brokers.assembly.storage import Storage
from cluster.brokers.assembly.transactions import Transactions
from cluster.brokers.client_metrics.client_metrics import ClientMetrics
from cluster.brokers.groups.group_metrics import GroupMetrics
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.publisher import TICK_MS, MetricPublisher, Watched
from cluster.brokers.metrics.topic import MetricTopic
from cluster.brokers.transactions.transaction_figures import TransactionFigures
from cluster.config import broker as keys
from cluster.protocol.peer.control import ProduceMetrics


@dataclass(frozen=True, slots=True)
class Metrics:
    """Lifecycle: `start` begins to publish, unless metrics are disabled."""

    foundation: Foundation
    groups: Groups
    control: Control
    watched: Watched
    topic: MetricTopic

    def start(self) -> None:
        """Start the timers of the publisher and of the group lag."""
        ports = self.foundation.ports
        if ports.counters is None:
            return
        topic = self.topic if self.foundation.live[keys.METRICS_TOPIC_ENABLE] else None
        self._start_groups(ports.counters, topic)
        self._start_publisher(ports.counters, topic)

    def _start_groups(self, counters: BrokerCounters, topic: MetricTopic | None) -> None:
        loop, clock = self.foundation.ports.loop, self.foundation.ports.clock
        group_metrics = GroupMetrics(
            self.foundation.id,
            self.groups.coordinator,
            self.groups.log_ends,
            counters,
            topic,
            self.foundation.slices,
            loop.now_ms,
        )
        loop.call_every(
            self.foundation.live[keys.METRICS_GROUP_INTERVAL_MS],
            lambda: group_metrics.on_tick(loop.now_ms, clock.wall_ms()),
        )

    def _start_publisher(self, counters: BrokerCounters, topic: MetricTopic | None) -> None:
        settings, control = self.foundation.live, self.control
        loop, clock = self.foundation.ports.loop, self.foundation.ports.clock
        publisher = MetricPublisher(
            self.foundation.id,
            counters,
            self.watched,
            topic,
            settings[keys.METRICS_INTERVAL_MS],
            loop.now_ms,
            clock.wall_ms(),
            self.foundation.slices,
        )
        replicas = settings[keys.DEFAULT_REPLICATION_FACTOR]

        def tick() -> None:
            publisher.on_tick(loop.now_ms, clock.wall_ms())
            if topic is not None and control.driver.is_active:
                topic.create_if_missing(control.requests, replicas)

        loop.call_every(TICK_MS, tick)


def assemble_metrics(
    foundation: Foundation,
    membership: Membership,
    storage: Storage,
    replication: Replication,
    maintenance: Maintenance,
    groups: Groups,
    transactions: Transactions,
    limits: Limits,
    control: Control,
    client_metrics: ClientMetrics,
) -> Metrics:
    """Also appends the metric records of peers to the partitions that this broker leads, even if it
    publishes no metrics itself.
    """
    ports, metadata, counters = foundation.ports, membership.metadata, foundation.ports.counters
    topic = MetricTopic(
        foundation.id, ports.loop, metadata, replication.internal_topics.appends, ports.control_link
    )
    ports.control_link.serve(ProduceMetrics, topic.on_request)
    if counters is not None:
        topics = counters.topics
        counters.count_topics(metadata.topics, metadata.topic_name)
        replication.events.subscribe(
            on_append=lambda partition: topics.on_appended(partition.id.topic, partition.counts)
        )
    watched = Watched(
        ports.clients,
        storage.table,
        replication.purgatory,
        replication.commit_waits,
        metadata,
        replication.link,
        limits.quotas,
        limits.connected,
        maintenance.cleaner,
        groups.counts,
        TransactionFigures(transactions.coordinator, transactions.sender, transactions.checks),
        {
            "Group": groups.coordinator.load_times,
            "Transaction": transactions.coordinator.load_times,
        },
        ports.loop.time,
        limits.connection_rates,
        replication.isr_proposals,
        control.driver.elections,
        storage.flusher,
        maintenance.scrubber.counts,
        foundation.event_log,
        replication.fetch_sessions,
        client_metrics,
    )
    return Metrics(foundation, groups, control, watched, topic)
