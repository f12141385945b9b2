"""Bytes of logs that go bad under running brokers: never served, and repaired from a replica."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from cluster.records.batch import read_header
from tests.support.recording_producer import Recorder, read_all
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, wait_for_isr
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]

SMALL_SEGMENTS = {"log.segment.bytes": "20000", "milena.log.scrub.interval.ms": "0"}
SCRUBBED = SMALL_SEGMENTS | {"milena.log.scrub.interval.ms": "1000"}

OFFSETS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "3000",
    "log.cleaner.enable": "false",
    "milena.log.scrub.interval.ms": "0",
}


def segments(cluster: Cluster, broker: int, topic: str) -> list[Path]:
    """The closed ones."""
    return sorted((cluster.log_dir(broker) / f"{topic}-0").glob("*.log"))[:-1]


def flip(path: Path, position: int) -> bytes:
    """Damage a byte in place; returns what the file held."""
    before = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([before[position] ^ 0x20]))
    return before


def filled(cluster: Cluster) -> tuple[str, Recorder]:
    topic = create_topic(cluster, "orders", partitions=1)
    recorder = Recorder(cluster, topic, partitions=1)
    for turn in range(12):
        recorder.produce(f"turn {turn}", 400)
        recorder.flush()
    assert recorder.failed == []
    return topic, recorder


def test_damaged_byte_of_the_leader_is_repaired_and_never_served(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides=SMALL_SEGMENTS).start()
    topic, recorder = filled(cluster)
    wait_for_isr(cluster, topic, 3)
    assert read_all(cluster, topic, 1) == recorder.acknowledged
    assert verified(cluster) == {0: [], 1: [], 2: []}
    at = leader(cluster, topic, 0)
    damaged = segments(cluster, at, topic)[:3]
    assert len(damaged) == 3
    before = [flip(path, 100 + number) for number, path in enumerate(damaged)]

    # Several at once: all of them wait for the repairs, and none is given a wrong byte.
    with ThreadPoolExecutor() as pool:
        reading = [pool.submit(read_from, cluster, topic) for _ in range(3)]
        values = list(recorder.acknowledged[0].values())
        assert all(one.result() == values for one in reading)
    assert read_all(cluster, topic, 1) == recorder.acknowledged
    assert [path.read_bytes() for path in damaged] == before
    (first, *others) = cluster.log_lines(at, " is damaged at byte ")
    assert "ERROR" in first
    assert f"{damaged[0]} is damaged at byte 0, offset 0; the damaged batch is not served" in first
    assert len(others) == 2
    assert len(cluster.log_lines(at, "are repaired, from broker")) == 3
    cluster.kill(at)
    wait_for_isr(cluster, topic, 3)
    assert read_all(cluster, topic, 1) == recorder.acknowledged


def test_scrub_repairs_damaged_batches_of_a_follower(new_cluster: NewCluster) -> None:
    cluster = new_cluster(overrides=SCRUBBED).start()
    topic, recorder = filled(cluster)
    wait_for_isr(cluster, topic, 3)
    follower = (leader(cluster, topic, 0) + 1) % 3
    flipped, cut, indexed = segments(cluster, follower, topic)[:3]
    index, times = indexed.with_suffix(".index"), indexed.with_suffix(".timeindex")
    wanted = {path: path.read_bytes() for path in (cut, index, times)}
    wanted[flipped] = flip(flipped, 200)
    cut.write_bytes(wanted[cut][:500])
    flip(times, 3)
    wait_until(
        lambda: all(path.read_bytes() == content for path, content in wanted.items()),
        "the follower's files to be repaired",
    )
    assert cluster.log_lines(follower, f"{flipped} is damaged at byte")
    assert cluster.log_lines(follower, f"{cut} is damaged at byte")
    for other in {0, 1, 2} - {follower}:
        cluster.kill(other, stay_down=True)
    wait_until(lambda: leader(cluster, topic, 0, follower) == follower, "the follower to lead")
    assert read_all(cluster, topic, 1) == recorder.acknowledged


def test_batches_damaged_on_every_replica_are_refused_and_others_served(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(overrides=SMALL_SEGMENTS).start()
    topic, recorder = filled(cluster)
    wait_for_isr(cluster, topic, 3)
    name = segments(cluster, 0, topic)[1].name
    for broker in range(3):
        path = cluster.log_dir(broker) / f"{topic}-0" / name
        flip(path, 120)
    header = read_header(path.read_bytes())
    assert verified(cluster) == {broker: [header.base_offset] for broker in range(3)}
    with pytest.raises(CorruptMessage):
        read_from(cluster, topic, header.base_offset)
    values = read_from(cluster, topic, header.last_offset + 1)
    assert len(values) == len(recorder.acknowledged[0]) - header.last_offset - 1
    at = leader(cluster, topic, 0)
    wait_until(lambda: cluster.log_lines(at, "cannot be repaired"), "the line about it")


def test_committed_offsets_survive_damage_on_the_next_coordinator(new_cluster: NewCluster) -> None:
    """Each follower has lost another part of the log when one of them takes over."""
    cluster = new_cluster(overrides=OFFSETS).start()
    topic = create_topic(cluster, "orders", partitions=30)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    places = [KafkaPartition(topic, number, number + 1, "x" * 300) for number in range(30)]
    try:
        for place in places:
            consumer.commit(offsets=[place], asynchronous=False)
        wait_for_isr(cluster, "__consumer_offsets", 3)
        at = leader(cluster, "__consumer_offsets", 0)
        for slot, follower in enumerate(sorted({0, 1, 2} - {at})):
            damaged = segments(cluster, follower, "__consumer_offsets")
            assert len(damaged) > 2
            flip(damaged[slot], 100)
        cluster.kill(at, stay_down=True)
        found = wait_until(
            lambda: committed(consumer, topic), "the offsets from the next coordinator"
        )
    finally:
        consumer.close()
    assert found == [place.offset for place in places]
    lines = [
        line
        for broker in {0, 1, 2} - {at}
        for line in cluster.log_lines(broker, "are repaired, from broker")
    ]
    assert lines


def committed(consumer: Consumer, topic: str) -> list[int] | None:
    try:
        asked = [KafkaPartition(topic, number) for number in range(30)]
        return [place.offset for place in consumer.committed(asked, timeout=5)]
    except KafkaException:
        return None


def verified(cluster: Cluster) -> dict[int, list[int]]:
    """The damaged offsets that `verify` finds of each broker, while the cluster runs."""
    done = cluster.command("verify", "--json", check=False)
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["is_good"] else 1)
    return {
        each["broker"]: [
            damage["offset"] for log in each["partitions"] for damage in log["damages"]
        ]
        for each in found["directories"]
    }


class CorruptMessage(Exception):
    """The broker has answered with this error."""


def read_from(cluster: Cluster, topic: str, offset: int = OFFSET_BEGINNING) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([KafkaPartition(topic, 0, offset)])
        values = []
        while True:
            message = consumer.poll(60)
            assert message is not None
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise CorruptMessage(error)
    finally:
        consumer.close()
