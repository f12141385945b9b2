"""Disks that are wiped, not mounted, rolled back or lose a replica: while one disk of a former
in-sync replica survives, every acknowledged record does.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
TWO = {"min.insync.replicas": "2"}
COUNT = 300


def fill(cluster: Cluster, topic: str = "t", partitions: int = 3) -> Recorder:
    """A topic of three replicas with acknowledged records."""
    create_topic(cluster, topic, partitions=partitions)
    recorder = Recorder(cluster, topic, partitions=partitions)
    recorder.produce("before", COUNT)
    recorder.flush()
    assert recorder.acknowledged_count == COUNT
    return recorder


def assert_whole(cluster: Cluster, recorder: Recorder, topic: str = "t") -> None:
    """Every replica is in sync again, and every acknowledged record is there."""
    partitions = len(recorder.acknowledged)
    for number in range(partitions):
        wait_for_isr(cluster, topic, 3, number)
    found = read_all(cluster, topic, partitions)
    for number, records in recorder.acknowledged.items():
        assert found[number].items() >= records.items()


def remove_replicas(log_dir: Path) -> None:
    """The directories of all partitions, under an intact `meta.properties`."""
    for path in log_dir.glob("t-[0-9]"):
        shutil.rmtree(path)


@pytest.mark.parametrize("broker", [0, 1, 2])
@pytest.mark.parametrize("lose", [shutil.rmtree, remove_replicas])
def test_no_record_is_lost_when_a_stopped_cluster_loses_one_disk(
    new_cluster: NewCluster, broker: int, lose: Callable[[Path], None]
) -> None:
    """Also where one in-sync replica is enough: a stop of all leaves every ISR as it is."""
    cluster = new_cluster().start()
    recorder = fill(cluster)
    cluster.stop()
    lose(cluster.log_dir(broker))
    cluster.start()
    assert_whole(cluster, recorder)
    assert any("count as lost" in line for line in cluster.log_lines(broker, "ERROR"))


def test_no_record_is_lost_when_a_killed_cluster_loses_one_disk(new_cluster: NewCluster) -> None:
    cluster = new_cluster(overrides=TWO).start()
    recorder = fill(cluster)
    cluster.kill_everything()
    shutil.rmtree(cluster.log_dir(0))
    cluster.start()
    assert_whole(cluster, recorder)


@pytest.mark.parametrize("is_clean", [True, False])
def test_no_record_is_lost_when_a_disk_is_rolled_back(
    new_cluster: NewCluster, tmp_path: Path, is_clean: bool
) -> None:
    cluster = new_cluster(overrides=TWO).start()
    recorder = fill(cluster)
    copies = [tmp_path / f"copy{broker}" for broker in range(3)]
    for broker, copy in enumerate(copies):
        shutil.copytree(cluster.log_dir(broker), copy)
    recorder.produce("after", COUNT)
    recorder.flush()
    if is_clean:
        cluster.stop()
    else:
        cluster.kill_everything()
    shutil.rmtree(cluster.log_dir(2))
    copies[2].rename(cluster.log_dir(2))
    cluster.start()
    assert_whole(cluster, recorder)
    assert cluster.log_lines(2, "logs may be short")


def test_no_record_is_lost_when_one_of_two_log_directories_is_not_mounted(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides={**TWO, "log.dirs": "disk1,disk2"}).start()
    recorder = fill(cluster, partitions=6)
    log_dirs = [Path(path) for path in cluster.state()["brokers"][2]["log_dirs"]]
    cluster.stop()
    log_dirs[1].rename(log_dirs[1].with_name("elsewhere"))
    cluster.start()
    assert_whole(cluster, recorder)


def test_replicas_lead_again_when_their_disk_is_mounted_later(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(brokers=1).start()
    create_topic(cluster, "t", assignments=[[0]])
    recorder = Recorder(cluster, "t")
    recorder.produce("before", COUNT)
    recorder.flush()
    cluster.stop()
    disk = cluster.log_dir(0)
    disk.rename(disk.with_name("elsewhere"))
    cluster.start()
    wait_until(lambda: told(cluster), "a line that says so")
    assert "Mount or restore them" in told(cluster)[0]
    cluster.stop()
    shutil.rmtree(disk)
    disk.with_name("elsewhere").rename(disk)
    cluster.start()
    wait_until(lambda: leader(cluster, "t") == 0, "a leader with all records")
    assert len(read_all(cluster, "t")[0]) == COUNT


def test_partition_stays_without_leader_when_no_replica_has_its_records(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(brokers=2).start()
    create_topic(cluster, "t", assignments=[[0]])
    recorder = Recorder(cluster, "t")
    recorder.produce("gone", 10)
    recorder.flush()
    cluster.stop()
    shutil.rmtree(cluster.log_dir(0))
    cluster.start()
    wait_until(lambda: told(cluster), "a line that says so")
    assert leader(cluster, "t") == -1
    cluster.restart(0)  # which does not make it forget
    assert leader(cluster, "t") == -1
    cluster.command(
        "partitions",
        "elect-leaders",
        *("--election-type", "unclean"),
        *("--topic", "t"),
        *("--partition", "0"),
    )
    wait_until(lambda: leader(cluster, "t") == 0, "a leader, with what there is")
    recorder.produce("anew", 10)
    recorder.flush()
    assert len(read_all(cluster, "t")[0]) == 10


def test_leader_whose_log_is_removed_is_replaced_without_loss(new_cluster: NewCluster) -> None:
    cluster = new_cluster(overrides=TWO).start()
    create_topic(cluster, "t", assignments=[[0, 1, 2]], configs={"segment.bytes": "2000"})
    recorder = Recorder(cluster, "t", batch_size=500)
    recorder.produce("before", 10)
    recorder.flush()
    shutil.rmtree(cluster.log_dir(0) / "t-0")
    recorder.produce("meanwhile", COUNT)  # until its next segment cannot be made
    recorder.flush()
    assert not recorder.failed
    wait_until(lambda: leader(cluster, "t", asked=1) in (1, 2), "another leader")
    (line,) = cluster.log_lines(0, "its directory was removed")
    assert "ERROR" in line
    cluster.restart(0)
    assert_whole(cluster, recorder)


def told(cluster: Cluster) -> list[str]:
    """What the controller says of partitions that wait."""
    return [
        line
        for broker in range(cluster.size)
        for line in cluster.log_lines(broker, "t-0 has no leader")
    ]
