"""Disks that fill up under a running cluster: leadership moves, clients are told, it passes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.small_disk import MIB, SmallDisk, mounted
from tests.support.topics import create_topic, leader, partition_state, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
DISK_BYTES = 100 * MIB
"""Ten of it are the reserve."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Under the log directory of broker 0 alone."""
    with mounted(tmp_path / "disks" / "broker-0", DISK_BYTES) as made:
        yield made


@pytest.fixture
def cluster(disk: SmallDisk, new_cluster: NewCluster) -> Cluster:
    return new_cluster(overrides={"log.dirs": str(disk.path.parent)}).start()


def test_a_full_broker_gives_its_leaderships_up_and_follows_again_by_itself(
    cluster: Cluster, disk: SmallDisk
) -> None:
    create_topic(cluster, "t", assignments=[[0, 1, 2]], configs={"min.insync.replicas": "2"})
    recorder = Recorder(cluster, "t")
    with recorder.producing("r" * 200, per_second=1_000):
        wait_until(lambda: recorder.acknowledged_count > 100 or None, "the first records")
        disk.fill(left_bytes=2 * MIB)
        wait_until(lambda: leader(cluster, "t", asked=1) in (1, 2) or None, "another leader")
        wait_for_isr(cluster, "t", 2)
        count = recorder.acknowledged_count
        wait_until(lambda: recorder.acknowledged_count > count + 200 or None, "produce to go on")
        assert 0 not in partition_state(cluster, "t", 0, asked=1).isr_nodes
        disk.empty()
        wait_for_isr(cluster, "t", 3)
    assert not recorder.failed
    found = read_all(cluster, "t")
    assert recorder.acknowledged[0].items() <= found[0].items()
    (full,) = cluster.log_lines(0, "is full: ")[:1]
    assert str(disk.path) in full
    assert len(cluster.log_lines(0, "is full: ")) <= 2
    assert not cluster.log_lines(0, "cannot replicate")
    assert cluster.log_lines(0, "has room again")
