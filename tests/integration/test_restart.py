"""A cluster that stops, cleanly or not, still has what it acknowledged when it starts again."""

from collections.abc import Callable

import pytest

from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

PARTITIONS = 3


def test_every_record_survives_a_clean_restart(new_cluster: NewCluster) -> None:
    # The default preallocation: 16 MiB steps, cut off again at the stop.
    cluster = new_cluster(overrides={"milena.log.preallocate.step.bytes": "16777216"}).start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    recorder = Recorder(cluster, topic, partitions=PARTITIONS)
    recorder.produce("first", 3000)
    recorder.flush()

    cluster.stop()
    sizes = [path.stat().st_size for path in cluster.data_dir.glob("broker-*/orders-*/*.log")]
    assert len(sizes) == 3 * PARTITIONS
    assert max(sizes) < 1_000_000
    cluster.start()

    assert read_all(cluster, topic, PARTITIONS) == recorder.acknowledged
    second = Recorder(cluster, topic, partitions=PARTITIONS)
    second.produce("second", 300)
    second.flush()
    for partition, offsets in second.acknowledged.items():
        assert min(offsets) == 1000
        assert max(offsets) == 1099
        assert read_all(cluster, topic, PARTITIONS)[partition] == {
            **recorder.acknowledged[partition],
            **offsets,
        }
    assert recorder.failed == second.failed == []


def test_idempotent_producer_lives_through_a_clean_restart(new_cluster: NewCluster) -> None:
    """It has batches in flight at the stop: some are appended without an answer, and repeated."""
    cluster = new_cluster(overrides={"min.insync.replicas": "2"}).start()
    topic = create_topic(cluster, "orders")
    recorder = Recorder(cluster, topic, enable_idempotence=True, batch_num_messages=2)
    with recorder.producing("record"):
        wait_until(lambda: recorder.acknowledged_count > 300, "load")
        cluster.stop()
        cluster.start()

    assert recorder.failed == []
    read = read_all(cluster, topic)[0]
    assert recorder.acknowledged[0].items() <= read.items()
    assert list(read.values()) == recorder.sent[0]


@pytest.mark.parametrize("idempotent", [False, True])
def test_every_acknowledged_record_survives_kill_9_of_everything(
    new_cluster: NewCluster, idempotent: bool
) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    recorder = Recorder(cluster, topic, partitions=PARTITIONS, enable_idempotence=idempotent)
    recorder.produce("before", 6000)
    wait_until(lambda: recorder.acknowledged_count > 2000, "some to be acknowledged")

    cluster.kill_everything()
    cluster.start()
    recorder.produce("after", 30)
    recorder.flush()

    assert recorder.failed == []
    read = read_all(cluster, topic, PARTITIONS)
    for partition, offsets in recorder.acknowledged.items():
        assert offsets.items() <= read[partition].items()
        values = list(read[partition].values())
        assert set(values) == set(recorder.sent[partition])
        if idempotent:
            assert values == recorder.sent[partition]
    wait_for_isr(cluster, topic, 3)


def test_acknowledged_records_survive_several_kills_and_restarts(new_cluster: NewCluster) -> None:
    cluster = new_cluster().start()
    topic = create_topic(cluster, "orders", partitions=PARTITIONS)
    recorder = Recorder(cluster, topic, partitions=PARTITIONS)
    for turn in range(3):
        recorder.produce(f"turn{turn}", 300)
        recorder.flush()
        cluster.kill_everything()
        cluster.start()

    assert recorder.failed == []
    read = read_all(cluster, topic, PARTITIONS)
    for partition, offsets in recorder.acknowledged.items():
        assert offsets.items() <= read[partition].items()
    assert sum(map(len, read.values())) >= 900
