"""The request times that the dashboard keeps: five minutes, in little memory."""

import random
import tracemalloc
from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.dashboard.exposition_text import Type
from cluster.dashboard.prometheus_names import Spelled, spelled
from cluster.dashboard.request_times import RecentTimes
from cluster.metrics.histogram import BUCKETS, Histogram
from cluster.metrics.kafka_names import REQUEST_PARTS

APIS = 60


def stats_at(written_ms: int, pid: int = 1) -> Any:
    return SimpleNamespace(pid=pid, started_wall_ms=5, written_ms=written_ms)


def names() -> list[Spelled]:
    return [
        spelled(part.name.replace("<Api>", f"Api{number}"), Type.SUMMARY)
        for number in range(APIS)
        for part in REQUEST_PARTS
    ]


@pytest.mark.slow
def test_hours_of_readings_take_no_more_memory_than_some_minutes() -> None:
    recent, dice = RecentTimes(), random.Random(1)
    present = {name: [0] * BUCKETS for name in names()}

    def read_for(first_ms: int, minutes: int) -> int:
        for at_ms in range(first_ms, first_ms + minutes * 60_000, 30_000):
            for broker in range(3):
                for counts in present.values():
                    counts[dice.randrange(BUCKETS)] += dice.randrange(1_000)
                # Separate number objects, as a reading of a file has.
                told = {
                    name: Histogram(1_000, tuple(array("q", some).tolist()))
                    for name, some in present.items()
                }
                recent.compared(broker, stats_at(at_ms), told)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = read_for(0, 8)
        later = read_for(8 * 60_000, 20)
    finally:
        tracemalloc.stop()
    each = 11 * 3 * len(present)
    assert later < each * 400
    assert later < first * 1.3


def test_unchanged_histogram_is_kept_once() -> None:
    recent = RecentTimes()
    told = {name: Histogram(1_000, (7,) * BUCKETS) for name in names()}
    tracemalloc.start()
    try:
        for at_ms in range(0, 600_000, 30_000):
            recent.compared(0, stats_at(at_ms), told)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 11 * 120 * len(told) + 300 * len(told)
    assert recent.compared(0, stats_at(600_000), told) == told


def test_an_empty_histogram_is_not_kept_and_counts_as_none() -> None:
    recent = RecentTimes()
    name = names()[0]
    recent.compared(0, stats_at(0), {name: Histogram()})
    assert recent.compared(0, stats_at(60_000), {name: Histogram(9, (3, *[0] * 25))}) == {}
