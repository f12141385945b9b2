"""How long partitions of a coordinator took to load."""

from cluster.coordinator.shards.load_times import WINDOW_MS, LoadTimes
from cluster.model.clocks import MonotonicMs


def at(ms: int) -> MonotonicMs:
    return MonotonicMs(ms)


def test_loads_count_for_the_window() -> None:
    times = LoadTimes()
    assert times.figures(at(0)) == (0, 0.0)
    times.add(300, at(1_000))
    times.add(100, at(2_000))
    assert times.figures(at(2_000)) == (300, 200.0)
    assert times.figures(at(1_000 + WINDOW_MS)) == (100, 100.0)
    assert times.figures(at(2_000 + WINDOW_MS)) == (0, 0.0)
