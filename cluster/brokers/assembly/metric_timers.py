"""Counts and looks round for metrics: starts the timers that do so in one broker."""

from typing import TYPE_CHECKING

from cluster.brokers.groups.group_metrics import GroupMetrics
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.publisher import (
    TICK_MS,
    ClientConnections,
    MetricPublisher,
    Watched,
)
from cluster.config import broker as keys
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

if TYPE_CHECKING:
    from cluster.brokers.core import BrokerCore


def start_metrics(
    core: "BrokerCore",
    loop: EventLoop,
    clock: Clock,
    counters: BrokerCounters,
    clients: ClientConnections,
) -> None:
    """Begin, when the broker has registered."""
    settings = core.live
    topic = core.metric_topic if settings[keys.METRICS_TOPIC_ENABLE] else None
    publisher = MetricPublisher(
        core.id,
        counters,
        Watched(
            clients,
            core.table,
            core.purgatory,
            core.metadata,
            core.replication,
            core.quotas,
            core.connected,
            core.cleaner,
            core.groups.counts,
            loop.time,
            core.connection_rates,
            core.isr_changes,
            core.controller.elections,
            core.flusher,
            core.integrity.counts,
            core.event_log,
        ),
        topic,
        settings[keys.METRICS_INTERVAL_MS],
        loop.now_ms,
        clock.wall_ms(),
        core.slices,
    )
    group_metrics = GroupMetrics(
        core.id,
        core.groups,
        core.log_ends,
        counters,
        topic,
        core.slices,
        loop.now_ms,
    )
    loop.call_every(
        settings[keys.METRICS_GROUP_INTERVAL_MS],
        lambda: group_metrics.on_tick(loop.now_ms, clock.wall_ms()),
    )
    replicas = settings[keys.DEFAULT_REPLICATION_FACTOR]

    def tick() -> None:
        publisher.on_tick(loop.now_ms, clock.wall_ms())
        if topic is not None and core.controller.is_active:
            topic.create_if_missing(core.controller_requests, replicas)

    loop.call_every(TICK_MS, tick)
