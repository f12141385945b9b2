"""Counters of each topic: traffic from requests, sizes and states from its replicas.

The rows of the stats file bound them: topics without a row are added up under `_other`. Pure, apart
from stores into the file's memory.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from cluster.brokers.replication.partition import AppendCounts
from cluster.metrics.declarations import OTHER
from cluster.metrics.kafka_names import TOPIC_METRICS
from cluster.metrics.mmap_stats import MmapStats
from cluster.metrics.stats_layout import MetricKind
from cluster.model.topics import INTERNAL_TOPICS, METRICS_TOPIC

GAUGES: Final = tuple(m.key for m in TOPIC_METRICS if m.kind is MetricKind.GAUGE)
"""Keys of the sampled gauges, in the order in which `set_gauges` takes them."""
_NOTHING: Final = (0,) * len(GAUGES)
OWN_TOPICS: Final = INTERNAL_TOPICS | {METRICS_TOPIC}
"""Topics that brokers write themselves, which is not client traffic."""


class TopicCounters:
    """One topic, or all topics without a row. Totals count from when it got its row."""

    __slots__ = (
        "_bytes_out_taken",
        "_fetches_taken",
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "gauges",
        "index",
        "is_changed",
        "messages_in",
        "name",
        "produces",
    )

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.bytes_in = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        """Counted for each request; `take_fetched` detects the change."""
        self.failed_fetches = 0
        self._bytes_out_taken = 0
        self._fetches_taken = 0
        self.gauges: Sequence[int] = _NOTHING
        self.is_changed = True

    def note_appended(self, batches: int, size_bytes: int, messages: int) -> None:
        """Count batches appended for clients."""
        self.produces += batches
        self.bytes_in += size_bytes
        self.messages_in += messages
        self.is_changed = True

    def note_refused(self) -> None:
        """Count a client's batch that was not appended."""
        self.failed_produces += 1
        self.is_changed = True

    def take_fetched(self) -> int:
        """The bytes that clients have fetched since the last call."""
        if self.fetches == self._fetches_taken:
            return 0
        size_bytes = self.bytes_out - self._bytes_out_taken
        self._fetches_taken = self.fetches
        self._bytes_out_taken = self.bytes_out
        self.is_changed = True
        return size_bytes

    def values(self) -> tuple[int, ...]:
        """The values in the order of TOPIC_METRICS."""
        return (
            self.bytes_in,
            self.messages_in,
            self.bytes_out,
            self.produces + self.failed_produces,
            self.failed_produces,
            self.fetches,
            self.failed_fetches,
            *self.gauges,
        )


class TopicTable(dict[str | None, TopicCounters]):
    """Counters by topic name. Looking up an unknown name assigns a row to it, if the cluster has
    such a topic and a row is free. Owned by the broker's thread.
    """

    def __init__(self, stats: MmapStats) -> None:
        super().__init__()
        self._stats = stats
        self._free = list(range(stats.topic_capacity - 1, 0, -1))
        self.other = TopicCounters(OTHER, 0)
        self.other.is_changed = False
        """Counts topics without a row, and a topic of that name."""
        self._unknown = TopicCounters("", -1)
        """Counts names that are no topics of the cluster; never stored."""
        self._placed: dict[str, TopicCounters] = {}
        self._grown: dict[AppendCounts, str] = {}
        """Counts of partitions with batches that have not been summed up, and their topics."""
        self._known: Container[str | None] = ()
        self.bytes_in = 0
        """The bytes of all topics, as of the last `sum_up`."""
        self.messages_in = 0
        self.bytes_out = 0
        self.without_row_count = 0
        """Topics that are added up in `other`, as of the last `set_gauges`."""

    def count_for(self, known: Container[str | None]) -> None:
        """Count these topics of the cluster from now on; before, no topic is known."""
        self._known = known

    def __missing__(self, name: str | None) -> TopicCounters:
        if name is None or name not in self._known:
            return self._unknown
        return self._admit(name)

    def _admit(self, name: str) -> TopicCounters:
        counters = self.other
        if name != OTHER and self._free:
            counters = self._placed[name] = TopicCounters(name, self._free.pop())
        self[name] = counters
        return counters

    def on_appended(self, topic: str, counts: AppendCounts) -> None:
        """Note that a partition of the topic, with these counts, was appended to."""
        if topic not in OWN_TOPICS:
            self._grown[counts] = topic

    def sum_up(self) -> None:
        """Add up what clients have appended and fetched since the last call."""
        for counts, topic in self._grown.items():
            batches, messages, size_bytes = counts.take()
            self[topic].note_appended(batches, size_bytes, messages)
            self.bytes_in += size_bytes
            self.messages_in += messages
        self._grown.clear()
        for counters in (self.other, self._unknown, *self._placed.values()):
            self.bytes_out += counters.take_fetched()

    def with_place(self) -> list[TopicCounters]:
        """All topics with a row, and the others as one."""
        return [self.other, *self._placed.values()]

    def set_gauges(self, gauges: Mapping[str, Sequence[int]]) -> None:
        """Set the gauges by topic. Topics that have no replica here and are not in the cluster lose
        their rows.
        """
        gone = [n for n in self._placed if n not in gauges and n not in self._known]
        if gone:
            self.sum_up()
        for name in gone:
            counters = self._placed.pop(name)
            self._free.append(counters.index)
            self._stats.free_topic(counters.index)
        if gone:
            self.clear()
            self.update(self._placed)  # others that had no row may get one
        others = list(_NOTHING)
        seen = set()
        for name, values in gauges.items():
            counters = self.get(name) or self._admit(name)
            if counters is self.other:
                others = [one + more for one, more in zip(others, values, strict=True)]
            else:
                seen.add(name)
                _take(counters, values)
        for name, counters in self._placed.items():
            if name not in seen:
                _take(counters, _NOTHING)
        _take(self.other, others)
        if len(self) > len(self._placed):
            for key in [key for key, counters in self.items() if counters is self.other]:
                if key not in gauges and key not in self._known:
                    del self[key]
        self.without_row_count = len(self) - len(self._placed)

    def store(self) -> None:
        """Write changed values into the stats file."""
        for counters in self.with_place():
            if counters.is_changed:
                counters.is_changed = False
                self._stats.write_topic(counters.index, counters.name, counters.values())


def _take(counters: TopicCounters, values: Sequence[int]) -> None:
    if list(values) != list(counters.gauges):
        counters.gauges = values
        counters.is_changed = True
