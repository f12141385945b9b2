"""The metrics of brokers per second, from two readings of their stats files. Pure."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from cluster.metrics.broker_metrics import BROKER_METRICS, BY_KEY
from cluster.metrics.declarations import Metric
from cluster.metrics.histogram import Histogram
from cluster.metrics.kafka_names import TOPIC_METRICS
from cluster.metrics.stats_reader import Stats

_API: Final = re.compile(r"kafka\.network:type=RequestMetrics,name=RequestsPerSec,request=(\w+)")


def metric_values(
    now: Stats, former: Stats | None, metrics: Sequence[Metric] = BROKER_METRICS
) -> dict[str, float]:
    """Gauges by key, and counters as totals, or per second since the earlier reading."""
    if former is None:
        return {each.key: now.values.get(each.name, 0) for each in metrics}
    elapsed_ms = now.written_ms - former.written_ms
    values: dict[str, float] = {}
    for each in metrics:
        value = now.values.get(each.name, 0)
        if each.is_rate:
            value = _per_second(value - former.values.get(each.name, 0), elapsed_ms)
        values[each.key] = value
    return values


def topic_values(now: Stats, former: Stats | None) -> dict[str, dict[str, float]]:
    """Gauges by topic and key, and counters as totals, or per second since `former`."""
    elapsed_ms = 0 if former is None else now.written_ms - former.written_ms
    found: dict[str, dict[str, float]] = {}
    for topic, values in now.topics.items():
        before = {} if former is None else former.topics.get(topic, {})
        found[topic] = {
            metric.key: _per_second(
                max(0, values[metric.key] - before.get(metric.key, 0)), elapsed_ms
            )
            if metric.is_rate and former is not None
            else values[metric.key]
            for metric in TOPIC_METRICS
        }
    return found


def idle_share(now: Stats, former: Stats) -> float | None:
    """The share of the time between two readings in which the broker's thread was idle, from 0 to
    1.
    """
    name = BY_KEY["BusyTimeUs"].name
    elapsed_ms = now.written_ms - former.written_ms
    if elapsed_ms <= 0 or name not in now.values:
        return None
    busy_ms = (now.values[name] - former.values.get(name, 0)) / 1_000
    return min(1.0, max(0.0, 1 - busy_ms / elapsed_ms))


class ApiRate(NamedTuple):
    """One API between two readings. Times are None if no request was timed."""

    api: str
    requests_per_s: float
    p50_ms: float | None
    """Of TotalTimeMs, which includes waiting for replicas or, in a fetch, for data."""
    p95_ms: float | None
    p99_ms: float | None
    local_p50_ms: float | None
    """Of LocalTimeMs, the time of the broker's thread."""
    local_p99_ms: float | None


def api_rates(now: Stats, former: Stats) -> list[ApiRate]:
    """Every API with requests between two readings, the most frequent first."""
    rates = request_changes(now, former)
    ordered = sorted(rates, key=lambda api: (-rates[api], api))
    found = []
    for api in ordered:
        total = _times(now, former, api, "TotalTimeMs")
        local = _times(now, former, api, "LocalTimeMs")
        quantiles = [(total, 0.5), (total, 0.95), (total, 0.99), (local, 0.5), (local, 0.99)]
        found.append(ApiRate(api, rates[api], *(_quantile_ms(*each) for each in quantiles)))
    return found


def request_changes(now: Stats, former: Stats | None) -> dict[str, float]:
    """Requests by API, for APIs with requests: per second since `former`, or in total."""
    changes: dict[str, float] = {}
    for name, value in now.values.items():
        if found := _API.fullmatch(name):
            change = value - (0 if former is None else former.values.get(name, 0))
            if change > 0:
                changes[found[1]] = change
    if former is not None:
        elapsed_ms = now.written_ms - former.written_ms
        changes = {api: _per_second(change, elapsed_ms) for api, change in changes.items()}
    return changes


def _times(now: Stats, former: Stats, api: str, part: str) -> Histogram:
    before = former.requests.get(api, {}).get(part)
    return now.requests.get(api, {}).get(part, Histogram()).since(before)


def _quantile_ms(times: Histogram, fraction: float) -> float | None:
    return times.quantile_us(fraction) / 1_000 if any(times.counts) else None


def _per_second(change: float, elapsed_ms: float) -> float:
    return round(change * 1_000 / elapsed_ms, 3) if elapsed_ms > 0 else 0.0


class PastReadings:
    """The readings of some seconds, so that rates do not depend on other readers.

    It keeps only what rates need: not clients and groups, which may take megabytes. Not
    thread-safe.
    """

    def __init__(self, span_ms: int) -> None:
        """`span_ms` is the approximate time that rates cover."""
        self._span_ms = span_ms
        self._kept: dict[int, deque[Stats]] = {}

    def add(self, broker: int, stats: Stats) -> Stats | None:
        """Add a reading; returns the one to compare it with, or None if there is none yet.

        That is the newest one that is at least as old as the span, or else the oldest, of the same
        process and at least half of the span ago.
        """
        kept = self._kept.setdefault(broker, deque())
        if kept and (kept[-1].pid, kept[-1].started_wall_ms) != (stats.pid, stats.started_wall_ms):
            kept.clear()
        if not kept or stats.written_ms > kept[-1].written_ms:
            kept.append(replace(stats, rows=[], groups=b""))
        while len(kept) > 1 and kept[1].written_ms <= stats.written_ms - self._span_ms:
            kept.popleft()
        is_enough = stats.written_ms - kept[0].written_ms >= self._span_ms / 2
        return kept[0] if is_enough else None
