"""Brokers as their stats files show them."""

from pathlib import Path

from cluster.datadir.paths import DataDir
from cluster.metrics.mmap_stats import MmapStats
from cluster.views.client_states import ALIVE, read_brokers


def test_a_broker_that_has_not_written_its_first_figures_is_not_silent(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.run.mkdir(parents=True)
    MmapStats.create(data_dir.run / "broker-3.stats", "broker-3", 1_000)
    (broker,) = read_brokers(data_dir)
    assert (broker.broker, broker.state, broker.age_ms) == (3, ALIVE, 0)
