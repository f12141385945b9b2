"""Compacted topics on real brokers, each of which cleans by itself and may be killed meanwhile."""

from collections.abc import Callable

from tests.support.keyed_records import KeyedWriter, newest_of, read_partition
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

OFTEN = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "500"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "5000",
    "min.cleanable.dirty.ratio": "0.1",
    "file.delete.delay.ms": "500",
}
KEYS = 10


def wait_until_cleaned(cluster: Cluster, topic: str, broker: int, most_bytes: int) -> None:
    """Until a replica's closed segments take no more than that."""
    directory = cluster.log_dir(broker) / f"{topic}-0"

    def size() -> int:
        closed = sorted(path for path in directory.iterdir() if path.suffix == ".log")[:-1]
        return sum(path.stat().st_size for path in closed)

    def is_small() -> bool:
        try:
            return size() <= most_bytes
        except FileNotFoundError:
            return False  # renamed in between

    wait_until(is_small, f"compaction on broker {broker}")


def test_every_replica_is_compacted_and_readers_get_the_newest_values(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(brokers=3, overrides=OFTEN).start()
    topic = create_topic(cluster, configs=COMPACTED)
    writer = KeyedWriter(cluster.bootstrap, topic)
    for _ in range(3):
        writer.write(400, KEYS)
    writer.put(b"key-3", None)
    writer.flush()
    for broker in range(3):
        wait_until_cleaned(cluster, topic, broker, 20_000)

    read = read_partition(cluster.bootstrap, topic)
    assert newest_of(read) == writer.newest
    assert len(read) < 600
    for broker in range(3):
        assert any("cleaned, dirty section" in line for line in cluster.log_lines(broker, "INFO"))
        assert cluster.log_lines(broker, "WARNING") == []

    # A follower that has lost everything gets it all again, over the gaps.
    follower = next(broker for broker in range(3) if broker != leader(cluster, topic))
    cluster.kill(follower, stay_down=True)
    wait_until(lambda: cluster.pid(follower) is None, "the follower's end")
    directory = cluster.log_dir(follower) / f"{topic}-0"
    for path in directory.iterdir():
        path.unlink()
    cluster.restart(follower)
    wait_for_isr(cluster, topic, 3)


def test_kills_during_compaction_lose_and_duplicate_no_record(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=3, overrides=OFTEN).start()
    topic = create_topic(cluster, configs=COMPACTED)
    writers = [
        KeyedWriter(cluster.bootstrap, topic, compression_type=codec) for codec in ("none", "zstd")
    ]
    for victim in (0, 1, 2):
        for writer in writers:
            writer.newest.clear()
        # Keys of their own: what the two write in between has no order.
        for number, writer in enumerate(writers):
            writer.write(300, KEYS + number)
        cluster.kill(victim)
        for number, writer in enumerate(writers):
            writer.write(300, KEYS + number)
        wait_for_isr(cluster, topic, 3)
    for broker in range(3):
        wait_until_cleaned(cluster, topic, broker, 30_000)

    read = read_partition(cluster.bootstrap, topic)
    offsets = [offset for offset, _, _, _ in read]
    assert offsets == sorted(set(offsets))
    assert newest_of(read) == writers[0].newest | writers[1].newest


def test_topic_with_both_cleanup_policies_is_compacted_and_deleted(new_cluster: NewCluster) -> None:
    cluster = new_cluster(brokers=1, overrides=OFTEN).start()
    configs = COMPACTED | {"cleanup.policy": "compact,delete", "retention.bytes": "15000"}
    topic = create_topic(cluster, replication_factor=1, configs=configs)
    writer = KeyedWriter(cluster.bootstrap, topic)
    writer.write(400, keys=400)
    wait_until(
        lambda: read_partition(cluster.bootstrap, topic)[0][0] > 0, "the oldest segments to go"
    )
    read = read_partition(cluster.bootstrap, topic)
    assert newest_of(read).items() <= writer.newest.items()
    assert read[-1][0] == 399
