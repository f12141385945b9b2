"""Histograms of the times of a broker's requests, and their recent part. Pure."""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster.dashboard.exposition_text import Type
from cluster.dashboard.prometheus_names import Spelled, spelled
from cluster.metrics.histogram import BUCKETS, Histogram
from cluster.metrics.kafka_names import REQUEST_PARTS
from cluster.metrics.stats_reader import Stats

QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The same as in Kafka's histograms."""
_SPAN_MS: Final = 300_000
"""Kafka's histograms are weighted towards the last five minutes."""
_STEP_MS: Final = 30_000
_PACKED: Final = struct.Struct(f"<{1 + BUCKETS}q")
"""A kept histogram, packed: as objects it would take five times the memory, and a busy broker has
some five hundred in each of eleven readings."""


def request_times(stats: Stats) -> dict[Spelled, Histogram]:
    """Every histogram of a broker, by API and part."""
    return {
        spelled(part.name.replace("<Api>", api), Type.SUMMARY): times[part.key]
        for api, times in stats.requests.items()
        for part in REQUEST_PARTS
        if part.key in times
    }


class _Reading(NamedTuple):
    process: tuple[int, int]
    """Process id and start, which differ after a restart."""
    written_ms: int
    counts: Mapping[Spelled, bytes]
    """Without empty ones. An unchanged histogram is the same object as in the previous reading."""


class RecentTimes:
    """Histograms of the last five minutes, one in half a minute, by broker.

    Several threads may use it: a broker's readings are replaced as a whole.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[_Reading, ...]] = {}

    def compared(
        self, broker: int, stats: Stats, counts: Mapping[Spelled, Histogram]
    ) -> dict[Spelled, Histogram]:
        """Take in a reading; returns the counts of some five minutes ago, or none."""
        process = (stats.pid, stats.started_wall_ms)
        kept = tuple(
            reading for reading in self._kept.get(broker, ()) if reading.process == process
        )
        now_ms = stats.written_ms
        if not kept or now_ms - kept[-1].written_ms >= _STEP_MS:
            last = kept[-1].counts if kept else {}
            kept += (_Reading(process, now_ms, _packed(counts, last)),)
        while len(kept) > 1 and kept[1].written_ms <= now_ms - _SPAN_MS:
            kept = kept[1:]
        self._kept[broker] = kept
        is_old = now_ms - kept[0].written_ms >= _STEP_MS
        return _unpacked(kept[0].counts) if is_old else {}


def _packed(
    counts: Mapping[Spelled, Histogram], last: Mapping[Spelled, bytes]
) -> dict[Spelled, bytes]:
    packed = {}
    for name, histogram in counts.items():
        if any(histogram.counts):
            numbers = _PACKED.pack(histogram.sum_us, *histogram.counts)
            before = last.get(name)
            packed[name] = before if before == numbers and before is not None else numbers
    return packed


def _unpacked(packed: Mapping[Spelled, bytes]) -> dict[Spelled, Histogram]:
    found = {}
    for name, numbers in packed.items():
        sum_us, *counts = _PACKED.unpack(numbers)
        found[name] = Histogram(sum_us, tuple(counts))
    return found
