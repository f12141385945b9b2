"""What the replicas of a partition have on disk, once their brokers have stopped."""

from cluster.log.checkpoints import HIGH_WATERMARKS, read_offsets
from cluster.model.ids import TopicPartition
from cluster.records.batch import batches_of
from tests.support.running_cluster import Cluster


def high_watermark(cluster: Cluster, broker: int, topic: str, partition: int = 0) -> int:
    """What one replica wrote down when it stopped."""
    offsets = read_offsets(cluster.log_dir(broker) / HIGH_WATERMARKS)
    return offsets[TopicPartition(topic, partition)]


def log_bytes(
    cluster: Cluster, broker: int, topic: str, partition: int = 0, below: int | None = None
) -> bytes:
    """The batches of one replica below an offset, its segments one after the other."""
    directory = cluster.log_dir(broker) / f"{topic}-{partition}"
    files = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    return b"".join(
        batch
        for header, batch in batches_of(memoryview(files))
        if below is None or header.last_offset < below
    )


def assert_replicas_are_equal(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    """Byte for byte up to the high watermark; the cluster is stopped, all were in sync."""
    for partition in range(partitions):
        marks = [high_watermark(cluster, b, topic, partition) for b in range(cluster.size)]
        replicas = [
            log_bytes(cluster, broker, topic, partition, below=max(marks))
            for broker in range(cluster.size)
        ]
        assert replicas[0]
        assert len(set(replicas)) == 1, (partition, marks, [len(one) for one in replicas])
