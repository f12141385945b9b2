"""Disks that fill up under a running cluster: leadership moves, clients are told, it passes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.model.errors import ErrorCode
from cluster.records.builder import NewRecord, build_batch
from tests.support.kafka_wire import WireClient, produce_to
from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster, CommandFailed
from tests.support.small_disk import MIB, SmallDisk, mounted
from tests.support.topics import create_topic, leader, partition_state, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
DISK_BYTES = 100 * MIB
"""Ten of it are the reserve."""


SHARED_BYTES = 120 * MIB


@pytest.fixture
def shared_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Under everything that the first cluster has."""
    with mounted(tmp_path / "cluster0", SHARED_BYTES) as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Under the log directory of broker 0 alone."""
    with mounted(tmp_path / "disks" / "broker-0", DISK_BYTES) as made:
        yield made


@pytest.fixture
def cluster(disk: SmallDisk, new_cluster: NewCluster) -> Cluster:
    return new_cluster(overrides={"log.dirs": str(disk.path.parent)}).start()


def test_broker_with_a_full_disk_resigns_leaderships_and_follows_once_there_is_room(
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
        wait_until(lambda: leader(cluster, "t", asked=1) == 0 or None, "its leadership again")
    assert not recorder.failed
    found = read_all(cluster, "t")
    assert recorder.acknowledged[0].items() <= found[0].items()
    (full,) = cluster.log_lines(0, "is full: ")[:1]
    assert str(disk.path) in full
    assert len(cluster.log_lines(0, "is full: ")) <= 2
    assert not cluster.log_lines(0, "cannot replicate")
    assert cluster.log_lines(0, "has room again")


def produce_one(cluster: Cluster, topic: str, timeout_ms: int = 10_000) -> tuple[ErrorCode, str]:
    """The answer to half a MiB with acks=all."""
    batch = bytes(build_batch([NewRecord(bytes(MIB // 2))]))
    broker = leader(cluster, topic)
    with WireClient(cluster.addresses[broker]) as client:
        request = produce_to((topic, 0, batch), acks=-1, timeout_ms=timeout_ms)
        answer = client.call(request).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.error_message or ""


def is_done(cluster: Cluster, *command: str) -> bool:
    try:
        cluster.command(*command)
    except CommandFailed:
        return False
    return True


def refused(cluster: Cluster, *command: str) -> str:
    with pytest.raises(CommandFailed) as failed:
        cluster.command(*command)
    return str(failed.value)


def test_cluster_on_one_full_disk_reports_it_and_recovers_when_topics_are_deleted(
    shared_disk: SmallDisk, new_cluster: NewCluster
) -> None:
    cluster = new_cluster().start()
    for topic in ("one", "two"):
        create_topic(cluster, topic, configs={"min.insync.replicas": "2"})
    full: tuple[ErrorCode, str] | None = None
    for _ in range(SHARED_BYTES // MIB):
        code, message = produce_one(cluster, "one")
        if code is ErrorCode.kafka_storage_error:
            full = code, message
            break
        assert code in (ErrorCode.none, ErrorCode.not_leader_or_follower), message
    assert full is not None
    wait_until(lambda: produce_one(cluster, "two")[1] or None, "the other topic to be refused")
    code, message = produce_one(cluster, "one")
    assert code is ErrorCode.kafka_storage_error
    assert f"log directory {shared_disk.path}/broker-" in message
    assert "MiB of 120.0 MiB are free, 12.0 MiB of that is the reserve" in message
    assert shared_disk.free_bytes > 6 * MIB
    assert len(partition_state(cluster, "one", 0, asked=0).isr_nodes) == 3

    # Each broker's figures are up to a second old.
    all_full = "log directories of brokers 0, 1 and 2 are full: "
    wait_until(
        lambda: all_full in cluster.command("status", "--check", check=False).stdout or None,
        "every broker to report its full directory",
    )
    status = cluster.command("status").stdout
    assert ": degraded, " in status
    assert f"of 120.0 MiB are free in {shared_disk.path}/broker-0" in status
    checked = cluster.command("status", "--check", check=False)
    assert (checked.returncode, checked.stdout.count("\n")) == (3, 1)
    assert all_full in checked.stdout

    said = refused(cluster, "topics", "--create", "--topic", "three", "--partitions", "1")
    assert "there is no room for a new partition: broker " in said
    assert "of 120.0 MiB are free" in said
    assert "Not controller" not in said

    cluster.command("topics", "--delete", "--topic", "one")
    wait_until(lambda: shared_disk.free_bytes > 40 * MIB or None, "room")
    wait_until(lambda: produce_one(cluster, "two")[0] is ErrorCode.none or None, "records")
    create = ("topics", "--create", "--topic", "three", "--partitions", "1")
    wait_until(lambda: is_done(cluster, *create) or None, "every broker to have room")
    assert cluster.log_lines(0, "has room again")
    assert len(cluster.log_lines(0, "cannot write metric records")) <= 2
    wait_until(lambda: is_done(cluster, "status", "--check") or None, "the cluster to be up")


def test_records_deleted_on_a_full_disk_make_room(
    shared_disk: SmallDisk, new_cluster: NewCluster
) -> None:
    cluster = new_cluster().start()
    create_topic(cluster, "t", configs={"segment.bytes": str(2 * MIB)})
    wait_until(
        lambda: produce_one(cluster, "t")[0] is ErrorCode.kafka_storage_error or None,
        "the disk to be full",
    )
    cluster.command("delete-records", "--topic", "t", "--partition", "0", "--before-offset=-1")
    wait_until(lambda: produce_one(cluster, "t")[0] is ErrorCode.none or None, "records")


def test_registry_on_a_full_disk_refuses_writes_with_a_reason_and_deletes_topics(
    shared_disk: SmallDisk, new_cluster: NewCluster
) -> None:
    """Somebody else has filled it."""
    cluster = new_cluster().start()
    create_topic(cluster, "t")
    shared_disk.fill(left_bytes=2 * MIB)
    quota = ("quotas", "set", "--client-id", "c", "--producer-byte-rate", "1MiB")
    said = wait_until(
        lambda: None if is_done(cluster, *quota) else refused(cluster, *quota), "a full registry"
    )
    assert "the disk of the registry is full, and nothing was changed" in said
    assert "the registry's disk is full: " in cluster.command("status").stdout
    cluster.command("topics", "--delete", "--topic", "t")
    shared_disk.empty()
    wait_until(lambda: is_done(cluster, *quota) or None, "the registry to take it")


def test_start_on_a_disk_that_is_too_small_says_so_in_a_line(
    tmp_path: Path, new_cluster: NewCluster
) -> None:
    with mounted(tmp_path / "cluster0", 8 * MIB):
        cluster = new_cluster()
        done = cluster.command("start", "--detach", *cluster.start_options, check=False)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: there is no room to start: ")
        assert f" of 8.0 MiB are free in {cluster.data_dir}, and 3 brokers need " in line


def test_a_cluster_that_has_filled_its_disk_starts_again(
    shared_disk: SmallDisk, new_cluster: NewCluster
) -> None:
    cluster = new_cluster().start()
    create_topic(cluster, "t")
    wait_until(
        lambda: produce_one(cluster, "t")[0] is ErrorCode.kafka_storage_error or None,
        "the disk to be full",
    )
    cluster.stop()
    shared_disk.fill(left_bytes=5 * MIB)
    done = cluster.command("start", "--detach", *cluster.start_options)
    assert "Warning: the disk is full: " in done.stderr
    wait_until(lambda: produce_one(cluster, "t")[1] or None, "records to be refused")
    cluster.command("topics", "--delete", "--topic", "t")
    shared_disk.empty()
    wait_until(lambda: is_done(cluster, "status", "--check") or None, "the cluster to be up")
