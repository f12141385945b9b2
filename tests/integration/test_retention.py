"""Logs of a running cluster that end: old segments go on every replica, and readers hear of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.retried import retried
from tests.support.running_cluster import Cluster
from tests.support.topics import create_topic, leader, unique_name
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
SEGMENT_BYTES = 20_000
KEPT_BYTES = 60_000
SMALL = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "100"}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that looks for old segments several times a second."""
    overrides = {
        "log.retention.check.interval.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    with Cluster(tmp_path_factory.mktemp("retention"), overrides=overrides) as cluster:
        yield cluster


@pytest.fixture
def reader(busy: Cluster) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": busy.bootstrap,
            "group.id": "none: partitions are assigned",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    yield consumer
    consumer.close()


def produce(cluster: Cluster, topic: str, count: int, timestamp_ms: int | None = None) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,  # a repeated batch would be more records than asked for
            "batch.num.messages": 5,
        }
    )
    failures: list[Any] = []
    for number in range(count):
        options: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        producer.produce(
            topic,
            b"%d:" % number + bytes(1000),
            partition=0,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
            **options,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []


def files(cluster: Cluster, broker: int, topic: str, ending: str) -> list[Path]:
    return sorted((cluster.log_dir(broker) / f"{topic}-0").glob(f"*{ending}"))


def first_segment(cluster: Cluster, broker: int, topic: str) -> int:
    """The base offset of the oldest segment; -1 while there is none, as where a log begins anew."""
    return min((int(path.stem) for path in files(cluster, broker, topic, ".log")), default=-1)


def first_offset(reader: Consumer, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    low: int = retried(
        lambda: reader.get_watermark_offsets(partition, TIMEOUT_S), "the offsets of the topic"
    )[0]
    return low


def test_a_topic_keeps_its_size_on_every_replica(busy: Cluster, reader: Consumer) -> None:
    topic = create_topic(
        busy, unique_name("size"), configs={**SMALL, "retention.bytes": str(KEPT_BYTES)}
    )
    produce(busy, topic, 300)

    def is_cut(broker: int) -> bool:
        try:
            size = sum(path.stat().st_size for path in files(busy, broker, topic, ".log")[:-1])
        except FileNotFoundError:
            return False  # renamed in between
        return size < KEPT_BYTES + SEGMENT_BYTES and not files(busy, broker, topic, ".deleted")

    for broker in range(busy.size):
        wait_until(lambda broker=broker: is_cut(broker), f"broker {broker} to delete the rest")
    assert first_offset(reader, topic) >= 200
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    message: Any = reader.poll(TIMEOUT_S)
    assert message.error() is None
    assert message.value().startswith(b"%d:" % message.offset())
    lines = busy.log_lines(leader(busy, topic), f"{topic}-0: deleted ")
    assert f"due to log retention size {KEPT_BYTES} breach" in lines[0]


def test_retention_deletes_old_records_of_the_active_segment(
    busy: Cluster, reader: Consumer
) -> None:
    topic = create_topic(busy, unique_name("age"), configs={**SMALL, "retention.ms": "3600000"})
    produce(busy, topic, 3, timestamp_ms=1_600_000_000_000)
    wait_until(lambda: first_offset(reader, topic) == 3, "old records to go")
    produce(busy, topic, 1)
    reader.assign([TopicPartition(topic, 0, 0)])
    message: Any = reader.poll(TIMEOUT_S)
    assert message.error() is None
    assert message.offset() == 3


def test_deleted_records_stay_deleted_after_a_crash_and_a_change_of_leaders(
    busy: Cluster, reader: Consumer
) -> None:
    topic = create_topic(busy, unique_name("cut"), configs=SMALL)
    produce(busy, topic, 100)
    admin = AdminClient({"bootstrap.servers": busy.bootstrap})
    (future,) = admin.delete_records([TopicPartition(topic, 0, 70)]).values()
    assert future.result(TIMEOUT_S).low_watermark == 70
    for broker in range(busy.size):
        wait_until(
            lambda broker=broker: first_segment(busy, broker, topic) > 50,
            f"broker {broker} to delete segments",
        )
    before = leader(busy, topic)

    busy.kill(before)

    wait_until(lambda: leader(busy, topic) not in (-1, before), "another leader")
    assert first_offset(reader, topic) == 70
    busy.restart(before)
    assert first_offset(reader, topic) == 70


def test_follower_that_was_away_adopts_the_log_start_of_the_leader(
    new_cluster: Callable[..., Cluster],
) -> None:
    with new_cluster(overrides={"log.retention.check.interval.ms": "200"}) as cluster:
        topic = create_topic(cluster, configs={**SMALL, "retention.bytes": "0"})
        leading = leader(cluster, topic)
        away = (leading + 1) % cluster.size
        cluster.kill(away, stay_down=True)
        produce(cluster, topic, 100)
        wait_until(
            lambda: first_segment(cluster, leading, topic) == 100,
            "the leader to delete everything",
        )
        cluster.restart(away)
        wait_until(
            lambda: first_segment(cluster, away, topic) == 100,
            "the follower to begin there",
        )
