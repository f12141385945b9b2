"""Counting on the path of requests, in plain integers; a few times a second they are stored in the
stats file. A request may cost 20 us in all, so counting it gets a fraction of one: no clock, and
a request's figures are only put into a list, which is summed up when it is stored. (A
line of Python between others takes some ten times as long as in a loop of its own.)

What is a state rather than an event (leaders, connections) is sampled by the publisher instead.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from cluster.brokers.log.partition_log import Appended
from cluster.metrics.histogram import BUCKETS, bound_us
from cluster.metrics.kafka_names import BROKER_METRICS, handling_time_of, requests_of
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import MetricKind
from cluster.model.clocks import WallMs
from cluster.model.errors import StorageFailed
from cluster.model.ids import BrokerId
from cluster.protocol.api import ApiKey, OwnApiKey
from cluster.protocol.fetch_codec import FetchedTopic

log = logging.getLogger(__name__)

_BITS: Final = 65
"""Any duration's `bit_length` is an index: the last bucket of the file takes the rest."""


class BrokerCounters:
    """One per broker, used by its thread only. Totals since the broker began."""

    __slots__ = (
        "_appended",
        "_handled_us",
        "_times",
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "isr_expands",
        "isr_shrinks",
        "messages_in",
        "note_appended",
        "request_slots",
        "requests",
        "slots",
        "stats",
        "throttle_ms",
        "throttled",
        "time_slots",
    )

    def __init__(self, stats: MmapStats, apis: Iterable[ApiKey | OwnApiKey]) -> None:
        self.stats = stats
        self.slots = {m.key: stats.slot(m.name, m.kind) for m in BROKER_METRICS}
        """Slot of each metric of `BROKER_METRICS`, by key."""
        self.request_slots = {
            int(api): stats.slot(requests_of(api.name), MetricKind.COUNTER) for api in apis
        }
        self.time_slots = {
            int(api): self._histogram(api.name) for api in (ApiKey.PRODUCE, ApiKey.FETCH)
        }
        self.requests = dict.fromkeys(self.request_slots, 0)
        """By API key, as of the last `store`."""
        self._handled_us: dict[int, list[int]] = {api: [] for api in self.request_slots}
        self._times = {api: [0] * _BITS for api in self.time_slots}
        """Requests of an API by the bits of their microseconds."""
        self._appended: list[Appended] = []
        self.note_appended = self._appended.append
        """Counts a client's batch that was appended."""
        self.bytes_in = 0
        self.messages_in = 0
        self.failed_produces = 0
        """Partitions."""
        self.bytes_out = 0
        self.failed_fetches = 0
        """Partitions."""
        self.throttled = 0
        self.throttle_ms = 0
        self.isr_shrinks = 0
        self.isr_expands = 0

    def _histogram(self, api_name: str) -> list[int]:
        return [
            self.stats.slot(handling_time_of(api_name, bound_us(bucket)), MetricKind.COUNTER)
            for bucket in range(BUCKETS)
        ]

    def note_us(self, api_key: int) -> Callable[[int], None]:
        """A function that counts one request of an API, given the microseconds that it kept the
        broker's thread.
        """
        return self._handled_us[api_key].append

    def on_fetched(self, topics: Iterable[FetchedTopic]) -> None:
        """A fetch is answered with these partitions' records."""
        for _, _, partitions in topics:
            for partition in partitions:
                self.bytes_out += partition.records_size_bytes
                if partition.error_code:
                    self.failed_fetches += 1

    def store(self) -> None:
        """Write what was counted into the stats file."""
        counts = self.stats.counts
        self._sum_up()
        for api_key, slot in self.request_slots.items():
            counts[slot] = self.requests[api_key]
        for api_key, slots in self.time_slots.items():
            times = self._times[api_key]
            for bucket, slot in enumerate(slots[:-1]):
                counts[slot] = times[bucket]
            counts[slots[-1]] = sum(times[BUCKETS - 1 :])
        produces = self.requests.get(int(ApiKey.PRODUCE), 0)
        fetches = self.requests.get(int(ApiKey.FETCH), 0)
        for key, count in (
            ("RequestsPerSec", sum(self.requests.values())),
            ("BytesInPerSec", self.bytes_in),
            ("MessagesInPerSec", self.messages_in),
            ("TotalProduceRequestsPerSec", produces),
            ("FailedProduceRequestsPerSec", self.failed_produces),
            ("BytesOutPerSec", self.bytes_out),
            ("TotalFetchRequestsPerSec", fetches),
            ("FailedFetchRequestsPerSec", self.failed_fetches),
            ("ThrottledRequestsPerSec", self.throttled),
            ("ThrottleTimeMs", self.throttle_ms),
            ("IsrShrinksPerSec", self.isr_shrinks),
            ("IsrExpandsPerSec", self.isr_expands),
        ):
            counts[self.slots[key]] = count

    def _sum_up(self) -> None:
        for api_key, handled_us in self._handled_us.items():
            if handled_us:
                self.requests[api_key] += len(handled_us)
                times = self._times.get(api_key)
                if times is not None:
                    for bits, count in Counter(map(int.bit_length, handled_us)).items():
                        times[bits] += count
                handled_us.clear()
        appended = self._appended
        if appended:
            base_offsets, last_offsets, _, _, sizes, _ = zip(*appended, strict=True)
            self.messages_in += sum(last_offsets) - sum(base_offsets) + len(appended)
            self.bytes_in += sum(sizes)
            appended.clear()

    def set(self, key: str, value: int) -> None:
        """Set a gauge that the publisher has sampled, by its key in `BROKER_METRICS`."""
        self.stats.counts[self.slots[key]] = value


def open_counters(
    is_enabled: bool,
    run_dir: Path,
    broker: BrokerId,
    wall_ms: WallMs,
    apis: Iterable[ApiKey | OwnApiKey],
) -> BrokerCounters | None:
    """Counters in `broker-<id>.stats` of the run directory; None when nothing is to be counted.

    Where the file cannot be made (disk full), they are kept in memory, which nobody else can read.
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
