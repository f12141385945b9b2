"""Samples written and read through confluent-kafka (librdkafka), without consumer groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from tests.compat.samples import PARTITIONS, Sample

TIMEOUT_S = 60.0


@contextmanager
def assigning_consumer(bootstrap: str, **config: object) -> Iterator[Consumer]:
    """A consumer for manual assignment, which reports the ends of partitions."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none: partitions are assigned",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            **_with_dots(config),
        }
    )
    try:
        yield reader
    finally:
        reader.close()


def _with_dots(config: dict[str, object]) -> dict[str, object]:
    return {key.replace("_", "."): value for key, value in config.items()}


def produce(
    bootstrap: str, topic: str, samples: list[Sample], **config: object
) -> list[tuple[KafkaError | None, Message]]:
    """Produce and flush; what the delivery callback was given for each record."""
    delivered: list[tuple[KafkaError | None, Message]] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            **_with_dots(config),
        }
    )
    for sample in samples:
        producer.produce(
            topic,
            sample.value,
            sample.key,
            sample.partition,
            on_delivery=lambda error, message: delivered.append((error, message)),
            timestamp=sample.timestamp_ms,
            headers=list(sample.headers),
        )
    assert producer.flush(TIMEOUT_S) == 0
    return delivered


def read_all(consumer: Consumer, topic: str) -> dict[int, list[Sample]]:
    """Every record from the beginning to the present end, by partition; offsets are checked."""
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    records: dict[int, list[Sample]] = {p: [] for p in range(PARTITIONS)}
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message: Any = consumer.poll(TIMEOUT_S)
        assert message is not None, f"nothing more of {topic} after {records}"
        partition = message.partition()
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end.add(partition)
            continue
        assert message.offset() == len(records[partition])
        records[partition].append(
            Sample(
                partition,
                message.key(),
                message.value(),
                tuple(message.headers() or ()),
                message.timestamp()[1],
            )
        )
    return records
