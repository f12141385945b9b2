"""Several log directories of a running broker: one fails, and its partitions alone move away."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.client.log_dir_requests import describe_log_dirs
from cluster.client.socket_client import SocketClient
from cluster.model.errors import UserError
from cluster.protocol.api import ApiKey
from tests.support.kafka_wire import WireClient, request
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
    """Root may do anything to a file, but finds none below something that is not a directory."""
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
    (line, *_) = wait_until(
        lambda: cluster.log_lines(0, "all log directories have failed") or None, "the reason"
    )
    assert "cluster.supervisor.processes" in line
    recorder.produce("after", 40)
    recorder.flush()
    assert not recorder.failed


def alter(cluster: Cluster, broker: int, path: Path, partition: int = 0) -> int:
    with WireClient(cluster.addresses[broker]) as client:
        answer = client.call(
            request(
                ApiKey.ALTER_REPLICA_LOG_DIRS,
                2,
                dirs=[{"path": str(path), "topics": [{"name": "t", "partitions": [partition]}]}],
            )
        )
    return int(answer.results[0].partitions[0].error_code)


def place_of(cluster: Cluster, broker: int) -> list[tuple[Path, bool]]:
    """The directories in which a replica of t-0 is, each with whether it is being moved there.

    Asked without a command, whose start may take as long as the move. Empty while it is down.
    """
    try:
        with SocketClient.connect([cluster.addresses[broker]], "test") as client:
            directories = describe_log_dirs(client, ["t"])
    except UserError:
        return []
    return [(Path(one.path), row.is_future) for one in directories for row in one.replicas]


def place_by_command(cluster: Cluster, broker: int) -> list[tuple[Path, bool]]:
    """The same, as `log-dirs` tells it."""
    told = cluster.command("log-dirs", "--describe", "--json", "--broker-list", str(broker))
    (answer,) = json.loads(told.stdout)["brokers"]
    return [
        (Path(directory["logDir"]), row["isFuture"])
        for directory in answer["logDirs"]
        for row in directory["partitions"]
        if row["partition"] == "t-0"
    ]


def batches_in(path: Path) -> bytes:
    """After a clean stop, when no file has space allocated ahead."""
    return b"".join(file.read_bytes() for file in sorted(path.glob("*.log")))


@pytest.fixture
def slow_cluster(new_cluster: NewCluster) -> Cluster:
    """A cluster in which moving a replica takes a while."""
    made = new_cluster(
        brokers=2,
        overrides={
            "log.dirs": "disk1,disk2",
            "log.segment.bytes": "1000000",
            "replica.alter.log.dirs.io.max.bytes.per.second": "4000000",
        },
    ).start()
    create_topic(made, "t", assignments=[[0, 1]])
    return made


def test_a_replica_moves_while_it_is_written_and_a_crash_does_not_stop_it(
    slow_cluster: Cluster,
) -> None:
    cluster = slow_cluster
    recorder = Recorder(cluster, "t")
    recorder.produce("before" * 100, 10_000)
    recorder.flush()
    ((source, _),) = place_of(cluster, 0)
    (target,) = (path for path in log_dirs(cluster, 0) if path != source)

    with recorder.producing("meanwhile", per_second=500):
        assert alter(cluster, 0, target) == 0
        assert sorted(place_of(cluster, 0)) == sorted([(source, False), (target, True)])
        cluster.kill(0)
        wait_until(
            lambda: cluster.log_lines(0, "moving it to"), "the restarted broker to go on with it"
        )
        wait_until(lambda: place_of(cluster, 0) == [(target, False)], "the move")
        wait_for_isr(cluster, "t", 2)
        assert alter(cluster, 0, source) == 0
        wait_until(lambda: place_of(cluster, 0) == [(source, False)], "the way back")

    assert not recorder.failed
    found = read_all(cluster, "t")
    assert recorder.acknowledged[0].items() <= found[0].items()
    # Its files are kept for a while under another name, as those of a deleted topic.
    wait_until(lambda: not (target / "t-0").exists(), "the original to be set aside")
    wait_for_isr(cluster, "t", 2)
    assert place_by_command(cluster, 0) == [(source, False)]
    ((other, _),) = place_of(cluster, 1)
    cluster.stop()
    assert batches_in(source / "t-0") == batches_in(other / "t-0")
