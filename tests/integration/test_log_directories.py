"""Several log directories of a running broker: one fails, and its partitions alone move away."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, partition_state, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
PARTITIONS = 4


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Two brokers of two log directories each; a topic whose partitions broker 0 leads."""
    made = new_cluster(
        brokers=2,
        overrides={
            "log.dirs": "disk1,disk2",
            "replica.high.watermark.checkpoint.interval.ms": "200",
        },
    ).start()
    create_topic(made, "t", assignments=[[0, 1]] * PARTITIONS)
    return made


def log_dirs(cluster: Cluster, broker: int) -> list[Path]:
    return [Path(path) for path in cluster.state()["brokers"][broker]["log_dirs"]]


def partitions_in(path: Path) -> set[int]:
    return {int(found.name.removeprefix("t-")) for found in path.glob("t-[0-9]")}


def break_directory(path: Path) -> None:
    """Root may do anything to a file, but finds none below something that is no directory."""
    path.rename(path.with_name("aside"))
    path.write_bytes(b"in the way")


def repair_directory(path: Path) -> None:
    path.unlink()
    path.with_name("aside").rename(path)


def wait_for_leader(cluster: Cluster, partition: int, broker: int) -> None:
    wait_until(
        lambda: leader(cluster, "t", partition, asked=1) == broker, f"another leader of {partition}"
    )


def test_a_failed_directory_takes_only_its_partitions_away_until_it_is_repaired(
    cluster: Cluster,
) -> None:
    recorder = Recorder(cluster, "t", partitions=PARTITIONS)
    recorder.produce("before", 40)
    recorder.flush()
    bad, good = log_dirs(cluster, 0)
    wait_until(lambda: len(partitions_in(bad) | partitions_in(good)) == PARTITIONS, "directories")
    lost, kept = partitions_in(bad), partitions_in(good)
    assert len(lost) == len(kept) == 2

    with recorder.producing("meanwhile", per_second=200):
        break_directory(bad)
        for number in lost:
            wait_for_leader(cluster, number, 1)
            wait_for_isr(cluster, "t", 1, number)
            assert partition_state(cluster, "t", number, asked=1).offline_replicas == (0,)
    for number in kept:
        assert leader(cluster, "t", number) == 0
        assert partition_state(cluster, "t", number, asked=1).offline_replicas == ()
    assert cluster.log_lines(0, "has failed and is not used until the next start")

    # It starts without the directory as well, and does not make its partitions anew elsewhere.
    cluster.restart(0)
    assert cluster.log_lines(0, "its partitions are offline")
    for number in kept:
        wait_for_isr(cluster, "t", 2, number)
    for number in lost:
        wait_until(
            lambda: partition_state(cluster, "t", number, 0).offline_replicas == (0,),  # noqa: B023
            "the restarted broker's replicas to be known as offline",
        )
    assert partitions_in(good) == kept

    cluster.kill(0, stay_down=True)
    repair_directory(bad)
    cluster.restart(0)
    for number in range(PARTITIONS):
        wait_for_isr(cluster, "t", 2, number)
    assert partitions_in(bad) == lost
    assert not recorder.failed
    found = read_all(cluster, "t", PARTITIONS)
    for number in range(PARTITIONS):
        assert recorder.acknowledged[number].items() <= found[number].items()


def test_a_broker_without_a_working_directory_stops_and_says_why(cluster: Cluster) -> None:
    recorder = Recorder(cluster, "t", partitions=PARTITIONS)
    recorder.produce("before", 40)
    recorder.flush()
    for path in log_dirs(cluster, 0):
        break_directory(path)
    for number in range(PARTITIONS):
        wait_for_leader(cluster, number, 1)
    (line, *_) = cluster.log_lines(0, "all log directories have failed")
    assert "cluster.supervisor.processes" in line
    recorder.produce("after", 40)
    recorder.flush()
    assert not recorder.failed
