"""Readings of brokers' stats files, made up."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from cluster.brokers.dispatch.table import HANDLERS
from cluster.brokers.metrics.counters import BrokerCounters
from cluster.metrics.histogram import BUCKETS, Histogram, bucket_of
from cluster.metrics.kafka_names import REQUEST_PARTS, TOPIC_METRICS
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import QuotaRow
from cluster.metrics.stats_reader import Stats, read_memory
from cluster.views.client_states import ALIVE, BrokerStats


def pass_request(counters: BrokerCounters, api: int, version: int | None) -> None:
    """Count a request as the pipeline does."""
    kind = counters.kind_of(api, version)
    if kind.tickets.pop():
        kind.on_timed()


def counted_values(**by_key: int) -> dict[str, float]:
    """All values that a broker registers: 0, or as given by their key in the table of metrics."""
    stats = MmapStats.in_memory(rows=0)
    counters = BrokerCounters(stats, [handler.api.key for handler in HANDLERS])
    for api in counters.request_slots:
        pass_request(counters, api, None)
    counters.store()
    for key, value in by_key.items():
        counters.set(key, value)
    return dict(read_memory(memoryview(stats.memory)).values)


def counted(produce_us: int = 700, count: int = 1) -> dict[str, Any]:
    """What a broker has counted: all values, times of produce requests, one topic."""
    counts = [0] * BUCKETS
    counts[bucket_of(produce_us)] = count
    times = Histogram(produce_us * count, tuple(counts))
    return {
        "values": counted_values(),
        "requests": {"Produce": {part.key: times for part in REQUEST_PARTS}},
        "topics": {"t": {metric.key: 3 for metric in TOPIC_METRICS}},
    }


def broker_stats(
    broker: int = 0,
    *,
    state: str = ALIVE,
    values: Mapping[str, float] | None = None,
    rows: Iterable[QuotaRow] = (),
    groups: Iterable[Mapping[str, Any]] = (),
    requests: Mapping[str, Mapping[str, Histogram]] | None = None,
    topics: Mapping[str, Mapping[str, int]] | None = None,
    written_ms: int = 1_000_000,
) -> BrokerStats:
    """One broker's reading."""
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in groups)
    stats = Stats(
        f"broker-{broker}",
        100 + broker,
        1_000,
        time.time_ns() // 1_000_000,
        written_ms,
        dict(values or {}),
        list(rows),
        groups=lines,
        requests={api: dict(parts) for api, parts in (requests or {}).items()},
        topics={topic: dict(values) for topic, values in (topics or {}).items()},
    )
    return BrokerStats(broker, state, 40, stats)
