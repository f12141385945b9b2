"""Counting on the path of requests: stores into the stats file, no system calls, no decisions.

What is a state rather than an event (leaders, connections) is looked at by the publisher instead.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cluster.metrics.histogram import BUCKETS, bound_us, observe
from cluster.metrics.kafka_names import BROKER_METRICS, handling_time_of, requests_of
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import MetricKind
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId
from cluster.protocol.api import ApiKey
from cluster.protocol.fetch_codec import FetchedTopic

log = logging.getLogger(__name__)

_TIMED: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""APIs whose time on the broker's thread is kept as a histogram."""


class BrokerCounters:
    """One per broker, used by its thread only."""

    def __init__(self, stats: MmapStats, apis: Iterable[ApiKey]) -> None:
        self.stats = stats
        self.slots = {m.key: stats.slot(m.name, m.kind) for m in BROKER_METRICS}
        """Slot of each metric of `BROKER_METRICS`, by key."""
        self._counts = stats.counts
        self.request_slots = {
            int(api): stats.slot(requests_of(api.name), MetricKind.COUNTER) for api in apis
        }
        self._time_slots = {int(api): self._histogram(api.name) for api in _TIMED}
        self._bytes_in = self.slots["BytesInPerSec"]
        self._messages_in = self.slots["MessagesInPerSec"]
        self._bytes_out = self.slots["BytesOutPerSec"]
        self._produces = self.slots["TotalProduceRequestsPerSec"]
        self._fetches = self.slots["TotalFetchRequestsPerSec"]

    def _histogram(self, api_name: str) -> int:
        slots = [
            self.stats.slot(handling_time_of(api_name, bound_us(bucket)), MetricKind.COUNTER)
            for bucket in range(BUCKETS)
        ]
        return slots[0]

    def on_handled(self, api_key: int, duration_us: int) -> None:
        """A request was answered or parked; how long that kept the broker's thread."""
        counts = self._counts
        counts[self.request_slots[api_key]] += 1
        first = self._time_slots.get(api_key)
        if first is not None:
            observe(counts, first, duration_us)

    def on_produced(
        self, size_bytes: int, record_count: int, partition_count: int, failed_count: int
    ) -> None:
        """A produce request appended this much to so many partitions, and was refused by others."""
        counts = self._counts
        counts[self._bytes_in] += size_bytes
        counts[self._messages_in] += record_count
        counts[self._produces] += partition_count + failed_count
        if failed_count:
            self.add("FailedProduceRequestsPerSec", failed_count)

    def on_fetched(self, topics: Iterable[FetchedTopic]) -> None:
        """A fetch is answered with these partitions' records."""
        size_bytes = partition_count = failed_count = 0
        for _, _, partitions in topics:
            for partition in partitions:
                partition_count += 1
                size_bytes += partition.records_size_bytes
                failed_count += partition.error_code != 0
        counts = self._counts
        counts[self._bytes_out] += size_bytes
        counts[self._fetches] += partition_count
        if failed_count:
            self.add("FailedFetchRequestsPerSec", failed_count)

    def request_count(self) -> int:
        """Requests of all APIs since the start."""
        return sum(self._counts[slot] for slot in self.request_slots.values())

    def on_throttled(self, throttle_ms: int) -> None:
        """A request is answered with a throttle time."""
        self.add("ThrottledRequestsPerSec", 1)
        self.add("ThrottleTimeMs", throttle_ms)

    def add(self, key: str, amount: int) -> None:
        """Count something rare, by its key in `BROKER_METRICS`."""
        self._counts[self.slots[key]] += amount

    def set(self, key: str, value: int) -> None:
        """Set a gauge, by its key in `BROKER_METRICS`."""
        self._counts[self.slots[key]] = value


def open_counters(
    is_enabled: bool, run_dir: Path, broker: BrokerId, wall_ms: int, apis: Iterable[ApiKey]
) -> BrokerCounters | None:
    """Counters in `broker-<id>.stats` of the run directory; None when nothing is to be counted.

    A disk without room for the file costs the view from outside, not the broker.
    """
    if not is_enabled:
        return None
    path = run_dir / f"broker-{broker}.stats"
    try:
        stats = MmapStats.create(path, f"broker-{broker}", wall_ms)
    except StorageFailed as failure:
        log.warning("metrics are kept in memory only: %s", failure)
        stats = MmapStats.in_memory()
    return BrokerCounters(stats, apis)
