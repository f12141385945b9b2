"""Counts requests in plain integers, which are stored in the stats file a few times a second.

A request may take 10 us in all, so counting it must cost a fraction of one: a single call that
reads no clock and keeps nothing (docs/decisions/038). States such as leaders and connections are
not counted here; the publisher samples them.
"""

import logging
import uuid
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Final

from cluster.brokers.metrics.request_times import RequestKind, RequestTimes
from cluster.brokers.metrics.topic_counters import TopicTable
from cluster.metrics.broker_metrics import BROKER_METRICS
from cluster.metrics.declarations import OTHER
from cluster.metrics.kafka_names import errors_of, kafka_api_name, requests_of
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import MetricKind
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, StorageFailed
from cluster.model.ids import BrokerId
from cluster.protocol.api import ApiKey, OwnApiKey
from cluster.protocol.fetch_codec import ERROR_CODE, RECORDS_SIZE_BYTES, FetchedTopic

log = logging.getLogger(__name__)

_SLOTS_KEPT: Final = 400
"""Slots kept for requests by version and for the counters of other parts, not for errors."""


class BrokerCounters:
    """One per broker, used by its thread only. Totals count from the broker's start."""

    __slots__ = (
        "_api_names",
        "_errors",
        "_kinds",
        "_topic_name",
        "authentications",
        "expired_connections",
        "failed_authentications",
        "failed_fetches",
        "failed_produces",
        "failed_reauthentications",
        "isr_expands",
        "isr_shrinks",
        "reauthentications",
        "request_slots",
        "requests",
        "slots",
        "stats",
        "throttle_ms",
        "throttled",
        "times",
        "topics",
    )

    def __init__(self, stats: MmapStats, apis: Iterable[ApiKey | OwnApiKey]) -> None:
        self.stats = stats
        self.slots = {m.key: stats.slot(m.name, m.kind) for m in BROKER_METRICS}
        """The slot of each metric of `BROKER_METRICS`, by key."""
        apis = list(apis)
        self._api_names = {int(api): api.name for api in apis}
        self.request_slots = {
            int(api): stats.slot(requests_of(api.name), MetricKind.COUNTER) for api in apis
        }
        self.requests = dict.fromkeys(self.request_slots, 0)
        """By API key, as of the last `store`."""
        self._kinds: dict[tuple[int, int | None], tuple[RequestKind, int]] = {}
        """By API key and version, each with its slot."""
        self._errors: dict[tuple[int, int], int] = {}
        """Slots by API key and error code."""
        stats.slot(errors_of(OTHER, OTHER), MetricKind.COUNTER)
        self.times = RequestTimes(stats, apis)
        self.topics = TopicTable(stats)
        self._topic_name: Callable[[uuid.UUID | None], str | None] = lambda _topic_id: None
        self.failed_produces = 0
        """Counted in partitions."""
        self.failed_fetches = 0
        """Counted in partitions."""
        self.throttled = 0
        self.throttle_ms = 0
        self.authentications = 0
        """By SASL; only the first of each connection."""
        self.failed_authentications = 0
        self.reauthentications = 0
        self.failed_reauthentications = 0
        self.expired_connections = 0
        self.isr_shrinks = 0
        self.isr_expands = 0

    def count_topics(
        self,
        known: Container[str | None],
        topic_name: Callable[[uuid.UUID | None], str | None],
    ) -> None:
        """Count by topic from now on: `known` are those of the cluster, `topic_name` finds the name
        of one by its id. The counters themselves are there before the cluster is known.
        """
        self.topics.count_for(known)
        self._topic_name = topic_name

    def kind_of(self, api_key: int, version: int | None) -> RequestKind:
        """The counter of requests of an API in a version.

        None for a version that is not served, since a client may send any number of those.
        """
        known = self._kinds.get((api_key, version))
        if known is None:
            name = requests_of(self._api_names[api_key], OTHER if version is None else str(version))
            known = RequestKind(api_key), self.stats.slot(name, MetricKind.COUNTER)
            self._kinds[api_key, version] = known
        return known[0]

    def on_error(self, api_key: int, code: int) -> None:
        """Count an error code in a response."""
        slot = self._errors.get((api_key, code))
        if slot is None:
            api, error = OTHER, OTHER
            if self.stats.slots_left > _SLOTS_KEPT:
                api = kafka_api_name(self._api_names[api_key])
                error = ErrorCode(code).name.upper()
            slot = self.stats.slot(errors_of(api, error), MetricKind.COUNTER)
            self._errors[api_key, code] = slot
        self.stats.counts[slot] += 1

    def on_produce_refused(self, topic: str | None, code: int) -> None:
        """Count a partition of a produce request to which nothing was appended."""
        self.failed_produces += 1
        self.topics[topic].note_refused()
        self.on_error(ApiKey.PRODUCE, code)

    def on_fetched(self, answer: tuple[Iterable[FetchedTopic], object, object]) -> None:
        """Count the fetched partitions of a response."""
        for name, topic_id, partitions in answer[0]:
            topic = self.topics[self._topic_name(topic_id) if name is None else name]
            for partition in partitions:
                topic.bytes_out += partition[RECORDS_SIZE_BYTES]
                if partition[ERROR_CODE]:
                    topic.failed_fetches += 1
                    self.failed_fetches += 1
                    self.on_error(ApiKey.FETCH, partition.error_code)
            topic.fetches += len(partitions)

    def store(self) -> None:
        """Write the counts into the stats file."""
        counts = self.stats.counts
        self._sum_up()
        for api_key, slot in self.request_slots.items():
            counts[slot] = self.requests[api_key]
        produces = self.requests.get(int(ApiKey.PRODUCE), 0)
        fetches = self.requests.get(int(ApiKey.FETCH), 0)
        for key, count in (
            ("RequestsPerSec", sum(self.requests.values())),
            ("BytesInPerSec", self.topics.bytes_in),
            ("MessagesInPerSec", self.topics.messages_in),
            ("TotalProduceRequestsPerSec", produces),
            ("FailedProduceRequestsPerSec", self.failed_produces),
            ("BytesOutPerSec", self.topics.bytes_out),
            ("TotalFetchRequestsPerSec", fetches),
            ("FailedFetchRequestsPerSec", self.failed_fetches),
            ("ThrottledRequestsPerSec", self.throttled),
            ("ThrottleTimeMs", self.throttle_ms),
            ("SuccessfulAuthentications", self.authentications),
            ("FailedAuthentications", self.failed_authentications),
            ("SuccessfulReauthentications", self.reauthentications),
            ("FailedReauthentications", self.failed_reauthentications),
            ("ExpiredConnectionsKilled", self.expired_connections),
            ("IsrShrinksPerSec", self.isr_shrinks),
            ("IsrExpandsPerSec", self.isr_expands),
        ):
            counts[self.slots[key]] = count

    def _sum_up(self) -> None:
        for kind, slot in self._kinds.values():
            count = kind.take_count()
            if count:
                self.requests[kind.api] += count
                self.stats.counts[slot] += count
        self.topics.sum_up()
        self.topics.store()
        self.times.store()

    def set_real(self, key: str, value: float) -> None:
        """Set a gauge of kind REAL."""
        self.stats.reals[self.slots[key]] = value

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
    """The counters in `broker-<id>.stats` of the run directory; None if nothing is to be counted.

    If the file cannot be created (disk full), they are kept in memory that nobody else can read.
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


def isr_counter(counters: BrokerCounters | None) -> Callable[[int], None]:
    """A function that counts ISR changes by the number of members gained; None counts nothing."""

    def count(growth: int) -> None:
        if counters is not None:
            if growth > 0:
                counters.isr_expands += 1
            else:
                counters.isr_shrinks += 1

    return count
