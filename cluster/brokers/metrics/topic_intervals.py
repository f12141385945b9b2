"""Each topic's figures in an interval, derived from totals that only grow. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster.brokers.metrics.records import TopicFigures
from cluster.brokers.metrics.topic_counters import (
    GAUGES,
    OWN_TOPICS,
    TopicCounters,
    TopicTable,
)
from cluster.model.clocks import MonotonicMs, WallMs

UNCHANGED_MS: Final = 50_000
"""An unchanged topic gets a record at the first look after this time, so that a record begins in
every minute."""
OWN_MS: Final = 9_500
"""The same interval for a topic of the brokers' own of which only the size has changed: the metrics
topic grows in every interval, which needs no record each time."""
_GAUGES: Final = tuple(GAUGES.index(key) for key in ("Size", "PartitionCount", "LeaderCount"))
_NO_REPLICAS: Final = (0,) * len(_GAUGES)
_NO_TRAFFIC: Final = (0,) * 7
_NONE: Final = (None,)


class _Moment(NamedTuple):
    now_ms: MonotonicMs
    wall_ms: WallMs


class DueTopic(NamedTuple):
    """The figures of a topic's record, and the length of the interval that ends then."""

    figures: TopicFigures
    wall_ms: WallMs
    interval_ms: int


class TopicIntervals:
    """Decides which topics need a record.

    Topics that have changed get one for the interval, the others once a minute one for the whole
    time since their last record. So the records of a topic with a replica here cover its time
    without gaps. Owned by the broker's thread.
    """

    def __init__(self, table: TopicTable, now_ms: MonotonicMs, wall_ms: WallMs) -> None:
        """The first interval begins now."""
        self._table = table
        self._looked = _Moment(now_ms, wall_ms)
        self._recorded: dict[str, _RecordedTopic] = {}

    def look(self, now_ms: MonotonicMs, wall_ms: WallMs) -> Iterator[DueTopic | None]:
        """The records of the interval that ends now; None for each topic without one."""
        began, now = self._looked, _Moment(now_ms, wall_ms)
        self._looked = now
        before, self._recorded = self._recorded, {}
        for counters in self._table.with_place():
            recorded = before.pop(counters.name, None)
            if recorded is not None and recorded.counters is not counters:
                yield from recorded.due(began, now, _NO_REPLICAS)  # deleted and recreated
                recorded = None
            recorded = recorded or _RecordedTopic(counters, began.now_ms)
            self._recorded[counters.name] = recorded
            gauges = tuple(int(counters.gauges[at]) for at in _GAUGES)
            yield from recorded.due(began, now, gauges) or _NONE
        for recorded in before.values():
            yield from recorded.due(began, now, _NO_REPLICAS)


class _RecordedTopic:
    """A topic as of its last record."""

    __slots__ = ("_counts", "_gauges", "_is_own", "_recorded_gauges", "_since_ms", "counters")

    def __init__(self, counters: TopicCounters, since_ms: MonotonicMs) -> None:
        self.counters = counters
        self._counts: tuple[int, ...] = _NO_TRAFFIC
        self._gauges: tuple[int, ...] = _NO_REPLICAS
        self._is_own = counters.name in OWN_TOPICS
        self._since_ms = since_ms
        """The end of the time that its records cover."""
        self._recorded_gauges = _NO_REPLICAS
        """The gauges of the last record."""

    def due(self, began: _Moment, now: _Moment, gauges: tuple[int, ...]) -> list[DueTopic]:
        """The records to write now: up to two, one for the idle time until the last look and one
        for the interval since then.
        """
        counts = _counts_of(self.counters)
        grown = tuple(new - old for new, old in zip(counts, self._counts, strict=True))
        former, self._counts, self._gauges = self._gauges, counts, gauges
        has_grown_itself = self._is_own and gauges[1:] == former[1:]
        if any(grown) or (gauges != former and not has_grown_itself):
            due = [self._record(grown, gauges, now, began.now_ms)]
            if self._since_ms < began.now_ms and any(former):
                due.insert(0, self._record(_NO_TRAFFIC, former, began, self._since_ms))
        elif now.now_ms - self._since_ms < (
            UNCHANGED_MS if gauges == self._recorded_gauges else OWN_MS
        ):
            return []
        else:
            rest = self._record(_NO_TRAFFIC, gauges, now, self._since_ms)
            due = [rest] if any(gauges) else []
        self._since_ms = now.now_ms
        self._recorded_gauges = gauges
        return due

    def _record(
        self,
        counts: tuple[int, ...],
        gauges: tuple[int, ...],
        end: _Moment,
        since_ms: MonotonicMs,
    ) -> DueTopic:
        figures = TopicFigures(self.counters.name, *counts, *gauges)
        return DueTopic(figures, end.wall_ms, end.now_ms - since_ms)


def _counts_of(counters: TopicCounters) -> tuple[int, ...]:
    """The counts in the order of `TopicFigures`."""
    return (
        counters.bytes_in,
        counters.bytes_out,
        counters.messages_in,
        counters.produces + counters.failed_produces,
        counters.failed_produces,
        counters.fetches,
        counters.failed_fetches,
    )
