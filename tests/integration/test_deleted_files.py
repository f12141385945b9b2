"""Space of deleted files is given back: no process keeps one open that nobody needs any more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.broker_probes import batch_of, fetched, produced
from tests.support.kafka_wire import WireClient, fetch_request, request
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, describe, leader, unique_name
from tests.support.waiting import wait_until

MIB = 1 << 20
pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that deletes at once what is to be deleted."""
    overrides = {
        "log.retention.check.interval.ms": "200",
        "log.segment.delete.delay.ms": "100",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    with Cluster(tmp_path_factory.mktemp("deleted"), overrides=overrides) as cluster:
        yield cluster


def deleted_files(cluster: Cluster) -> set[str]:
    """What any process of the cluster holds open or mapped although it is deleted."""
    found = set()
    for name, pid in cluster.processes().items():
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(link.readlink())
            except FileNotFoundError:
                continue
            if target.endswith(" (deleted)"):
                found.add(f"{name} {target}")
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        found |= {f"{name} {line.split(maxsplit=5)[5]}" for line in maps if "(deleted)" in line}
    return {each for each in found if str(cluster.data_dir) in each}


def fill(cluster: Cluster, topic: str, size_mib: int) -> None:
    with WireClient(cluster.addresses[leader(cluster, topic)]) as producer:
        for number in range(2 * size_mib):
            batch = bytes(batch_of(b"%d" % number + b"x" * (MIB // 2)))
            assert produced(producer, topic, batch, acks=-1).error_code == ErrorCode.none


def are_none_left(cluster: Cluster) -> bool:
    return not deleted_files(cluster)


def test_deleting_a_topic_frees_its_disk_space(quick: Cluster) -> None:
    topic = create_topic(quick, unique_name("gone"), configs={"segment.bytes": str(2 * MIB)})
    fill(quick, topic, 12)
    address = quick.addresses[leader(quick, topic)]
    with WireClient(address) as reader:
        assert fetched(reader, topic, 3).high_watermark == 24
        delete = request(
            ApiKey.DELETE_TOPICS,
            6,
            topics=[{"name": topic, "topic_id": None}],
            timeout=30_000,
        )
        with WireClient(quick.addresses[describe(address).controller_id]) as client:
            assert client.call(delete).responses[0].error_code == ErrorCode.none

        def is_removed() -> bool:
            return not any(list(quick.log_dir(b).glob(f"{topic}-*")) for b in range(quick.size))

        wait_until(is_removed, "its directories to be removed")
        wait_until(lambda: are_none_left(quick), "its files to be closed")


def test_segments_deleted_by_retention_free_their_disk_space(quick: Cluster) -> None:
    configs = {"segment.bytes": str(2 * MIB), "retention.bytes": str(3 * MIB)}
    topic = create_topic(quick, unique_name("short"), configs=configs)
    fill(quick, topic, 16)

    def is_cut() -> bool:
        directories = [quick.log_dir(broker) / f"{topic}-0" for broker in range(quick.size)]
        try:
            sizes = [
                sum(path.stat().st_size for path in each.glob("*.log*")) for each in directories
            ]
        except FileNotFoundError:
            return False  # removed in between
        return max(sizes) < 8 * MIB

    wait_until(is_cut, "old segments to be removed")
    wait_until(lambda: are_none_left(quick), "their files to be closed")


def test_a_consumer_that_does_not_read_keeps_no_deleted_segment(quick: Cluster) -> None:
    topic = create_topic(quick, unique_name("slow"), configs={"segment.bytes": str(8 * MIB)})
    fill(quick, topic, 12)
    address = quick.addresses[leader(quick, topic)]
    with WireClient(address, receive_buffer=4_096) as slow, WireClient(address) as other:
        slow.send(fetch_request(topic, 0, max_bytes=8 * MIB))
        fields = {"partition_index": 0, "offset": -1}
        cut = request(
            ApiKey.DELETE_RECORDS,
            2,
            topics=[{"name": topic, "partitions": [fields]}],
            timeout=30_000,
        )
        answer = other.call(cut)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.none
        wait_until(lambda: deleted_files(quick), "the first segment to be deleted")
        wait_until(lambda: are_none_left(quick), "its file to be closed")
