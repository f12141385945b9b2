"""Latency records contain the timed requests of an interval, computed from growing totals."""

from cluster.brokers.metrics.latency_intervals import LatencyIntervals
from cluster.brokers.metrics.records import LatencyFigures
from cluster.brokers.metrics.request_times import RequestTimes
from cluster.metrics.histogram import BUCKETS
from cluster.metrics.mmap_stats import MmapStats
from cluster.protocol.api import ApiKey


class World:
    def __init__(self) -> None:
        self.times = RequestTimes(MmapStats.in_memory(), [ApiKey.PRODUCE, ApiKey.FETCH])
        self.intervals = LatencyIntervals(self.times)

    def note(self, api: ApiKey, duration_us: int, weight: int = 1) -> None:
        end_ns = 1_000 * duration_us
        self.times.note(api, weight, 0, 0, 0, 0, 99, 0, end_ns)

    def take(self) -> list[LatencyFigures]:
        self.times.store()
        return self.intervals.take()


def test_intervals_contain_only_apis_with_requests():
    world = World()
    assert world.take() == []
    world.note(ApiKey.PRODUCE, 0)
    world.note(ApiKey.PRODUCE, 5)
    world.note(ApiKey.FETCH, 1)
    assert world.take() == [
        LatencyFigures("Produce", 2, 5, [1, 0, 0, 1]),
        LatencyFigures("FetchConsumer", 1, 1, [0, 1]),
    ]
    assert world.take() == []
    world.note(ApiKey.PRODUCE, 4)
    assert world.take() == [LatencyFigures("Produce", 1, 4, [0, 0, 0, 1])]


def test_timed_request_counts_with_its_weight():
    world = World()
    world.note(ApiKey.PRODUCE, 3, weight=64)
    assert world.take() == [LatencyFigures("Produce", 64, 192, [0, 0, 64])]


def test_longest_requests_are_in_the_last_bucket():
    world = World()
    world.note(ApiKey.PRODUCE, 10**9)
    (figures,) = world.take()
    assert len(figures.buckets) == BUCKETS
    assert figures.buckets[-1] == 1


def test_ticks_between_two_intervals_lose_nothing():
    world = World()
    world.note(ApiKey.PRODUCE, 1)
    world.times.store()
    world.times.store()
    world.note(ApiKey.FETCH, 1)
    assert [each.api for each in world.take()] == ["Produce", "FetchConsumer"]
